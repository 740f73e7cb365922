"""The manifests for Kubernetes are valid by its own schemas and agree with one another; so is the Dockerfile."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonpatch
import jsonschema
import kubernetes_validate
import pytest
import yaml
from composition import points_of_scenario

from bucketbench.cluster.variables import MultinodeVariables

ROOT = Path(__file__).resolve().parents[3]
K8S = ROOT / "utils" / "k8s"
KUBERNETES = "1.31"
OVERLAYS = ["base", "gcsfuse", "mountpoint-s3"]
JOBSET = json.loads(Path(__file__).with_name("jobset.schema.json").read_text())


def built(overlay: str) -> list[dict[str, Any]]:
    """What ``kubectl kustomize`` makes of a folder that says what these say: resources, and JSON patches of one."""
    folder = K8S / overlay
    asked = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert asked.keys() <= {"apiVersion", "kind", "resources", "patches"}, "this test builds nothing else"
    found: list[dict[str, Any]] = []
    for name in asked["resources"]:
        path = folder / name
        found += built(name.removeprefix("../")) if path.is_dir() else list(yaml.safe_load_all(path.read_text()))
    for patch in asked.get("patches", ()):
        (target,) = (one for one in found if is_target(one, patch["target"]))
        operations = yaml.safe_load((folder / patch["path"]).read_text())
        found[found.index(target)] = jsonpatch.apply_patch(target, operations)
    return found


def is_target(one: dict[str, Any], target: dict[str, str]) -> bool:
    kind = f"{target['group']}/{target['version']}", target["kind"], target["name"]
    return (one["apiVersion"], one["kind"], one["metadata"]["name"]) == kind


def check(resource: dict[str, Any]) -> None:
    """Raise where Kubernetes, or JobSet, would not take a resource or would not know one of its fields."""
    if resource["kind"] != "JobSet":
        kubernetes_validate.validate(resource, KUBERNETES, strict=True)
        return
    jsonschema.validate(resource, JOBSET)
    for replicated in resource["spec"]["replicatedJobs"]:
        name = {"name": f"{resource['metadata']['name']}-{replicated['name']}-0"}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": name, "spec": replicated["template"]["spec"]}
        kubernetes_validate.validate(job, KUBERNETES, strict=True)


def jobset(resources: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = (one for one in resources if one["kind"] == "JobSet")
    return found


def job_of(resources: list[dict[str, Any]]) -> dict[str, Any]:
    spec: dict[str, Any] = jobset(resources)["spec"]["replicatedJobs"][0]["template"]["spec"]
    return spec


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_resource_is_valid(overlay: str) -> None:
    resources = built(overlay)
    for resource in resources:
        check(resource)
    assert {"ServiceAccount", "ConfigMap", "JobSet"} <= {resource["kind"] for resource in resources}
    pod = job_of(resources)["template"]["spec"]
    mounted = [mount["name"] for mount in pod["containers"][0]["volumeMounts"]]
    assert sorted(mounted) == sorted(volume["name"] for volume in pod["volumes"])
    assert ("bucket" in mounted) == (overlay != "base")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("spec", "restarts"), 1),
        (("spec", "failurePolicy", "maxRestarts"), "none"),
        (("spec", "replicatedJobs", 0, "template", "spec", "completionMode"), 3),
        (("spec", "replicatedJobs", 0, "template", "spec", "template", "spec", "containers", 0, "imagePolicy"), "x"),
        (("spec", "replicatedJobs", 0, "template", "spec", "template", "spec", "containers", 0, "ports"), [{"a": 1}]),
    ],
)
def test_the_check_finds_a_wrong_field_at_any_depth(place: tuple[str | int, ...], value: object) -> None:
    damaged = copy.deepcopy(jobset(built("base")))
    node: Any = damaged
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        check(damaged)


def test_no_more_is_permitted_than_is_needed() -> None:
    pod = job_of(built("base"))["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    (container,) = pod["containers"]
    context = container["securityContext"]
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    writable = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {"/work", "/tmp"} <= writable


def test_the_settings_are_variables_that_compose_and_agree_with_the_number_of_pods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resources = built("base")
    (settings,) = (one["data"] for one in resources if one["kind"] == "ConfigMap")
    job = job_of(resources)
    asked = MultinodeVariables.from_environment(settings)
    assert job["parallelism"] == job["completions"] == asked.nodes
    (container,) = job["template"]["spec"]["containers"]
    assert container["envFrom"] == [{"configMapRef": {"name": "bucketbench"}}]
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    run, scenario, *overrides = container["args"]
    assert run == "run"
    points = points_of_scenario(scenario, *overrides, "prefix=test")  # so that no other test's composition is found
    assert {point.client.name for point in points} == {asked.client}
    assert points[0].config["nodes"] == asked.nodes


def test_the_pods_meet_at_the_first_one_by_the_name_that_jobset_gives_it() -> None:
    resources = built("base")
    name, spec = jobset(resources)["metadata"]["name"], jobset(resources)["spec"]
    (container,) = job_of(resources)["template"]["spec"]["containers"]
    values = {
        "metadata.annotations['jobset.sigs.k8s.io/jobset-name']": name,
        "metadata.annotations['jobset.sigs.k8s.io/replicatedjob-name']": spec["replicatedJobs"][0]["name"],
    }
    known = {one["name"]: values[one["valueFrom"]["fieldRef"]["fieldPath"]] for one in container["env"]}
    (settings,) = (one["data"] for one in resources if one["kind"] == "ConfigMap")
    command = [
        re.sub(r"\$\((\w+)\)", lambda found: (known | settings)[found[1]], word) for word in container["command"]
    ]
    assert "--rdzv-endpoint=bucketbench-node-0-0.bucketbench:29400" in command
    assert "--nnodes=2" in command
    assert spec["network"]["enableDNSHostnames"] is True
    assert 29400 in [port["containerPort"] for port in container["ports"]]


def test_the_image_is_built_from_files_and_extras_that_there_are() -> None:
    text = (K8S / "Dockerfile").read_text()
    copied = [word for line in re.findall(r"^COPY (.*)", text, re.M) for word in line.split()[:-1]]
    assert copied
    kept = {line[1:] for line in (K8S / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")}
    for name in copied:
        assert (ROOT / name).exists(), name
        assert name in kept, f"{name} is kept from the build"
    asked = re.findall(r"/build\[([^]]*)\]", text)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(",".join(asked).split(",")) <= extras.keys()
    user = re.search(r"^USER (\d+):(\d+)$", text, re.M)
    context = job_of(built("base"))["template"]["spec"]["securityContext"]
    assert user is not None
    assert (context["runAsUser"], context["runAsGroup"]) == (int(user[1]), int(user[2]))


def test_the_dockerfile_has_no_findings() -> None:
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if hadolint is None:
        pytest.skip("hadolint is not installed: its package has a binary for Linux on x86-64 alone")
    done = subprocess.run([hadolint, str(K8S / "Dockerfile")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
