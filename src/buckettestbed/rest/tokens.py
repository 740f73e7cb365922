"""Tokens of listings' pages: opaque to a client, the name that the page begins after to us."""

import base64
import binascii

__all__ = ["name_in_token", "token_after"]

_MARK = ">"
"""Before the name, so that the token of a page at the very beginning is no empty text, which would be no token."""


def token_after(name: str) -> str:
    """Returns the token of the page that begins after a name, or at the beginning after the empty one."""
    return base64.urlsafe_b64encode((_MARK + name).encode()).decode()


def name_in_token(token: str) -> str:
    """Returns the name that a token holds; raises ValueError for a text that is no token."""
    try:
        text = base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError):
        text = ""
    if not text.startswith(_MARK):
        raise ValueError("it is not a token that a listing returned")
    return text.removeprefix(_MARK)
