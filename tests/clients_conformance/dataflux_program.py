"""gcs-torch-dataflux at work, in the interpreter of its own environment: one request a line in, one answer a line out.

A request is a JSON object with `call` and that function's arguments, an answer one with `result`, or with `error` and
`text` for an exception. Bytes are base64. The program ends with its input.
"""

from __future__ import annotations

import base64
import io
import json
import multiprocessing
import sys
from collections.abc import Callable
from typing import Any

from dataflux_core.fast_list import ListingController
from dataflux_pytorch.dataflux_checkpoint import DatafluxCheckpoint
from dataflux_pytorch.dataflux_iterable_dataset import Config as IterableConfig
from dataflux_pytorch.dataflux_iterable_dataset import DataFluxIterableDataset
from dataflux_pytorch.dataflux_mapstyle_dataset import Config as MapConfig
from dataflux_pytorch.dataflux_mapstyle_dataset import DataFluxMapStyleDataset
from dataflux_pytorch.multipart_upload.multipart import upload_chunks_concurrently_from_bytesio
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from google.cloud.storage.retry import DEFAULT_RETRY

PROJECT = "project"
CALLS: dict[str, Callable[..., Any]] = {}


def call(function: Callable[..., Any]) -> Callable[..., Any]:
    CALLS[function.__name__] = function
    return function


def client(place: dict[str, Any]) -> storage.Client:
    made = storage.Client(
        project=PROJECT, credentials=AnonymousCredentials(), client_options={"api_endpoint": place["endpoint"]}
    )
    if place["ca_certificate"]:
        made._http.verify = place["ca_certificate"]
    return made


def checkpoint(place: dict[str, Any]) -> DatafluxCheckpoint:
    return DatafluxCheckpoint(PROJECT, place["bucket"], storage_client=client(place))


@call
def save(place: dict[str, Any], key: str, pieces: list[str], fails: bool) -> None:
    with checkpoint(place).writer(key) as writer:
        for piece in pieces:
            writer.write(base64.b64decode(piece))
        if fails:
            raise RuntimeError("the block fails")


@call
def save_large(place: dict[str, Any], key: str, body: str, part_bytes: int) -> None:
    blob = client(place).bucket(place["bucket"]).blob(key)
    upload_chunks_concurrently_from_bytesio(io.BytesIO(base64.b64decode(body)), blob, chunk_size=part_bytes)


@call
def load(place: dict[str, Any], key: str) -> str:
    return base64.b64encode(checkpoint(place).reader(key).read()).decode()


@call
def listing(place: dict[str, Any], prefix: str, processes: int) -> list[tuple[str, int]]:
    lister = ListingController(
        max_parallelism=processes, project=PROJECT, bucket=place["bucket"], sort_results=True, prefix=prefix
    )
    lister.client = client(place)
    return lister.run()


@call
def data_set(place: dict[str, Any], kind: str, prefix: str, composes: bool) -> list[tuple[str, str]]:
    """Returns the names and contents that a data set of these objects yields, in its order."""
    configuration = (MapConfig if kind == "map" else IterableConfig)(
        prefix=prefix, num_processes=1, sort_listing_results=True, disable_compose=not composes
    )
    made = (DataFluxMapStyleDataset if kind == "map" else DataFluxIterableDataset)(
        PROJECT, place["bucket"], config=configuration, storage_client=client(place)
    )
    bodies = made.__getitems__(list(range(len(made)))) if kind == "map" else list(made)
    names = [name for name, _ in made.objects]
    return [(name, base64.b64encode(body).decode()) for name, body in zip(names, bodies, strict=True)]


def main() -> None:
    # The checkpoint takes no retry, and two minutes of attempts are too long for those that must fail.
    DEFAULT_RETRY._timeout = DEFAULT_RETRY._deadline = 0.1
    multiprocessing.set_start_method("fork")  # What it is made for: workers take the client over.
    answers = sys.stdout
    sys.stdout = sys.stderr  # Whatever is printed is no answer.
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"result": CALLS[request.pop("call")](**request)}
        except Exception as error:  # noqa: BLE001 - the other side tells errors apart
            answer = {"error": type(error).__name__, "text": str(error)}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
