"""What the testbed tells of itself: counts, the log of requests, and the route that shows and sets them."""
