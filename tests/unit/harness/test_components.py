"""Building a client from its configuration: objects within its options, and what is said of a wrong one."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bucketbench.components import build
from bucketbench.errors import ConfigurationError
from bucketbench.job.description import Component


class Options:
    def __init__(self, **given: Any) -> None:
        self.given = given


class Refusing:
    def __init__(self, *, limit: int) -> None:
        raise ValueError(f"a limit of {limit} is none")


def component(target: str, **options: Any) -> Component:
    return Component(name="mine", target=target, options=options)


def built(**options: Any) -> dict[str, Any]:
    given: dict[str, Any] = build(component(f"{__name__}.Options", **options)).given
    return given


def test_plain_values_stay_what_they_are() -> None:
    plain = {"number": 1, "nothing": None, "list": [1, [2]], "mapping": {"of": {"mappings": [True]}}}
    assert built(**plain) == plain


def test_an_option_may_be_an_object_of_its_own_wherever_it_stands() -> None:
    minute = {"_target_": "datetime.timedelta", "minutes": 1}
    given = built(alone=minute, within=[{"a": minute}], of=dict(minute, _args_=[1]))
    assert given == {
        "alone": timedelta(minutes=1),
        "within": [{"a": timedelta(minutes=1)}],
        "of": timedelta(1, minutes=1),
    }


def test_an_object_may_be_made_of_others_and_by_a_method() -> None:
    path = {"_target_": "pathlib.Path", "_args_": [{"_target_": "pathlib.Path", "_args_": ["/a"]}, "b"]}
    given = built(path=path, day={"_target_": "datetime.date.fromordinal", "_args_": [1]})
    assert (given["path"], given["day"].isoformat()) == (Path("/a/b"), "0001-01-01")


def test_a_partial_is_called_later() -> None:
    later = built(later={"_target_": "datetime.timedelta", "_partial_": True, "_args_": [1], "hours": 2})["later"]
    assert later(minutes=3) == timedelta(days=1, hours=2, minutes=3)


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        (f"{__name__}.Absent", {}, "Absent"),
        ("no_such_module.Client", {}, "No module named 'no_such_module'"),
        (f"{__name__}.Refusing", {"limits": 1, "other": 2}, "limits, other: .*unexpected keyword argument"),
        (f"{__name__}.Options", {"a": {"_target_": "datetime.absent"}}, "absent"),
    ],
)
def test_what_cannot_be_built_is_said(target: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^mine: {target} could not be built with the options .*{said}"):
        build(component(target, **options))


def test_the_word_of_a_class_on_its_options_is_passed_on() -> None:
    with pytest.raises(ValueError, match="a limit of 0 is none"):
        build(component(f"{__name__}.Refusing", limit=0))


def test_a_modules_directory_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "module_of_mine.py").write_text("class Client:\n    answer = 42\n")
    found = build(Component(name="mine", target="module_of_mine:Client", search_path=(str(tmp_path),)))
    assert found.answer == 42
