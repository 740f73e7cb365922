"""The admin route: what is counted and logged, and what shapes and strikes requests, at run time. Under a path that no
bucket's name can begin."""

import json
from collections.abc import Callable
from typing import Protocol

from buckettestbed.admin.counters import Counters
from buckettestbed.admin.log import RequestLog
from buckettestbed.admin.seeding import seed_objects
from buckettestbed.admin.uploads import open_uploads
from buckettestbed.faults.plan import FaultPlan, FaultSet
from buckettestbed.model.objects import Buckets
from buckettestbed.network.model import NetworkModel, NetworkModelError
from buckettestbed.serving.messages import BodyTooLargeError, Request, Response, parse_query

__all__ = ["ADMIN_PATH", "Admin", "Administered"]

ADMIN_PATH = "/_testbed"
"""S3 allows no underscore in a bucket's name."""

_BODY_LIMIT_BYTES = 64 << 10

_OBJECTS_LIMIT_BYTES = 64 << 20
"""*Source*: ours; some 50,000 of the longest keys, which is a second's work."""


class Administered(Protocol):
    """What the route shows and sets: the application."""

    counters: Counters
    buckets: Buckets
    log: RequestLog | None

    @property
    def network_model(self) -> NetworkModel:
        """The network model's fields."""

    @property
    def faults(self) -> FaultPlan:
        """What goes wrong."""

    def set_network(self, model: NetworkModel) -> None:
        """Shapes requests that begin from now on by another model."""

    def set_faults(self, faults: FaultSet) -> None:
        """Draws faults for requests that begin from now on by other rules."""


class Admin:
    """Answers requests under `/_testbed/`: they are neither counted, logged, shaped nor struck.

    - `GET /_testbed/counts`: the counts, as `Counters.snapshot` has them.
    - `GET`, `PUT /_testbed/network`: the network model; PUT replaces it by a JSON mapping.
    - `GET`, `PUT /_testbed/faults`: the rules, with how many requests each matched and struck; PUT replaces them by
      JSON, a mapping of seed and rules or a list of rules, and starts their draws and counts again.
    - `GET /_testbed/requests?after=0`: the log above a number, as `RequestLog.page` has it.
    - `GET /_testbed/uploads`: uploads that are open, as `open_uploads` has them.
    - `GET /_testbed/snapshot`: counts, network, faults, uploads, and the state of the log, at one moment.
    - `GET /_testbed/objects`: how many objects each bucket has.
    - `POST /_testbed/objects`: puts objects into a bucket, as `seed_objects` has it, and answers how many.
    - `POST /_testbed/reset`: the counts as they were; then they start again, and the log is empty.

    What PUT sets is for requests that begin later. A wrong path is answered 404, another method 405, a wrong body 400
    with the reason; the log, where the testbed keeps none, 409.
    """

    def __init__(self, administered: Administered) -> None:
        self._of = administered
        self._shown: dict[str, Callable[[], object]] = {
            "counts": administered.counters.snapshot,
            "network": lambda: administered.network_model.to_mapping(),
            "faults": lambda: administered.faults.snapshot(),
            "uploads": lambda: open_uploads(administered.buckets),
            "objects": lambda: {bucket.name: len(bucket.objects) for bucket in administered.buckets},
            "snapshot": self._snapshot,
        }
        self._set: dict[str, Callable[[object], None]] = {
            "network": self._set_network,
            "faults": lambda value: administered.set_faults(FaultSet.from_value(value)),
        }

    async def answer(self, request: Request) -> Response:
        """Returns the answer."""
        name = request.raw_path.decode("latin-1").removeprefix(ADMIN_PATH + "/")
        if request.method == "GET" and name in self._shown:
            return _json(200, self._shown[name]())
        if request.method == "GET" and name == "requests":
            return self._requests(request)
        if request.method == "PUT" and name in self._set:
            return await self._replace(request, name)
        if request.method == "POST" and name == "reset":
            return _json(200, self._reset())
        if request.method == "POST" and name == "objects":
            return await self._seed(request)
        known = [*self._shown, "requests", "reset"]
        if name in known:
            return _error(405, f"{request.method} is not allowed on {name}")
        return _error(404, f"there is no {name!r}; there are {', '.join(known)}")

    async def _replace(self, request: Request, name: str) -> Response:
        try:
            self._set[name](json.loads(await request.body.read(_BODY_LIMIT_BYTES)))
        except (BodyTooLargeError, ValueError) as error:
            return _error(400, f"{name}: {error}")
        return _json(200, self._shown[name]())

    async def _seed(self, request: Request) -> Response:
        try:
            return _json(200, await seed_objects(self._of.buckets, await request.body.read(_OBJECTS_LIMIT_BYTES)))
        except (BodyTooLargeError, ValueError) as error:
            return _error(400, f"objects: {error}")

    def _set_network(self, value: object) -> None:
        if not isinstance(value, dict):
            raise NetworkModelError(f"the body holds {type(value).__name__}; expected a mapping")
        self._of.set_network(NetworkModel.from_mapping(value))

    def _requests(self, request: Request) -> Response:
        if self._of.log is None:
            return _error(409, "the testbed keeps no log of requests; start it with --log-requests")
        try:
            after = parse_query(request.raw_query).get("after", "0")
        except ValueError:
            after = ""
        if not after.isascii() or not after.isdecimal() or len(after) > 18:
            return _error(400, f"after is {after!r}; expected the number of a request, or 0")
        return _json(200, self._of.log.page(int(after)))

    def _reset(self) -> object:
        counts = self._of.counters.snapshot()
        self._of.counters.reset()
        if self._of.log is not None:
            self._of.log.reset()
        return counts

    def _snapshot(self) -> object:
        shown = {name: self._shown[name]() for name in ("counts", "network", "faults", "uploads")}
        return {**shown, "log": None if self._of.log is None else self._of.log.state()}


def _error(status: int, text: str) -> Response:
    return _json(status, {"error": text})


def _json(status: int, value: object) -> Response:
    return Response(status=status, headers=[(b"content-type", b"application/json")], body=json.dumps(value).encode())
