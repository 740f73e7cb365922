"""A search for the settings with the best throughput within a limit of memory, and what it would cost to be wrong."""
