"""A folder of a user's own: the configuration and the run scripts, away from the repository."""
