"""The dataset scenario: how fast a client feeds a PyTorch training loop. ``scenarios/__init__`` says what is where."""
