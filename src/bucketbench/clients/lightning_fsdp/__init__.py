"""Clients that give Lightning's trainer a strategy; ``protocol`` says what such a client provides."""
