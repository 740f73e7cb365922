"""Hydra finds plugins in packages of ``hydra_plugins``, and imports them in every Hydra program of the environment."""
