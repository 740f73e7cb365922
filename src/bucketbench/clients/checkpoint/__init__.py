"""Clients that save and load checkpoints; ``protocol`` says what such a client provides."""
