"""The admin route: counts, the network model at run time, open uploads. Under a path that no bucket's name can
begin."""

import json
from collections.abc import Callable

from bucketbench.testbed.admin.counters import Counters
from bucketbench.testbed.model.objects import Buckets
from bucketbench.testbed.network.model import NetworkModel, NetworkModelError
from bucketbench.testbed.serving.messages import BodyTooLargeError, Request, Response

__all__ = ["ADMIN_PATH", "Admin"]

ADMIN_PATH = "/_testbed"
"""S3 allows no underscore in a bucket's name."""

_BODY_LIMIT_BYTES = 64 << 10


class Admin:
    """Answers requests under `/_testbed/`: they are neither counted nor shaped.

    | request | answer |
    |---|---|
    | `GET /_testbed/counts` | the counts, as `Counters.snapshot` has them |
    | `POST /_testbed/reset` | the counts as they were; then they start again |
    | `GET`, `PUT /_testbed/network` | the network model; PUT replaces it by a JSON mapping for requests that begin
    later | | `GET /_testbed/uploads` | open uploads: bucket, key, id, seconds since the epoch, parts, bytes |
    """

    def __init__(
        self,
        *,
        counters: Counters,
        buckets: Buckets,
        network: Callable[[], NetworkModel],
        set_network: Callable[[NetworkModel], None],
    ) -> None:
        self._counters = counters
        self._buckets = buckets
        self._network = network
        self._set_network = set_network

    async def answer(self, request: Request) -> Response:
        """Returns the answer; 404 for another path, 405 for another method, 400 for a model that is not valid."""
        name = request.raw_path.decode("latin-1").removeprefix(ADMIN_PATH + "/")
        match (request.method, name):
            case ("GET", "counts"):
                return _json(200, self._counters.snapshot())
            case ("POST", "reset"):
                snapshot = self._counters.snapshot()
                self._counters.reset()
                return _json(200, snapshot)
            case ("GET", "network"):
                return _json(200, self._network().to_mapping())
            case ("PUT", "network"):
                return await self._replace_network(request)
            case ("GET", "uploads"):
                return _json(200, self._open_uploads())
            case (_, "counts" | "reset" | "network" | "uploads"):
                return _json(405, {"error": f"{request.method} is not allowed on {name}"})
        return _json(404, {"error": f"there is no {name!r}; there are counts, reset, network and uploads"})

    async def _replace_network(self, request: Request) -> Response:
        try:
            values = json.loads(await request.body.read(_BODY_LIMIT_BYTES))
            if not isinstance(values, dict):
                raise NetworkModelError(f"the body holds {type(values).__name__}; expected a mapping")
            self._set_network(NetworkModel.from_mapping(values))
        except (BodyTooLargeError, ValueError) as error:
            return _json(400, {"error": str(error)})
        return _json(200, self._network().to_mapping())

    def _open_uploads(self) -> list[dict[str, object]]:
        return [
            {
                "bucket": bucket.name,
                "key": upload.key,
                "id": upload.id,
                "created_s": upload.created_s,
                "parts": len(upload.parts),
                "bytes": sum(part.content.size_bytes for part in upload.parts.values()),
            }
            for bucket in self._buckets
            for upload in bucket.uploads.values()
        ]


def _json(status: int, value: object) -> Response:
    return Response(status=status, headers=[(b"content-type", b"application/json")], body=json.dumps(value).encode())
