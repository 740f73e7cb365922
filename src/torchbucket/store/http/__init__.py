"""What the stores over HTTP have in common; what is a provider's own is its dialect."""
