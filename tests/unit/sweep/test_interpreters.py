"""The interpreter of a client whose packages clash: made by the repository's script, or refused with what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bucketbench.errors import PreflightError
from bucketbench.job.description import Component
from bucketbench.job.interpreters import made_interpreter, search_path_of
from bucketbench.sweep.preflight import check_component


@pytest.fixture
def said() -> list[str]:
    return []


def repository(root: Path, script: str) -> Path:
    (root / "utils").mkdir()
    setup = root / "utils" / "setup_peer_env.sh"
    setup.write_text(f"#!/bin/sh\n{script}\n")
    setup.chmod(0o755)
    (root / "constraints-peer.txt").write_text("")
    return root


def test_a_client_without_one_runs_in_this_interpreter(said: list[str]) -> None:
    assert made_interpreter(None, client="any", say=said.append) == Path(sys.executable)
    assert said == []


def test_it_is_made_once_and_said_before(tmp_path: Path, said: list[str]) -> None:
    script = 'cd "$(dirname "$0")/.." && echo "$1" >> made && mkdir -p .venv-peer/bin && touch .venv-peer/bin/python'
    root = repository(tmp_path, script)
    python = made_interpreter("peer", client="mine", say=said.append, root=root)
    assert python == root / ".venv-peer" / "bin" / "python"
    assert len(said) == 1
    assert "mine" in said[0]
    assert made_interpreter("peer", client="another", say=said.append, root=root) == python
    assert (root / "made").read_text() == "peer\n"
    assert len(said) == 1


def test_a_failure_shows_what_pip_wrote_and_the_command(tmp_path: Path, said: list[str]) -> None:
    root = repository(tmp_path, "echo no such version >&2; exit 2")
    with pytest.raises(PreflightError, match=r"mine .* no such version\. .*setup_peer_env\.sh peer"):
        made_interpreter("peer", client="mine", say=said.append, root=root)


def test_an_unknown_one_names_the_known(tmp_path: Path, said: list[str]) -> None:
    root = repository(tmp_path, "exit 0")
    with pytest.raises(PreflightError, match=r"constraints-other\.txt.*there are peer"):
        made_interpreter("other", client="mine", say=said.append, root=root)


def test_a_folder_of_the_users_makes_it_where_there_is_no_repository(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = repository(tmp_path, 'cd "$(dirname "$0")/.." && mkdir -p .venv-peer/bin && touch .venv-peer/bin/python')
    monkeypatch.chdir(folder)
    monkeypatch.setattr("bucketbench.job.interpreters._ROOT", tmp_path / "lib")
    assert made_interpreter("peer", client="mine", say=said.append) == folder / ".venv-peer" / "bin" / "python"


def test_elsewhere_it_says_how_to_get_one(tmp_path: Path, said: list[str]) -> None:
    with pytest.raises(PreflightError, match="`bucketbench init` made"):
        made_interpreter("peer", client="mine", say=said.append, root=tmp_path)


def test_a_broken_interpreter_is_no_traceback(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match="does not run"):
        search_path_of(tmp_path / "bin" / "python")


def test_packages_are_looked_for_where_the_client_will_run(tmp_path: Path) -> None:
    """Also in a namespace that several packages share, none of which is imported for it."""
    module = tmp_path / "place" / "shared" / "of_mine" / "client.py"
    module.parent.mkdir(parents=True)
    module.write_text("class Mine:\n    pass\n")
    component = Component(name="mine", target="shared.of_mine.client.Mine", requires=("shared.of_mine",))
    check_component("client", component, python_path=[str(tmp_path / "place")])
    with pytest.raises(PreflightError, match=r"shared\.of_mine, which is not installed here: install shared\.of_mine,"):
        check_component("client", component, python_path=[str(tmp_path)])


@pytest.mark.parametrize(
    ("kind", "requires", "extras"),
    [
        ("client", ("obstore",), "peers"),
        ("client", ("google.cloud.storage", "lightning"), "lightning,peers"),
        ("model", ("PIL", "transformers"), "bench,vit"),
        ("sink", ("boto3",), "dynamodb"),
        ("sink", ("google.cloud.bigquery",), "bigquery"),
    ],
)
def test_a_package_that_an_extra_brings_is_told_with_that_extra(
    tmp_path: Path, kind: str, requires: tuple[str, ...], extras: str
) -> None:
    component = Component(name="one", target="one.One", requires=requires)
    with pytest.raises(PreflightError, match=rf"not installed here: pip install 'torchbucket\[{extras}\]'"):
        check_component(kind, component, python_path=[str(tmp_path)])
