"""Random operations over every store at once, held against a dictionary: contents, versions, conditions, listings."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from examples import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from buckettestbed.launch import RunningTestbed, launch_testbed
from torchbucket.config import MIB, RetryConfig, StoreConfig
from torchbucket.errors import NotFoundError, ObjectChangedError, PreconditionFailedError, UnsupportedError
from torchbucket.store import ObjectInfo, Read, Store, open_store

PART = 5 * MIB
_numbers = itertools.count()

keys = st.sampled_from(["a", "a.b/c", "ü/日 ?#%"])  # few, so that their histories grow long
small = st.binary(max_size=20)
contents = st.one_of(small, small, small, small, st.sampled_from([b"p" * (PART + 1), b"q" * (PART + 1)]))
ages = st.integers(0, 2)
faults = st.sampled_from(
    [
        [],
        [{"kind": "error", "status": 503, "probability": 0.1}],
        [{"kind": "reset", "probability": 0.1, "methods": ["GET", "HEAD"]}],
        [{"kind": "truncate", "probability": 0.1, "methods": ["GET"]}],
        [{"kind": "lost_response", "probability": 0.1, "operations": ["put_object", "complete_upload", "upload_part"]}],
    ]
)


@contextmanager
def opened(testbed: RunningTestbed) -> Iterator[dict[str, Store]]:
    number = next(_numbers)
    settings_of = {
        "part_size_bytes": PART,
        "list_page_size": 2,
        "hedge_share": 0.0,
        "retry": RetryConfig(initial_s=0.0, maximum_s=0.0, max_attempts=30),
    }
    with tempfile.TemporaryDirectory() as directory:
        stores = {
            "memory": open_store(f"memory://model-{number}"),
            "file": open_store(f"file://{directory}"),
            "s3": open_store(
                "s3://s3-bucket", StoreConfig(endpoint=testbed.s3_endpoint, anonymous=True, region="r", **settings_of)
            ),
            "gs": open_store("gs://gs-bucket", StoreConfig(endpoint=testbed.gcs_endpoint, **settings_of)),
        }
        try:
            yield stores
        finally:
            for store in stores.values():
                store.close()


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["s3-bucket", "gs-bucket"]) as running:
        yield running


class StoreMachine(RuleBasedStateMachine):
    """``model`` has what must be readable; ``versions`` those that each store gave a key, the newest last."""

    testbed: RunningTestbed

    @initialize()
    def begin(self) -> None:
        self.context = opened(self.testbed)
        self.stores = self.context.__enter__()
        for store in (self.stores["s3"], self.stores["gs"]):
            for info in list(store.list()):
                store.delete(info.key)
        self.model: dict[str, bytes] = {}
        self.versions: dict[tuple[str, str], list[str | None]] = {}

    def note(self, name: str, info: ObjectInfo) -> None:
        assert info.size_bytes == len(self.model[info.key])
        self.versions.setdefault((name, info.key), []).append(info.version)

    def version(self, name: str, key: str, age: int) -> str | None:
        known = self.versions.get((name, key), [])
        return known[-1 - age] if age < len(known) else None

    def is_current(self, key: str, age: int) -> bool:
        return age == 0 and key in self.model

    @rule(rules=faults, seed=st.integers(0, 1000))
    def break_things(self, rules: list[dict[str, object]], seed: int) -> None:
        self.testbed.set_faults({"seed": seed, "rules": rules})

    @rule(key=keys, content=contents, if_absent=st.booleans(), streamed=st.booleans())
    def write(self, key: str, content: bytes, if_absent: bool, streamed: bool) -> None:
        refused = if_absent and key in self.model
        if not refused:
            self.model[key] = content
        for name, store in self.stores.items():
            try:
                if streamed:
                    with store.open_writer(key, if_absent=if_absent) as writer:
                        writer.write(content)
                        writer.close()
                        info = writer.info
                else:
                    info = store.write(key, content, if_absent=if_absent)
            except PreconditionFailedError:
                assert refused, name
            else:
                assert not refused, name
                self.note(name, info)

    @rule(key=keys, content=contents, age=ages)
    def write_if_version(self, key: str, content: bytes, age: int) -> None:
        if self.version("memory", key, age) is None:
            return
        allowed = self.is_current(key, age)
        if allowed:
            self.model[key] = content
        for name, store in self.stores.items():
            version = self.version(name, key, age)
            if name in ("s3", "file") and not allowed and version == self.version(name, key, 0) and key in self.model:
                continue  # The same bytes have the same ETag on S3, whatever was there between.
            try:
                info = store.write(key, content, if_version=version)
            except PreconditionFailedError:
                assert not allowed, name
            else:
                assert allowed, name
                self.note(name, info)

    @rule(key=keys, age=st.none() | ages)
    def delete(self, key: str, age: int | None) -> None:
        if age is not None and self.version("memory", key, age) is None:
            return
        refused = age not in (None, 0) and key in self.model
        for name, store in self.stores.items():
            version = None if age is None else self.version(name, key, age)
            if refused and version == self.version(name, key, 0):
                continue  # As above.
            try:
                store.delete(key, if_version=version)
            except PreconditionFailedError:
                assert refused, name
            else:
                assert not refused, name
        if not refused:
            self.model.pop(key, None)

    @rule(source=keys, target_key=keys)
    def copy(self, source: str, target_key: str) -> None:
        there = source in self.model and source != target_key
        if there:
            self.model[target_key] = self.model[source]
        for name, store in self.stores.items():
            if source == target_key:
                continue  # S3 refuses it, by its rules.
            try:
                info = store.copy(source, target_key)
            except NotFoundError:
                assert not there, name
            else:
                assert there, name
                self.note(name, info)

    @rule(sources=st.lists(keys, max_size=4), target_key=keys, ages_of=st.lists(ages, min_size=4, max_size=4))
    def compose(self, sources: list[str], target_key: str, ages_of: list[int]) -> None:
        if not all(source in self.model for source in sources):
            return
        stale = any(
            age and self.version("memory", source, age) is not None
            for source, age in zip(sources, ages_of, strict=False)
        )
        joined = b"".join(self.model[source] for source in sources)
        infos = {
            name: [
                ObjectInfo(
                    key=source,
                    size_bytes=len(self.model[source]),
                    version=self.version(name, source, age) if age else self.version(name, source, 0),
                )
                for source, age in zip(sources, ages_of, strict=False)
            ]
            for name in self.stores
        }
        if not stale:
            self.model[target_key] = joined
        for name, store in self.stores.items():
            if name == "s3":
                with pytest.raises(UnsupportedError):
                    store.compose(infos[name], target_key)
                info = store.write(target_key, joined) if not stale else None
            else:
                try:
                    info = store.compose(infos[name], target_key)
                except ObjectChangedError:
                    assert stale, name
                    continue
                assert not stale, name
            if info is not None:
                self.note(name, info)

    @invariant()
    def every_store_has_what_the_model_has(self) -> None:
        if not hasattr(self, "stores"):
            return
        expected = [(key, len(self.model[key])) for key in sorted(self.model, key=str.encode)]
        for name, store in self.stores.items():
            assert [(info.key, info.size_bytes) for info in store.list()] == expected, name
            for key, content in self.model.items():
                found = store.submit_read(
                    Read(key=key, size_bytes=len(content), version=self.version(name, key, 0))
                ).result(60)
                assert found.data == content, name

    def teardown(self) -> None:
        if hasattr(self, "stores"):
            self.testbed.set_faults([])
            assert self.testbed.open_uploads() == []
            self.context.__exit__(None, None, None)


def test_stores_are_dictionaries(testbed: RunningTestbed) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    StoreMachine.testbed = testbed
    run_state_machine_as_test(StoreMachine, settings=settings(max_examples=examples(6), stateful_step_count=15))
