"""The listing scenario: how fast a client lists a prefix, completely. ``scenarios/__init__`` says what is where."""
