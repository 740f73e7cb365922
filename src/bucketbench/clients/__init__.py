"""Clients under comparison, one file each; a configuration names one by the path of its class."""
