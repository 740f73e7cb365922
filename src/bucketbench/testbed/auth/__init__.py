"""Credentials and their verification, for a testbed that refuses requests without them."""
