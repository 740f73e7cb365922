"""Clients of the listing scenario as a user might write them, with a fault each: boto3's names, one thing changed.

This file is copied into a temporary folder and found there by ``--config-dir``.
"""

from itertools import islice

from bucketbench.clients.listing.boto3 import Boto3Pages


class Missing(Boto3Pages):
    def names(self, target):
        return islice(super().names(target), 1, None)


class Duplicated(Boto3Pages):
    def names(self, target):
        found = list(super().names(target))
        return [*found, found[7]]


class WrongSize(Boto3Pages):
    def names(self, target):
        return [(key, size + (key.endswith("7"))) for key, size in super().names(target)]
