"""Which data sets share a store, and that two threads never open two."""

from __future__ import annotations

import gc
import os
import threading
import weakref

import pytest

from torchbucket import MapDataset, StoreConfig
from torchbucket.store.shared import shared_store
from torchbucket.uri import ObjectURI

BUCKET = ObjectURI.parse("s3://bucket/some/prefix")
CONFIG = StoreConfig(endpoint="http://127.0.0.1:9", anonymous=True)


def test_the_same_bucket_and_settings_are_one_store():
    store = shared_store(BUCKET, CONFIG)
    assert shared_store(ObjectURI.parse("s3://bucket/other"), StoreConfig(**_fields(CONFIG))) is store
    assert shared_store(ObjectURI.parse("s3://other/some/prefix"), CONFIG) is not store
    assert shared_store(BUCKET, StoreConfig(endpoint="http://127.0.0.1:9")) is not store


def _fields(config):
    return {"endpoint": config.endpoint, "anonymous": config.anonymous}


def test_another_environment_is_another_store(monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "one")
    store = shared_store(BUCKET, CONFIG)
    monkeypatch.setenv("AWS_PROFILE", "two")
    assert shared_store(BUCKET, CONFIG) is not store
    monkeypatch.setenv("AWS_PROFILE", "one")
    assert shared_store(BUCKET, CONFIG) is store


def test_a_store_ends_with_its_last_user():
    ended = weakref.ref(shared_store(BUCKET, CONFIG))
    gc.collect()
    assert ended() is None


def test_many_data_sets_of_one_bucket_share_its_connections():
    datasets = [MapDataset.from_objects([f"s3://bucket/{number}"], config=CONFIG) for number in range(48)]
    assert len({id(dataset._source.store) for dataset in datasets}) == 1


@pytest.mark.parametrize("attempt", range(5))
def test_threads_that_begin_together_read_through_one_store(attempt):
    dataset = MapDataset.from_objects([f"s3://bucket-{attempt}/object"], config=CONFIG)
    barrier = threading.Barrier(8)
    found = []

    def use():
        barrier.wait()
        found.append(dataset._source.store)

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(map(id, found))) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_while_the_lock_is_held_opens_its_stores():
    from torchbucket.store import shared

    with shared._shared.lock:
        pid = os.fork()
        if pid == 0:
            done = threading.Thread(target=shared_store, args=(BUCKET, CONFIG))
            done.start()
            done.join(20)
            os._exit(1 if done.is_alive() else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
