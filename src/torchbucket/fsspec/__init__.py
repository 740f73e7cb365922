"""Buckets as an fsspec file system, so that programs which know fsspec run on torchbucket's engine unchanged.

import torchbucket.fsspec

torchbucket.fsspec.register()  # from here on s3:// and gs:// are torchbucket's, in this process
"""

from __future__ import annotations

from torchbucket.fsspec.filesystem import BucketFileSystem, GcsBucketFileSystem, S3BucketFileSystem
from torchbucket.fsspec.registration import register, unregister

__all__ = ["BucketFileSystem", "GcsBucketFileSystem", "S3BucketFileSystem", "register", "unregister"]
