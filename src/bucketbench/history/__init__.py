"""Many runs of the same measurement: how each client's figures went over time, and which run changed them."""
