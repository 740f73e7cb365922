"""What the model refuses, which a dialect turns into its provider's error, and what is wrong with a directory."""

__all__ = [
    "BucketExistsError",
    "BucketMissingError",
    "BucketNotEmptyError",
    "DirectoryError",
    "DirectoryInUseError",
    "ForeignDirectoryError",
    "InvalidBucketNameError",
    "ModelError",
    "ObjectChangedError",
    "UploadMissingError",
]


class ModelError(Exception):
    """An operation the model refuses; a dialect turns it into its provider's error."""


class InvalidBucketNameError(ModelError):
    """The name breaks the naming rules."""


class BucketMissingError(ModelError):
    """No bucket has this name."""


class BucketExistsError(ModelError):
    """A bucket has this name already."""


class BucketNotEmptyError(ModelError):
    """The bucket still has objects."""


class ObjectChangedError(ModelError):
    """The object was replaced or deleted between the request and the change it asked for."""


class UploadMissingError(ModelError):
    """No open upload has this id, in this bucket, for this key."""


class DirectoryError(Exception):
    """The directory cannot be used, is none of a testbed's, or holds what is not an object."""


class DirectoryInUseError(DirectoryError):
    """Another testbed serves the directory."""


class ForeignDirectoryError(DirectoryError):
    """The directory holds something and is none of a testbed's, or one of another format."""
