"""A mount lasts as long as whoever holds it, and no longer, however they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from served_clients import Served

from bucketbench.clients import mounting
from bucketbench.clients.mount import Mount
from bucketbench.clients.mounting import HeldMount, main, missing_tools
from bucketbench.errors import UsageError

needs_fuse = pytest.mark.skipif(missing_tools() is not None, reason=f"this machine lacks {missing_tools()}")


@needs_fuse
def test_a_directory_that_is_mounted_already(served: Served) -> None:
    held = HeldMount(served.target)
    try:
        dataset = Mount(directory=str(held.directory)).dataset(served.target)
        assert dict(dataset[index] for index in range(len(dataset))) == served.contents  # type: ignore[arg-type]  # a map
    finally:
        held.close()
    assert not held.directory.exists()
    held.close()


@needs_fuse
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_holder_that_is_killed_leaves_no_mount(served: Served, number: signal.Signals) -> None:
    program = (
        "import sys, time\n"
        "from bucketbench.clients.mounting import HeldMount\n"
        "from bucketbench.clients.protocol import Target\n"
        f"held = HeldMount(Target(**{asdict(served.target)!r}))\n"
        "print(held.directory, flush=True)\n"
        "time.sleep(100)\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert holder.stdout is not None
    with holder.stdout:
        directory = Path(holder.stdout.readline().strip())
        assert os.path.ismount(directory)
        os.killpg(holder.pid, number)
        holder.wait()
    _wait_until(lambda: not directory.exists())


@needs_fuse
def test_the_script_mounts_until_it_is_interrupted(served: Served, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bucketbench.clients.mounting", "--bucket", served.target.bucket]
    script = subprocess.Popen(
        [*command, "--endpoint", str(served.target.endpoint), str(tmp_path / "here")], stdout=subprocess.PIPE, text=True
    )
    assert script.stdout is not None
    with script.stdout:
        assert "until Ctrl-C" in script.stdout.readline()
        found = (tmp_path / "here" / served.target.prefix / "001.bin").read_bytes()
        script.send_signal(signal.SIGTERM)
        assert script.wait(30) == 0
    assert found == served.contents["001.bin"]
    assert not os.path.ismount(tmp_path / "here")


@needs_fuse
def test_a_server_that_is_not_there_is_an_error_with_rclones_words(
    served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with pytest.raises(OSError, match=r"could not be mounted: .*no such file"):
        Mount().dataset(served.target_of("s3").__class__(**{**asdict(served.target), "ca_bundle": "/no/such/file"}))


def test_a_directory_without_a_mount_is_refused(served: Served, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no directory"):
        Mount(directory=str(tmp_path / "none")).dataset(served.target)
    if not any(os.path.ismount(place) for place in tmp_path.parents if place != Path("/")):
        with pytest.raises(UsageError, match="no mounted file system"):
            Mount(directory=str(tmp_path)).dataset(served.target)


def test_what_a_machine_lacks_is_said(
    served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mounting.shutil, "which", lambda name: None)
    with pytest.raises(UsageError, match=r"rclone .*apt-get install rclone.* and .*fuse3"):
        Mount().dataset(served.target)
    assert main(["--bucket", "any", str(tmp_path / "here")]) == 2
    assert "apt-get install rclone" in capsys.readouterr().err


def _wait_until(condition: Callable[[], bool], limit_s: float = 100.0) -> None:
    until_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < until_s, "what was waited for never came"
        time.sleep(0.05)
