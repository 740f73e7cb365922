"""Mounts a bucket as a read-only directory with rclone, for as long as somebody wants it.

``python -m bucketbench.clients.mounting --bucket NAME --endpoint URL DIRECTORY`` (in the repository
``utils/mount_testbed.sh``) mounts until it is interrupted. :class:`HeldMount` mounts for a process: a helper of its own
unmounts when that process lets go of a pipe, which it also does when it is killed, so that no job leaves a dead mount.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO, Final

from bucketbench.clients.protocol import Target
from bucketbench.errors import UsageError

__all__ = ["HeldMount", "main", "missing_tools"]

_MOUNT_LIMIT_S: Final = 30.0  # *Source*: ours; a mount on a server that answers takes a tenth of a second
_UNMOUNT_LIMIT_S: Final = 10.0  # *Source*: ours; it takes as long where no file is open
_POLL_S: Final = 0.05
_READY: Final = "mounted"

# Source: rclone 1.60, "rclone mount". Its cache of contents is off, its default: what is read comes from the server,
# ahead by `--buffer-size` for each file. What a directory holds is asked for once, as other clients list once; and
# modification times, which would cost a HEAD a file, are not.
_OPTIONS: Final = ("--read-only", "--dir-cache-time=24h", "--poll-interval=0", "--no-modtime", "--config=")


def missing_tools() -> str | None:
    """What this machine lacks for a mount, and how to get it, in words; None where nothing is missing."""
    absent = []
    if shutil.which("rclone") is None:
        absent.append("the program rclone (on Debian and Ubuntu: apt-get install rclone)")
    if _unmounter() is None:
        absent.append("the program fusermount3 (apt-get install fuse3)")
    if not Path("/dev/fuse").exists():
        absent.append("the device /dev/fuse (modprobe fuse; a container needs --device /dev/fuse --cap-add SYS_ADMIN)")
    return " and ".join(absent) or None


class HeldMount:
    """A target's bucket as a directory, mounted until this process closes it, drops it, or is gone.

    Not to be pickled; a forked child shares the mount, which then lasts until the child is gone too.

    Args:
        target: what to mount: its whole bucket, whatever its prefix.

    Raises:
        UsageError: this machine cannot mount; the message says what is missing.
        OSError: the mount failed; the message has what rclone wrote.
    """

    def __init__(self, target: Target) -> None:
        missing = missing_tools()
        if missing is not None:
            raise UsageError(f"the bucket cannot be mounted: this machine lacks {missing}")
        self.directory = Path(tempfile.mkdtemp(prefix="bucketbench-mount-"))
        # A session of its own: what ends a job must not end the helper before it has unmounted.
        starter = subprocess.Popen(
            [sys.executable, "-m", "bucketbench.clients.mounting", *_arguments(target), "--held", str(self.directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert starter.stdin is not None
        assert starter.stdout is not None
        self._hold: IO[bytes] = starter.stdin
        with starter.stdout:
            said = starter.stdout.readline().decode().strip()
            if said != _READY:
                said += starter.stdout.read().decode()
        starter.wait()
        if said != _READY:
            self.close()
            raise OSError(f"{target.scheme}://{target.bucket} could not be mounted: {' '.join(said.split())}")

    def close(self) -> None:
        """Have it unmounted, and wait until it is. Calls beyond the first do nothing."""
        self._hold.close()
        until_s = time.monotonic() + _UNMOUNT_LIMIT_S
        while self.directory.exists() and time.monotonic() < until_s:
            time.sleep(_POLL_S)


def main(argv: Sequence[str] | None = None) -> int:
    """Mount as the arguments say, until interrupted; return 0, or 2 with what is wrong on stderr."""
    options = _parser().parse_args(argv)
    missing = missing_tools()
    if missing is not None:
        return _refusal(f"this machine lacks {missing}")
    target = Target(
        scheme=options.scheme,
        bucket=options.bucket,
        prefix="",
        endpoint=options.endpoint,
        region=options.region,
        path_style=options.path_style,
        anonymous=options.anonymous,
        ca_bundle=options.ca_bundle,
    )
    directory: Path = options.directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    if options.held:
        # It ends with the last process that holds the mount, and not before: who asks it to waits for that.
        signal.signal(signal.SIGTERM, lambda *_: None)
        if os.fork():
            os._exit(0)  # the child is nobody's child, so that whoever ends all of a job's processes does not end it
        return _held(target, directory)
    return _in_foreground(target, directory)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mount_testbed.sh",
        description="Mount a bucket of the testbed, or another one, as a read-only directory, until Ctrl-C.",
        epilog="Then: ./utils/run_dataset_benchmarks.sh client=mount client.options.directory=DIRECTORY. Credentials "
        "come from the environment.",
        allow_abbrev=False,
    )
    parser.add_argument("directory", type=Path, help="where to mount it; made if it is not there")
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--scheme", choices=("s3", "gs"), default="s3", help="(default: s3)")
    parser.add_argument("--endpoint", metavar="URL", help="as the testbed printed it (default: the provider's own)")
    parser.add_argument("--region", help="the bucket's region")
    parser.add_argument("--path-style", action=argparse.BooleanOptionalAction, default=True, help="(default: yes)")
    parser.add_argument("--ca-bundle", metavar="FILE", help="certificates to trust (PEM)")
    parser.add_argument("--anonymous", action="store_true", help="send no credentials")
    parser.add_argument("--held", action="store_true", help="mount in the background, until standard input ends")
    return parser


def _arguments(target: Target) -> list[str]:
    """The arguments of ``main`` that say what a target says."""
    named = {
        "--scheme": target.scheme,
        "--bucket": target.bucket,
        "--endpoint": target.endpoint,
        "--region": target.region,
        "--ca-bundle": target.ca_bundle,
    }
    flags = ["--path-style" if target.path_style else "--no-path-style", *(["--anonymous"] if target.anonymous else [])]
    return [*(word for name, value in named.items() if value is not None for word in (name, value)), *flags]


def _held(target: Target, directory: Path) -> int:
    mount = _Mount(target, directory)
    try:
        failure = mount.failure()
        sys.stdout.write(f"{failure or _READY}\n")
        sys.stdout.flush()
        # The caller reads to the end of it.
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        while failure is None and os.read(0, 4096):
            pass
    finally:
        mount.end()
        directory.rmdir()
    return 0


def _in_foreground(target: Target, directory: Path) -> int:
    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    mount = _Mount(target, directory)
    try:
        failure = mount.failure()
        if failure is not None:
            return _refusal(f"{target.scheme}://{target.bucket} could not be mounted: {failure}")
        sys.stdout.write(f"{target.scheme}://{target.bucket} is mounted at {directory} until Ctrl-C\n")
        sys.stdout.flush()
        return _refusal(f"rclone has ended: {mount.wait()}")
    except KeyboardInterrupt:
        return 0
    finally:
        mount.end()


class _Mount:
    """rclone at work, this process's child."""

    def __init__(self, target: Target, directory: Path) -> None:
        self._directory = directory
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - it lasts as long as the mount
        command = ["rclone", "mount", *_OPTIONS, *_remote_options(target), f":{_remote(target)}:{target.bucket}"]
        environment = dict(os.environ)
        # rclone 1.60 ends with an error where its S3 library finds this one; --ca-cert says the same.
        told = environment.pop("AWS_CA_BUNDLE", None)
        trusted = target.ca_bundle or (told if target.scheme == "s3" else None)
        self._rclone = subprocess.Popen(
            [*command, *([] if trusted is None else [f"--ca-cert={trusted}"]), str(directory)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for us: a mount ends by being unmounted
        )

    def failure(self) -> str | None:
        """Wait until the directory is mounted; why it is not, None where it is."""
        until_s = time.monotonic() + _MOUNT_LIMIT_S
        while not os.path.ismount(self._directory):
            if self._rclone.poll() is not None:
                return self._words()
            if time.monotonic() > until_s:
                return f"nothing was mounted within {_MOUNT_LIMIT_S:.0f} s; rclone wrote: {self._words()}"
            time.sleep(_POLL_S)
        return None

    def wait(self) -> str:
        """Wait until rclone ends by itself; what it wrote."""
        self._rclone.wait()
        return self._words()

    def end(self) -> None:
        """Unmount and end rclone."""
        unmounter = _unmounter()
        # Lazily where a file is still open: it is gone from the directory at once then, and for good with its user.
        for option in ("-u", "-uz"):
            if unmounter is not None and os.path.ismount(self._directory):
                subprocess.run([unmounter, option, str(self._directory)], capture_output=True, check=False)
        with suppress(ProcessLookupError):
            self._rclone.terminate()
        try:
            self._rclone.wait(_UNMOUNT_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._rclone.kill()
            self._rclone.wait()
        self._said.close()

    def _words(self) -> str:
        self._said.seek(0)
        return " ".join(self._said.read().decode(errors="replace").split()) or "nothing"


def _remote(target: Target) -> str:
    """rclone's name of the service."""
    return {"s3": "s3", "gs": "gcs"}[target.scheme]


def _remote_options(target: Target) -> list[str]:
    """How rclone reaches the service. Source: rclone 1.60, its pages on Amazon S3 and Google Cloud Storage."""
    if target.scheme == "gs":
        options = [] if target.endpoint is None else [f"--gcs-endpoint={target.endpoint}/storage/v1/"]
        return [*options, *(["--gcs-anonymous"] if target.anonymous else [])]
    options = ["--s3-provider=AWS" if target.endpoint is None else "--s3-provider=Other"]
    options += [] if target.endpoint is None else [f"--s3-endpoint={target.endpoint}"]
    options += [] if target.region is None else [f"--s3-region={target.region}"]
    options += [f"--s3-force-path-style={str(target.path_style).lower()}"]
    return [*options, f"--s3-env-auth={str(not target.anonymous).lower()}"]


def _unmounter() -> str | None:
    return shutil.which("fusermount3") or shutil.which("fusermount")


def _refusal(reason: str) -> int:
    sys.stderr.write(f"mount_testbed.sh: {reason}\n")
    return 2


if __name__ == "__main__":
    raise SystemExit(main())
