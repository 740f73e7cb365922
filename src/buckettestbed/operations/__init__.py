"""The names of operations, of every dialect: what a request asks for. Knows nothing of what serves it."""
