"""One job: what a launcher runs, on any machine, and the measured process that it starts."""
