"""Models: what is done with the samples, from nothing at all to real training steps."""
