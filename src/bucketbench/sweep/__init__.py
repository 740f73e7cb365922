"""A sweep: its points composed and checked, its jobs run one after another, each in a process of its own."""
