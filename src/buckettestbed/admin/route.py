"""The admin route: what is counted and logged, and the network model and faults, set at run time.

An ASGI application of its own, for a port of loopback: other machines never reach it, whatever they may read and write.
"""

import json
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from buckettestbed.admin.seeding import seed_objects
from buckettestbed.admin.uploads import open_uploads
from buckettestbed.faults.plan import FaultSet
from buckettestbed.network.model import NetworkModel, NetworkModelError
from buckettestbed.serving.application import Application
from buckettestbed.serving.messages import Body, BodyTooLargeError, DisconnectedError, parse_query
from buckettestbed.serving.receiving import AsgiReceive, BodyReceiver
from buckettestbed.serving.sending import AsgiSend

__all__ = ["Admin"]

_BODY_LIMIT_BYTES = 64 << 10

_OBJECTS_LIMIT_BYTES = 64 << 20
"""*Source*: ours; some 50,000 of the longest keys, which is a second's work."""

_HOSTS = ("127.0.0.1", "localhost")
"""Names by which a client of this machine asks for it. A page in a browser has another one, that of its own site, even
where DNS says that it is this address."""

_Answer = tuple[int, object]


class Admin:
    """Answers requests that are neither counted, logged nor shaped, and have no faults.

    - `GET /counts`: the counts, as `Counters.snapshot` has them.
    - `GET`, `PUT /network`: the network model; PUT replaces it by a JSON mapping.
    - `GET`, `PUT /faults`: the rules, with how many requests each matched and how many faults it injected; PUT replaces
      them by JSON, a mapping of seed and rules or a list of rules, and starts their draws and counts again.
    - `GET /requests?after=0`: the log above a number, as `RequestLog.page` has it.
    - `GET /uploads`: uploads that are open, as `open_uploads` has them.
    - `GET /snapshot`: counts, network, faults, uploads, and the state of the log, at one moment.
    - `GET /objects`: how many objects each bucket has.
    - `POST /objects`: puts objects into a bucket, as `seed_objects` has it, and answers how many.
    - `POST /reset`: the counts as they were; then they start again, and the log is empty.

    What PUT sets is for requests that begin later. A wrong path is answered 404, another method 405, a wrong body 400
    with the reason; the log, where the testbed keeps none, 409; a request that a page in a browser sent, 403.
    """

    def __init__(self, application: Application) -> None:
        self._of = application
        self._shown: dict[str, Callable[[], object]] = {
            "counts": application.counters.snapshot,
            "network": lambda: application.network_model.to_mapping(),
            "faults": lambda: application.faults.snapshot(),
            "uploads": lambda: open_uploads(application.buckets),
            "objects": lambda: {bucket.name: len(bucket.objects) for bucket in application.buckets},
            "snapshot": self._snapshot,
        }
        self._set: dict[str, Callable[[object], None]] = {
            "network": self._set_network,
            "faults": lambda value: application.set_faults(FaultSet.from_value(value)),
        }

    async def __call__(self, scope: MutableMapping[str, Any], receive: AsgiReceive, send: AsgiSend) -> None:
        """Answers one request, in JSON."""
        try:
            status, value = await self._answer(scope, Body(BodyReceiver(receive)))
        except DisconnectedError:
            return
        body = json.dumps(value).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Mapping[str, Any], body: Body) -> _Answer:
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        if host.partition(":")[0].lower() not in _HOSTS or b"origin" in headers:
            return _error(403, f"asked as {host!r}; only programs of this machine may, as {' or '.join(_HOSTS)}")
        method, name = scope["method"], scope["path"].removeprefix("/")
        if method == "GET" and name in self._shown:
            return 200, self._shown[name]()
        if method == "GET" and name == "requests":
            return self._requests(scope["query_string"])
        if method == "PUT" and name in self._set:
            return await self._replace(body, name)
        if method == "POST" and name == "reset":
            return 200, self._reset()
        if method == "POST" and name == "objects":
            return await self._seed(body)
        known = [*self._shown, "requests", "reset"]
        if name in known:
            return _error(405, f"{method} is not allowed on {name}")
        return _error(404, f"there is no {name!r}; there are {', '.join(known)}")

    async def _replace(self, body: Body, name: str) -> _Answer:
        try:
            self._set[name](json.loads(await body.read(_BODY_LIMIT_BYTES)))
        except (BodyTooLargeError, ValueError) as error:
            return _error(400, f"{name}: {error}")
        return 200, self._shown[name]()

    async def _seed(self, body: Body) -> _Answer:
        try:
            return 200, await seed_objects(self._of.buckets, await body.read(_OBJECTS_LIMIT_BYTES))
        except (BodyTooLargeError, ValueError) as error:
            return _error(400, f"objects: {error}")

    def _set_network(self, value: object) -> None:
        if not isinstance(value, dict):
            raise NetworkModelError(f"the body holds {type(value).__name__}; expected a mapping")
        self._of.set_network(NetworkModel.from_mapping(value))

    def _requests(self, query: bytes) -> _Answer:
        if self._of.log is None:
            return _error(409, "the testbed keeps no log of requests; start it with --log-requests")
        try:
            after = parse_query(query).get("after", "0")
        except ValueError:
            after = ""
        if not after.isascii() or not after.isdecimal() or len(after) > 18:
            return _error(400, f"after is {after!r}; expected the number of a request, or 0")
        return 200, self._of.log.page(int(after))

    def _reset(self) -> object:
        counts = self._of.counters.snapshot()
        self._of.counters.reset()
        if self._of.log is not None:
            self._of.log.reset()
        return counts

    def _snapshot(self) -> object:
        shown = {name: self._shown[name]() for name in ("counts", "network", "faults", "uploads")}
        return {**shown, "log": None if self._of.log is None else self._of.log.state()}


def _error(status: int, text: str) -> _Answer:
    return status, {"error": text}
