"""Clients that give Lightning's trainer a ``CheckpointIO``; ``protocol`` says what such a client provides."""
