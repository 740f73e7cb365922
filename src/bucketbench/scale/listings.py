"""Listing a prefix: by each rank, or by one that leaves a manifest for the others."""

from __future__ import annotations

from typing import Final

from bucketbench.clients.expected.transfers import (
    LISTED_AT_ONCE,
    MANIFEST_BYTES_PER_NAME,
    NAME_BYTES,
    Transfers,
    store_settings,
)
from bucketbench.configuration.settings import JobSettings
from bucketbench.scale.settings import ScaleSettings
from bucketbench.scale.steps import Operation, Step
from bucketbench.scenarios.listing.settings import ListingSettings

__all__ = ["ListingModel"]

_HELD_BYTES_PER_NAME: Final = {"s3": 46, "gs": 38}  # with versions; source: docs/listing.md


class ListingModel:
    """The listings of the listing scenario, with any number of ranks.

    Args:
        settings: of the scenario.
    """

    clients: Final = {"listing": ("bucketbench.clients.listing.torchbucket.TorchbucketColumns",)}

    def __init__(self, settings: JobSettings, scale: ScaleSettings) -> None:
        del scale
        assert isinstance(settings, ListingSettings)
        scheme = str(settings.config["target"]["scheme"])
        self._transfers = Transfers(config=store_settings(settings.client.options, known=()), scheme=scheme)
        self._names = settings.names.count

    def operations(self, world_size: int) -> list[Operation]:
        """Each rank lists; one lists, and all read its manifest."""
        transfers, names = self._transfers, self._names
        held = {"names of a rank": names * _HELD_BYTES_PER_NAME[transfers.scheme]}
        manifest_bytes = names * MANIFEST_BYTES_PER_NAME[transfers.scheme]
        listing, names_bytes = transfers.list_ranges(names), names * NAME_BYTES
        in_flight = transfers.config.concurrency
        return [
            Operation(
                name="listing by each rank",
                steps=(
                    Step.of_each(
                        "listing",
                        listing,
                        processes=world_size,
                        received_bytes=names_bytes,
                        in_flight=LISTED_AT_ONCE,
                    ),
                ),
                memory=held,
            ),
            Operation(
                name="one listing, and a manifest",
                steps=(
                    Step.of_each("listing", listing, received_bytes=names_bytes, in_flight=LISTED_AT_ONCE),
                    Step.of_each(
                        "writing the manifest",
                        transfers.write(manifest_bytes),
                        sent_bytes=manifest_bytes,
                        in_flight=in_flight,
                    ),
                    Step.of_each(
                        "reading it",
                        transfers.read_unknown(manifest_bytes),
                        processes=world_size,
                        received_bytes=manifest_bytes,
                        in_flight=in_flight,
                    ),
                ),
                memory=held,
                stored_bytes=manifest_bytes,
            ),
        ]
