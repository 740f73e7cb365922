"""From a socket to a dialect and back: HTTP, shaping and sending; knows no provider's requests."""
