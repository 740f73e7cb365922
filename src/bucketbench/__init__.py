"""The harness that measures, on the user's own machine, which storage client is fastest and how surely."""
