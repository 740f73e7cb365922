"""One S3 operation on its way."""

from dataclasses import dataclass

from buckettestbed.rest.call import Call
from buckettestbed.s3.completed import CompletedUploads

__all__ = ["S3Call"]


@dataclass(frozen=True, kw_only=True, slots=True)
class S3Call(Call):
    """What a handler of S3 receives beside what both providers' do: the uploads that were completed lately."""

    completed: CompletedUploads
