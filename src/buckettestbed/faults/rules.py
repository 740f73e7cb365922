"""One rule of faults: which requests it concerns, when it injects a fault, and which."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal, get_args

from buckettestbed.operations.names import LATE_ERRORS, LISTINGS, LISTINGS_BY_TOKEN, OPERATIONS, READS, WRITE_METHODS

__all__ = ["FaultError", "FaultKind", "FaultRule"]

FaultKind = Literal[
    "error",
    "error_after_200",
    "reset",
    "truncate",
    "stall",
    "delay",
    "drip",
    "corrupt",
    "stale_listing",
    "repeat_page",
    "skip_page",
    "empty_page",
    "lost_response",
    "reset_upload",
]
"""What can go wrong; `FaultRule` says what each means."""

_METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"})
_CODE = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
_MESSAGE_LIMIT_CHARACTERS = 500
_SECONDS_LIMIT = 3600.0
"""*Source*: ours; no client waits longer, and `stall` without `seconds` waits for ever."""


class FaultError(ValueError):
    """A rule, or a set of rules, holds a value that it cannot have, or a field that there is not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Kind:
    """What a kind of fault needs, may have, and concerns where its rule does not say.

    `operations`, `methods` and `dialect` also bound what the rule may name; None is every one.
    """

    needs: tuple[str, ...] = ()
    allows: tuple[str, ...] = ()
    operations: frozenset[str] | None = None
    methods: frozenset[str] | None = None
    dialect: Literal["s3", "gcs"] | None = None


_PLACE = ("after_bytes", "after_fraction")
_KINDS: Mapping[str, _Kind] = {
    "error": _Kind(needs=("status",), allows=("code", "message", "retry_after_s")),
    "error_after_200": _Kind(allows=("code", "message"), operations=LATE_ERRORS, dialect="s3"),
    "reset": _Kind(allows=_PLACE),
    "truncate": _Kind(allows=_PLACE),
    "stall": _Kind(allows=(*_PLACE, "seconds")),
    "delay": _Kind(needs=("seconds",)),
    "drip": _Kind(needs=("bytes_per_s",)),
    "corrupt": _Kind(allows=_PLACE, operations=READS),
    "stale_listing": _Kind(needs=("seconds",), operations=LISTINGS),
    "repeat_page": _Kind(operations=LISTINGS),
    "skip_page": _Kind(operations=LISTINGS),
    "empty_page": _Kind(operations=LISTINGS_BY_TOKEN),
    "lost_response": _Kind(methods=WRITE_METHODS),
    "reset_upload": _Kind(allows=("after_bytes",), methods=frozenset({"PUT", "POST"})),
}
_WHAT = ("status", "code", "message", "retry_after_s", "after_bytes", "after_fraction", "seconds", "bytes_per_s")


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultRule:
    """A rule: the requests that it matches, into which of them it injects a fault, and what the fault is.

    - `error`: the request has no effect; the provider's own error document answers it, with `status` and, where given,
      `code`, `message` and `retry_after_s`.
    - `error_after_200`: the request has no effect; the answer is 200, and its document S3's error, with `code` and
      `message` where given. S3 answers copies and completions so: their status is sent before they are done.
    - `reset`: TCP RST instead of an answer, and no effect. With a place the request takes effect, and the RST comes
      inside the answer's body.
    - `truncate`: the whole Content-Length is announced, and the connection ends cleanly (FIN) at the place, by default
      half of the body.
    - `stall`: nothing comes for `seconds`, by default until the client goes away, and then the rest: at the place, by
      default before the first byte.
    - `delay`: the first byte comes `seconds` later.
    - `drip`: the body comes at `bytes_per_s`.
    - `corrupt`: one byte of an object has another value, the length being right; at the place, by default a drawn one.
    - `stale_listing`: names that were written in the last `seconds` are not listed.
    - `repeat_page`: a listing's page after the first is answered with the page before it.
    - `skip_page`: a listing is answered with the page after the one that was asked for.
    - `empty_page`: a listing is answered with a page that holds nothing, and the token of the page that was asked for.
    - `lost_response`: a request that changes something takes effect; then TCP RST instead of an answer.
    - `reset_upload`: TCP RST after `after_bytes` of the request's body, by default at its first piece; no effect.

    A *place* is `after_bytes` or `after_fraction` of the answer's body; one at or beyond the end means the last byte,
    so that a body with a fault is never whole. An empty body has no place: its fault comes at the headers.

    Args:
        kind: what happens.
        operations: names that the counters have (`get_object`, `list_objects_v2`, ...); empty for all that the kind can
            concern.
        methods: HTTP methods; empty likewise.
        dialect: `s3` or `gcs`; None for both.
        bucket: pattern of the bucket's name: `*` is any text, `/` included, `?` one character, `[ab]` one of these.
        key: pattern of the key, or of a listing's prefix.
        nth: the nth matching request only, counted from 1 after those that `after` leaves alone.
        every: each `every`-th of these.
        probability: each of these with this probability, drawn from the seed.
        times: at most so many.
        after: leaves the first so many matching requests alone.
        status: of the answer, 400 to 599.
        code: the provider's word for the error; None for its usual one.
        message: its text; None for the usual one.
        retry_after_s: seconds in a Retry-After header; None for no header.
        after_bytes: where in the body, in bytes.
        after_fraction: where in the body, as a share of it: from 0 to below 1.
        seconds: how long, or for `stale_listing` how recent.
        bytes_per_s: bytes/s of `drip`.

    Raises:
        FaultError: a value is not valid, or is one that this kind would ignore; it names the field, the value and what
            is accepted.
    """

    kind: FaultKind
    operations: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    dialect: Literal["s3", "gcs"] | None = None
    bucket: str = "*"
    key: str = "*"
    nth: int | None = None
    every: int | None = None
    probability: float | None = None
    times: int | None = None
    after: int = 0
    status: int | None = None
    code: str | None = None
    message: str | None = None
    retry_after_s: int | None = None
    after_bytes: int | None = None
    after_fraction: float | None = None
    seconds: float | None = None
    bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(FaultKind):
            raise FaultError(f"kind is {self.kind!r}; expected one of {', '.join(get_args(FaultKind))}")
        kind = _KINDS[self.kind]
        self._names("operations", OPERATIONS, kind.operations)
        self._names("methods", _METHODS, kind.methods)
        if self.dialect not in (None, "s3", "gcs"):
            raise FaultError(f"dialect is {self.dialect!r}; expected s3, gcs, or none for both")
        if self.dialect is not None and kind.dialect not in (None, self.dialect):
            raise FaultError(f"dialect is {self.dialect!r}, which {self.kind} cannot concern; expected {kind.dialect}")
        for name in ("bucket", "key"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise FaultError(f"{name} is {getattr(self, name)!r}; expected a pattern, for example 'train/*'")
        for name, least in (("nth", 1), ("every", 1), ("times", 1), ("retry_after_s", 0), ("after_bytes", 0)):
            self._integer(name, least)
        if self.after is None:
            raise FaultError("after is None; expected an integer 0 or more")
        self._integer("after", 0)
        self._integer("status", 400, 599)
        self._number("probability", 0, 1)
        self._number("after_fraction", 0, 1, below=True)
        self._number("seconds", 0, _SECONDS_LIMIT)
        self._number("bytes_per_s", 1, math.inf)
        self._texts()
        self._combinations(kind)

    def _names(self, field: str, known: frozenset[str], concerned: frozenset[str] | None) -> None:
        names = getattr(self, field)
        if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
            raise FaultError(f"{field} is {names!r}; expected a list of names")
        for name in names:
            if name not in known:
                raise FaultError(f"{field} has {name!r}; expected any of {', '.join(sorted(known))}")
            if concerned is not None and name not in concerned:
                raise FaultError(
                    f"{field} has {name!r}, which {self.kind} cannot concern; expected any of"
                    f" {', '.join(sorted(concerned))}"
                )

    def _integer(self, name: str, least: int, most: int | None = None) -> None:
        value = getattr(self, name)
        if value is None:
            return
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or value < least
            or (most is not None and value > most)
        ):
            bound = f"{least} or more" if most is None else f"from {least} to {most}"
            raise FaultError(f"{name} is {value!r}; expected an integer {bound}")

    def _number(self, name: str, least: float, most: float, *, below: bool = False) -> None:
        value = getattr(self, name)
        if value is None:
            return
        fits = not isinstance(value, bool) and isinstance(value, int | float) and least <= value <= most
        if not fits or math.isinf(value) or (below and value == most):
            bound = f"{least} or more" if math.isinf(most) else f"from {least} to {'below ' if below else ''}{most:g}"
            raise FaultError(f"{name} is {value!r}; expected a number {bound}")

    def _texts(self) -> None:
        if self.code is not None and (not isinstance(self.code, str) or not _CODE.match(self.code)):
            raise FaultError(f"code is {self.code!r}; expected up to 64 of A-Z a-z 0-9 _ . -")
        if self.message is not None and (
            not isinstance(self.message, str)
            or len(self.message) > _MESSAGE_LIMIT_CHARACTERS
            or not self.message.isprintable()
        ):
            raise FaultError(
                f"message is {self.message!r}; expected up to {_MESSAGE_LIMIT_CHARACTERS} printable characters"
            )

    def _combinations(self, kind: _Kind) -> None:
        for name in kind.needs:
            if getattr(self, name) is None:
                raise FaultError(f"{name} is missing; {self.kind} needs it")
        usable = (*kind.needs, *kind.allows)
        for name in _WHAT:
            if getattr(self, name) is not None and name not in usable:
                accepted = f"it takes {', '.join(usable)}" if usable else "it takes none of these"
                raise FaultError(f"{name} is {getattr(self, name)!r}, which {self.kind} would ignore; {accepted}")
        if self.after_bytes is not None and self.after_fraction is not None:
            raise FaultError(
                f"after_bytes is {self.after_bytes} and after_fraction {self.after_fraction}; expected one of them"
            )
        for name in ("every", "probability", "times"):
            if self.nth is not None and getattr(self, name) is not None:
                raise FaultError(f"{name} is {getattr(self, name)!r} beside nth {self.nth}, which is just one request")
        if self.every is not None and self.probability is not None:
            raise FaultError(f"every is {self.every} and probability {self.probability}; expected one of them")

    @property
    def concerned_operations(self) -> frozenset[str] | None:
        """Names of the operations that the rule matches, or None for every one."""
        return frozenset(self.operations) if self.operations else _KINDS[self.kind].operations

    @property
    def concerned_dialect(self) -> Literal["s3", "gcs"] | None:
        """The dialect whose requests the rule matches, or None for both."""
        return self.dialect or _KINDS[self.kind].dialect

    @property
    def concerned_methods(self) -> frozenset[str] | None:
        """HTTP methods that the rule matches, or None for every one."""
        return frozenset(self.methods) if self.methods else _KINDS[self.kind].methods

    @classmethod
    def from_mapping(cls, values: object) -> "FaultRule":
        """Returns the rule for the fields given, the others at their defaults; raises FaultError for a wrong one."""
        if not isinstance(values, Mapping):
            raise FaultError(
                f"a rule is {type(values).__name__}; expected fields with their values, with kind at least"
            )
        known = [field.name for field in fields(cls)]
        unknown = sorted(str(name) for name in values if name not in known)
        if unknown:
            raise FaultError(f"unknown field {unknown[0]}; the fields are {', '.join(known)}")
        if "kind" not in values:
            raise FaultError(f"kind is missing; expected one of {', '.join(get_args(FaultKind))}")
        given: dict[str, Any] = {
            str(name): tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
            for name, value in values.items()
        }
        return cls(**given)

    def to_mapping(self) -> dict[str, object]:
        """Returns the fields that differ from their defaults, by name; tuples as lists."""
        shown = {
            field.name: getattr(self, field.name) for field in fields(self) if self._differs(field.name, field.default)
        }
        return {name: list(value) if isinstance(value, tuple) else value for name, value in shown.items()}

    def _differs(self, name: str, default: object) -> bool:
        return default is MISSING or getattr(self, name) != default
