"""What S3 refuses as a new bucket's name beyond what no provider takes."""

__all__ = ["is_name_of_s3"]

_RESERVED_BEGINNINGS = ("xn--", "sthree-", "amzn-s3-demo-")
_RESERVED_ENDS = ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")
"""*Source*: Amazon S3 user guide, general purpose bucket naming rules."""


def is_name_of_s3(name: str) -> bool:
    """Returns whether S3 would make a bucket of a name that the model takes: one without the underscore that Cloud
    Storage alone allows, and not of the forms that S3 keeps for itself."""
    return "_" not in name and not name.startswith(_RESERVED_BEGINNINGS) and not name.endswith(_RESERVED_ENDS)
