"""Several machines that run one sweep: each runs the same command, and node 0 has the results."""
