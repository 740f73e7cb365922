"""One run against another: what became better or worse, and how surely."""
