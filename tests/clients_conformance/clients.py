"""The clients under test, in the order of the table's columns."""

from __future__ import annotations

from client_boto3 import Boto3
from client_dataflux import Dataflux
from client_gcsfs import Gcsfs
from client_google import GoogleResumable, GoogleSimple, GoogleTransferManager
from client_obstore import ObstoreGcs, ObstoreS3
from client_s3fs import S3fs
from client_s3torchconnector import S3TorchConnector
from client_shape import Client

__all__ = ["CLIENTS"]

CLIENTS: dict[str, type[Client]] = {
    kind.name: kind
    for kind in (
        Boto3,
        ObstoreS3,
        S3TorchConnector,
        S3fs,
        ObstoreGcs,
        GoogleSimple,
        GoogleResumable,
        GoogleTransferManager,
        Gcsfs,
        Dataflux,
    )
}
