"""The configuration of a job: its schema, where its files lie, and what a composed one says."""
