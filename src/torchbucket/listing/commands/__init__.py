"""The subcommands of ``torchbucket`` that list."""
