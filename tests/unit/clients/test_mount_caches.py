"""A mount that keeps content on this machine is found out: by the page cache, and by how its program was started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from bucketbench.clients.mount import Mount
from bucketbench.clients.mount_caches import caching_options, kept_bytes, mount_cache
from bucketbench.clients.protocol import Target
from bucketbench.errors import UsageError

MOUNTED = Path("/mnt/bucket")
SHARED_MEMORY = Path("/dev/shm")  # a mounted file system that is nothing but a page cache

needs_shared_memory = pytest.mark.skipif(
    sys.platform != "linux" or not os.path.ismount(SHARED_MEMORY) or not os.access(SHARED_MEMORY, os.W_OK),
    reason="this machine has no file system in memory at /dev/shm",
)


@pytest.fixture
def in_memory(tmp_path: Path) -> Path:
    directory = SHARED_MEMORY / f"bucketbench-{tmp_path.name}-{os.getpid()}"
    directory.mkdir()
    yield directory  # type: ignore[misc]  # a fixture
    for path in sorted(directory.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    directory.rmdir()


@needs_shared_memory
def test_what_is_in_memory_is_counted_in_pages(in_memory: Path) -> None:
    page_bytes = os.sysconf("SC_PAGESIZE")
    (in_memory / "a").write_bytes(bytes(3 * page_bytes + 1))
    (in_memory / "empty").touch()
    assert kept_bytes(in_memory / "a") == 4 * page_bytes
    assert kept_bytes(in_memory / "empty") == 0


@needs_shared_memory
def test_a_mount_that_keeps_what_was_read_is_refused_unless_that_is_wanted(in_memory: Path) -> None:
    (in_memory / "set").mkdir()
    (in_memory / "set" / "0.empty").touch()
    (in_memory / "set" / "1.bin").write_bytes(b"content")
    target = Target(scheme="s3", bucket="theirs", prefix="set/")
    with pytest.raises(UsageError, match=r"/dev/shm caches: the kernel's page cache .* 1\.bin .*cached=true"):
        Mount(directory=str(in_memory)).dataset(target)
    dataset = Mount(directory=str(in_memory), cached=True).dataset(target)
    assert [dataset[0], dataset[1]] == [("0.empty", b""), ("1.bin", b"content")]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["/usr/bin/mount-s3", "b", "/mnt/bucket", "--cache", "/tmp/c"], "mount-s3 was started with --cache,"),
        (["rclone", "mount", ":s3:b", "/mnt/bucket", "--vfs-cache-mode=full"], "rclone was started with --vfs-cache"),
        (["gcsfuse", "--file-cache-max-size-mb", "-1", "b", "/mnt/bucket"], "gcsfuse was started with --file-cache"),
    ],
)
def test_a_program_that_was_told_to_cache_is_named(command: list[str], words: str) -> None:
    found = caching_options(MOUNTED, [[], ["sh"], command])
    assert found is not None
    assert words in found


@pytest.mark.parametrize(
    "command",
    [
        ["mount-s3", "b", "/mnt/bucket", "--read-only"],
        ["mount-s3", "b", "/mnt/other", "--cache", "/tmp/c"],
        ["rclone", "mount", ":s3:b", "/mnt/bucket", "--vfs-cache-mode=off", "--dir-cache-time=24h"],
        ["rclone", "mount", "--vfs-cache-mode", "off", ":s3:b", "/mnt/bucket"],
        ["editor", "/mnt/bucket", "--cache"],
    ],
)
def test_a_program_that_does_not_cache_this_mount_is_not(command: list[str]) -> None:
    assert caching_options(MOUNTED, [command]) is None


@needs_shared_memory
def test_the_page_cache_is_told_before_any_option(in_memory: Path) -> None:
    (in_memory / "a").write_bytes(b"content")
    assert "page cache" in str(mount_cache(SHARED_MEMORY, in_memory / "a"))
