"""Data sets on a file store: made, found, resumed, refused."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import xxhash
from PIL import Image

from bucketbench.datagen import DatagenError, DatasetSpec, Manifest, ProgressReport, ensure_dataset, read_manifest
from bucketbench.datagen.command import main
from bucketbench.datagen.manifest import ManifestMember
from bucketbench.datagen.members import label_of
from torchbucket.store.temporary_names import temporary_key

SPEC = DatasetSpec(num_samples=150, sample_size_bytes=4096, seed=5)


def files_of(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def check_content(directory: Path, manifest: Manifest) -> None:
    files = files_of(directory)
    assert sorted(files) == [entry.key for entry in manifest.entries]
    for entry in manifest.entries:
        assert len(files[entry.key]) == entry.size_bytes
        assert xxhash.xxh3_128_hexdigest(files[entry.key]) == entry.xxh3_128


def test_the_bytes_do_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    one = ensure_dataset((tmp_path / "one").as_uri(), SPEC, processes=1, lock_directory=tmp_path)
    two = ensure_dataset((tmp_path / "two").as_uri() + "/", SPEC, processes=2, lock_directory=tmp_path)
    assert one == two
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    check_content(tmp_path / "one", one)
    assert read_manifest((tmp_path / "one").as_uri()) == one


@pytest.mark.usefixtures("in_this_process")
def test_nothing_but_the_samples_lies_under_the_prefix_and_nothing_unfinished_beside_it(tmp_path: Path) -> None:
    ensure_dataset((tmp_path / "set").as_uri(), SPEC, processes=1, lock_directory=tmp_path)
    files = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert {path for path in files if path.parent != tmp_path / "set"} == {tmp_path / "set.manifest.jsonl"}


@pytest.mark.usefixtures("in_this_process")
def test_what_is_there_is_kept_and_what_is_missing_or_cut_is_made_again(tmp_path: Path) -> None:
    uri, reports = (tmp_path / "set").as_uri(), list[ProgressReport]()
    first = ensure_dataset(uri, SPEC, processes=1, lock_directory=tmp_path)
    kept = tmp_path / "set" / "000000010.jpg"
    kept_before = kept.stat()
    (tmp_path / "set" / "000000070.jpg").unlink()
    (tmp_path / "set" / "000000149.jpg").write_bytes(b"cut")
    second = ensure_dataset(uri, SPEC, processes=1, lock_directory=tmp_path, progress=reports.append)
    assert second == first
    check_content(tmp_path / "set", second)
    assert (kept.stat().st_ino, kept.stat().st_mtime_ns) == (kept_before.st_ino, kept_before.st_mtime_ns)
    assert reports[0].objects_found == 64  # of three runs of 64, 64 and 22, the first is whole
    assert reports[-1].objects_done == reports[-1].objects_total == 150


def test_a_killed_run_is_resumed(tmp_path: Path) -> None:
    uri = (tmp_path / "set").as_uri()
    command = [sys.executable, "-m", "bucketbench.datagen.command", "-n", "1000", "--sample-size", "8KiB", "--uri", uri]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [*command, "-j", "1"], env=environment, start_new_session=True, stderr=subprocess.DEVNULL
    )
    parts = tmp_path / "set.manifest.parts"
    try:
        while not list(parts.glob("[0-9]*.jsonl")):
            assert process.poll() is None, "the data set was finished before it could be interrupted"
            time.sleep(0.005)
    finally:
        # The parent alone: that its children end by themselves is part of what is tested.
        process.kill()
        process.wait()
    wait_for_the_end_of(session=process.pid)
    assert not (tmp_path / "set.manifest.jsonl").exists()
    # Whether the kill hit a write is up to chance; here is what one leaves.
    (tmp_path / "set" / f".{temporary_key('000000099.jpg')}").write_bytes(b"half")
    reports = list[ProgressReport]()
    spec = DatasetSpec(num_samples=1000, sample_size_bytes=8192)
    manifest = ensure_dataset(uri, spec, lock_directory=tmp_path, progress=reports.append)
    assert reports[0].objects_found >= 64
    assert not parts.exists() or not list(parts.iterdir())
    check_content(tmp_path / "set", manifest)


def wait_for_the_end_of(*, session: int) -> None:
    """Wait until a session that a test began has no process left; the test's own time limit bounds it."""
    while any(is_running_in(session, process) for process in psutil.process_iter()):
        time.sleep(0.05)


def is_running_in(session: int, process: psutil.Process) -> bool:
    try:
        # A container may have nobody to collect an orphan that ended.
        return os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, PermissionError, psutil.NoSuchProcess):
        return False


def test_ctrl_c_says_that_what_is_finished_is_kept(tmp_path: Path) -> None:
    uri = (tmp_path / "set").as_uri()
    command = [sys.executable, "-m", "bucketbench.datagen.command", "-n", "100k", "-j", "1", "--uri", uri]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(command, env=environment, start_new_session=True, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "set.manifest.parts").exists():
        assert process.poll() is None
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
    _, stderr = process.communicate()
    assert process.returncode == 130
    assert "is kept" in stderr
    assert "Traceback" not in stderr
    wait_for_the_end_of(session=process.pid)


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("distribution", ["constant", "lognormal"])
def test_shards_are_tar_files_of_images_and_labels(tmp_path: Path, distribution: str) -> None:
    spec = replace(SPEC, size_distribution=distribution, shard_size_bytes=256 << 10, extensions=("cls", "json"))
    manifest = ensure_dataset((tmp_path / "set").as_uri(), spec, processes=2, lock_directory=tmp_path)
    check_content(tmp_path / "set", manifest)
    assert [member.name for entry in manifest.entries for member in entry.members] == [
        f"{index:09d}.{extension}" for index in range(150) for extension in ("jpg", "cls", "json")
    ]
    listed = iter([member for entry in manifest.entries for member in entry.members])
    for shard in sorted((tmp_path / "set").iterdir()):
        assert shard.stat().st_size <= 256 << 10
        with tarfile.open(shard) as archive:
            for member in archive:
                file = archive.extractfile(member)
                assert file is not None
                content, expected = file.read(), next(listed)
                assert expected == ManifestMember(
                    name=member.name, size_bytes=len(content), xxh3_128=xxhash.xxh3_128_hexdigest(content)
                )
                stem, _, extension = member.name.partition(".")
                if extension == "jpg":
                    with Image.open(io.BytesIO(content)) as image:
                        image.load()
                        size = image.size
                elif extension == "cls":
                    assert int(content) == label_of(spec, int(stem))
                else:
                    label = label_of(spec, int(stem))
                    assert json.loads(content) == {"key": stem, "label": label, "width": size[0], "height": size[1]}
    assert next(listed, None) is None


@pytest.mark.usefixtures("in_this_process")
def test_another_spec_under_the_same_prefix_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    uri = (tmp_path / "set").as_uri()
    ensure_dataset(uri, SPEC, processes=1, lock_directory=tmp_path)
    before = files_of(tmp_path)
    with pytest.raises(DatagenError, match="seed 5, not 6") as caught:
        ensure_dataset(uri, replace(SPEC, seed=6), processes=1, lock_directory=tmp_path)
    assert uri in str(caught.value)
    assert files_of(tmp_path) == before


@pytest.mark.parametrize("name", ["holiday.jpg", "000000000.jpg"])
def test_foreign_objects_are_never_touched(tmp_path: Path, name: str) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / name).write_bytes(b"mine")
    with pytest.raises(DatagenError, match="do not belong") as caught:
        ensure_dataset((tmp_path / "set").as_uri(), SPEC, processes=1, lock_directory=tmp_path)
    assert name in str(caught.value)
    assert files_of(tmp_path / "set") == {name: b"mine"}


@pytest.mark.usefixtures("in_this_process")
def test_two_callers_at_once_make_it_once(tmp_path: Path) -> None:
    made, reports = list[Manifest](), list[ProgressReport]()

    def make() -> None:
        uri = (tmp_path / "set").as_uri()
        made.append(ensure_dataset(uri, SPEC, processes=1, lock_directory=tmp_path, progress=reports.append))

    threads = [threading.Thread(target=make) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made[0] == made[1]
    assert sorted(report.objects_found for report in reports)[-1] == 150
    check_content(tmp_path / "set", made[0])


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("memory://m/set", "would be gone"),
        ("s3://bucket", "has no prefix"),
        ("s3://bucket/", "has no prefix"),
        ("bucket/prefix", "not an address"),
    ],
)
def test_an_unusable_address_is_refused(tmp_path: Path, uri: str, words: str) -> None:
    with pytest.raises(DatagenError, match=words):
        ensure_dataset(uri, SPEC, lock_directory=tmp_path)


def test_a_missing_manifest_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(DatagenError, match="bucketbench datagen --uri"):
        read_manifest((tmp_path / "set").as_uri())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--uri", "file:///x/y", "-n", "many"], "'many' is not a whole number"),
        (["--uri", "file:///x/y", "-n", "1", "--shard-size", "128M"], "128MiB"),
        (["--uri", "file:///x/y", "-n", "1", "--resolution", "big"], "WIDTHxHEIGHT"),
        (["-n", "1"], "--uri"),
    ],
)
def test_a_wrong_argument_is_explained(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.usefixtures("in_this_process")
def test_the_command_reports_and_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    uri = (tmp_path / "set").as_uri()
    arguments = ["--uri", uri, "-n", "100", "--sample-size", "4KiB", "-j", "1"]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{uri}: 100 objects, 400.0 KiB\n"
    assert "100 of 100 objects" in captured.err
    assert main([*arguments, "--seed", "1"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("datagen: ")
    assert len(captured.err.splitlines()) == 1
    assert captured.out == ""
