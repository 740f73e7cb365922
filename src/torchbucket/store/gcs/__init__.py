"""Cloud Storage, by its JSON and XML APIs."""
