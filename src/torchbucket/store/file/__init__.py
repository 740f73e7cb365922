"""Directories of this machine."""
