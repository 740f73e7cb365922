"""Nodes measure together only where they are alike, and all of them are told where they are not."""

from __future__ import annotations

from typing import Any

from composition import points_of_scenario
from met_nodes import Clock, meetings, together

from bucketbench.cluster.agreement import agree, difference, refuse, statement_of
from bucketbench.cluster.meeting import NodeLostError
from bucketbench.errors import PreflightError


def statement(**values: Any) -> dict[str, Any]:
    return {"versions": {"torch": "2.13.0"}, "jobs": [{"ranks": 4, "checkpoint.layers": 10} | values]}


def test_a_statement_has_versions_and_every_value_and_differs_by_any_of_them() -> None:
    overrides = ("repeat=0", "client=torchbucket", "nodes=2")
    (ten,) = points_of_scenario("dcp_simulated", *overrides, "checkpoint.layers=10")
    (twenty,) = points_of_scenario("dcp_simulated", *overrides, "checkpoint.layers=20", "+client.options.prefix=hex")
    told = statement_of([ten])
    assert {"python", "torch", "torchbucket", "hydra-core", "the commit"} <= told["versions"].keys()
    assert told["jobs"][0]["checkpoint.layers"] == 10
    assert difference(statement_of([ten]), told, name="node 1") is None
    assert difference(statement_of([twenty]), told, name="node 1") == (
        "checkpoint.layers is 20 on node 1 and 10 on node 0; client.options.prefix is hex on node 1 and (not there) on "
        "node 0: start the same command on every node, with the same conf/ files and the same packages"
    )


def test_a_difference_names_versions_and_numbers_of_jobs_and_few_of_many_values() -> None:
    first = statement()
    other = {**first, "versions": {"torch": "2.12.0"}}
    assert str(difference(other, first, name="node 3")).startswith("torch is 2.12.0 on node 3 and 2.13.0 on node 0: ")
    more = {**first, "jobs": first["jobs"] * 2}
    assert str(difference(more, first, name="node 1")).startswith("node 1 would run 2 kinds of job and node 0 1: ")
    many = {f"client.options.{number}": number for number in range(9)}
    assert "; and 6 more: " in str(difference(statement(**many), first, name="node 1"))


def test_nodes_that_are_alike_go_on_and_one_that_is_not_stops_all() -> None:
    alike = meetings(3)
    parts = [lambda m=m: agree(m, "sweep", statement(), within_s=30) for m in alike]
    assert together(*parts) == [None, None, None]
    different = meetings(3)
    said = [statement(), statement(), statement(ranks=8)]
    parts = [lambda m=m, s=s: agree(m, "sweep", s, within_s=30) for m, s in zip(different, said, strict=True)]
    errors = together(*parts)
    assert {type(error) for error in errors} == {PreflightError}
    assert {str(error).partition(":")[0] for error in errors} == {"ranks is 8 on node 2 and 4 on node 0"}


def test_a_refusal_of_one_node_is_that_of_all() -> None:
    for refusing in (0, 1):
        met = meetings(3)
        parts = [
            (lambda m=m: refuse(m, "sweep", "no boto3 here"))
            if index == refusing
            else (lambda m=m: agree(m, "sweep", statement(), within_s=30))
            for index, m in enumerate(met)
        ]
        told = together(*parts)
        assert told.pop(refusing) is None
        assert [str(error) for error in told] == [f"node {refusing}: no boto3 here"] * 2


def test_a_node_that_never_comes_is_named_to_those_that_did() -> None:
    first, second, _ = meetings(3, clock=Clock())
    second.tell("sweep/answer/1", {"host": "b", "problem": None})
    (error,) = together(lambda: agree(first, "sweep", statement(), within_s=600))
    assert isinstance(error, NodeLostError)
    assert str(error).startswith("node 2 was waited for to compare the nodes")
    assert second.told("sweep/verdict") == {"problem": str(error)}
