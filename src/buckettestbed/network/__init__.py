"""The network model: what it says, and how requests are made to obey it."""
