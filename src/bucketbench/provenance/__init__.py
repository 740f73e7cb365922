"""What a result was measured on and with: the host, the commit and the versions."""
