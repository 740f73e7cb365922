"""Clients of the listing scenario as a user might write them, with a fault each: the right names, one thing changed."""

from bucketbench.scenarios.listing.names import NamesSpec


class _Right:
    def names(self, target):
        return list(NamesSpec(count=30, shape="numbers", max_size_bytes=16).objects(target.prefix))


class Missing(_Right):
    def names(self, target):
        return super().names(target)[1:]


class Duplicated(_Right):
    def names(self, target):
        found = super().names(target)
        return [*found, found[7]]


class WrongSize(_Right):
    def names(self, target):
        return [(key, size + (key.endswith("7"))) for key, size in super().names(target)]
