"""What to take of all that a run tried: which client and settings, how surely, and what being wrong would cost."""
