"""What users import from ``torchbucket``: where it says it is from, and what ``help`` tells of it."""

from __future__ import annotations

import importlib
import inspect
import pickle
import re
import subprocess
import sys

import pytest

import torchbucket

NAMES = sorted(torchbucket.__all__)
CLASSES = [name for name in NAMES if inspect.isclass(getattr(torchbucket, name))]
HEAVY = {"lightning", "pytorch_lightning", "transformers", "boto3", "hydra", "obstore", "s3torchconnector"}


def own_members(owner: type) -> dict[str, object]:
    """The public methods and properties that torchbucket wrote, inherited ones too."""
    found: dict[str, object] = {}
    for base in reversed(owner.__mro__):
        if base.__module__.partition(".")[0] == "torchbucket":
            found |= {name: member for name, member in vars(base).items() if not name.startswith("_")}
    return {
        name: member
        for name, member in found.items()
        if isinstance(member, property | classmethod | staticmethod) or inspect.isfunction(member)
    }


def is_described(name: str, text: str) -> bool:
    """Whether an argument has a line of its own under ``Args:`` of a docstring."""
    return re.search(rf"^ +\*{{0,2}}{name}: ", text, re.MULTILINE) is not None


@pytest.mark.parametrize("name", NAMES)
def test_public_names_are_from_where_users_import_them(name: str) -> None:
    named = getattr(torchbucket, name)
    assert (named.__module__, named.__name__) == ("torchbucket", name)
    assert pickle.loads(pickle.dumps(named)) is named


@pytest.mark.parametrize(
    "module",
    [
        "torchbucket.checkpoint",
        "torchbucket.datasets",
        "torchbucket.datasets.compose",
        "torchbucket.datasets.tar",
        "torchbucket.files",
        "torchbucket.fsspec",
        "torchbucket.inspection",
        "torchbucket.listing",
        "torchbucket.safetensors",
        "torchbucket.store",
        "torchbucket.store.wrappers",
    ],
)
def test_names_of_packages_are_from_one_that_users_import(module: str) -> None:
    """From ``torchbucket`` where that has them, else from the package itself or another one that has them."""
    package = importlib.import_module(module)
    for name in package.__all__:
        named = getattr(package, name)
        if inspect.isclass(named) or inspect.isfunction(named):
            home = importlib.import_module(named.__module__)
            assert name in home.__all__, (name, home)
            assert (name in torchbucket.__all__) == (home is torchbucket), name
            assert hasattr(home, "__path__"), (name, home)


def test_a_process_that_has_imported_nothing_takes_a_pickled_data_set_and_imports_nothing_heavy() -> None:
    made = torchbucket.MapDataset.from_objects(
        ["memory://public/a"], config=torchbucket.StoreConfig(region="eu-west-1")
    )
    program = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read())); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(made), capture_output=True, check=True)
    told, modules = done.stdout.decode().splitlines()
    assert told == repr(made)
    assert "torch" in modules.split()
    assert HEAVY & set(modules.split()) == set()


@pytest.mark.parametrize("name", NAMES)
def test_help_describes_every_argument(name: str) -> None:
    named = getattr(torchbucket, name)
    text = inspect.getdoc(named) or ""
    assert text
    if name in ("IterableDataset", "MapDataset", "ObjectReader", "PrefixStream", "Store", "TarDataset", "TarSample"):
        return  # made by their own constructors, or not by users at all
    of_base = "".join(inspect.getdoc(base) or "" for base in getattr(named, "__mro__", ())[1:])
    for parameter in inspect.signature(named).parameters.values():
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            assert is_described(parameter.name, text + "\n" + of_base), parameter.name


@pytest.mark.parametrize("name", CLASSES)
def test_help_describes_every_member(name: str) -> None:
    members = own_members(getattr(torchbucket, name))
    undescribed = [member for member, value in members.items() if not inspect.getdoc(value)]
    assert undescribed == []
