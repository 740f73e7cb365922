"""Buckets, objects, uploads and their bytes, apart from any protocol."""
