"""Every command and every example of the README runs as it stands.

The sweeps take minutes and run at night. On each commit they are composed, and one repeat of two clients is measured.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
from pathlib import Path

import forked_programs
import pytest
from composition import points_of_scenario

from bucketbench.cli import main
from buckettestbed.launch import launch_testbed

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLE_ENDPOINT = "http://127.0.0.1:9000"

COMMANDS = [
    line.strip()
    for block in re.findall(r"```bash\n(.*?)```", README, flags=re.DOTALL)
    for line in block.splitlines()
    if line.strip() and not line.startswith("#")
]
SERVING = [command for command in COMMANDS if "bucketbench testbed" in command]
EXAMPLES = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)

# Of the test command only the collection runs, in one process: all of it would run this test again.
COLLECTION = "--numprocesses 0 --collect-only --quiet tests/unit/repository/test_links.py"
INSTEAD = {"./utils/run_tests.sh": f"./utils/run_tests.sh {COLLECTION}"}

SWEEP = "./utils/run_dataset_benchmarks.sh"
SHORT = f"{SWEEP} client=torchbucket-map,boto3 'repeat=range(1)' data.num_samples=256 epochs=1"
"""Less of the first command: two of its clients, once, and one epoch of an eighth of its samples."""


def _commands() -> list[object]:
    """Every command that ends, a sweep only at night."""
    return [
        pytest.param(command, marks=pytest.mark.nightly if command.startswith(SWEEP) else (), id=command)
        for command in COMMANDS
        if command not in SERVING
    ]


def test_the_first_screen_has_the_two_commands() -> None:
    assert COMMANDS[:2] == ["./utils/run_dataset_benchmarks.sh", "./utils/run_tests.sh"]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("command", [SHORT, *_commands()])
def test_command_runs(command: str) -> None:
    words = shlex.split(INSTEAD.get(command, command), comments=True)
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert done.stdout.strip()


def test_every_sweep_is_composed() -> None:
    for command in COMMANDS:
        _, *overrides = shlex.split(command)
        if command.startswith(SWEEP) and overrides:  # without any it is test_composition.py's
            once = [] if "repeat=" in command else ["repeat=0"]
            assert len(points_of_scenario("dataset", *overrides, *once)) == 2


@pytest.mark.parametrize("command", SERVING)
def test_server_command_serves_until_it_is_told_to_end(command: str) -> None:
    with subprocess.Popen(shlex.split(command, comments=True), cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert '"s3_endpoint"' in server.stdout.readline()
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=60) == 0


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_example_runs(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert EXAMPLE_ENDPOINT in example
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "example")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "example")
    with launch_testbed(buckets=["data"]) as testbed:
        program = tmp_path / "example.py"
        program.write_text(example.replace(EXAMPLE_ENDPOINT, testbed.s3_endpoint), encoding="utf-8")
        samples = ["-n", "64", "--sample-size", "20KiB", "--uri", "s3://data/images/"]  # two batches
        assert main(["datagen", *samples, "--endpoint", testbed.s3_endpoint]) == 0
        done = forked_programs.run(program)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()
