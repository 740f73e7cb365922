"""What kind of instance of a cloud this machine is, asked of the cloud's own metadata service; best effort.

Only a machine whose firmware says that it belongs to EC2 or GCE sends a request, so that a laptop never waits for an
address that nobody answers; and no request waits longer than ``LIMIT_S`` in all.

*Sources*: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-service.html (IMDSv2),
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/identify_ec2_instances.html,
https://cloud.google.com/compute/docs/metadata/querying-metadata and
https://cloud.google.com/compute/docs/instances/detect-compute-engine.
"""

from __future__ import annotations

import http.client
import json
import os
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

__all__ = ["LIMIT_S", "describe_instance", "instance_of"]

LIMIT_S: Final = 2.0
"""The longest that the metadata service is waited for. *Source*: ours; it is on the machine's own host and answers in
milliseconds, and a container that may not reach it gets no answer at all."""

_ADDRESS: Final = "http://169.254.169.254"  # of both clouds; a name would be asked of a resolver that may not answer
_LARGEST_ANSWER: Final = 64 << 10
_FIELDS: Final = ("instance_type", "region", "zone", "image_id")
_FIRMWARE: Final = Path("/sys/class/dmi/id")


@cache  # a run has one machine, and asks for it with each of its jobs
def describe_instance() -> dict[str, str | None]:
    """The instance that this process runs on, as ``instance_of`` has it."""
    return instance_of(os.environ, firmware=_FIRMWARE, limit_s=LIMIT_S)


def instance_of(environment: Mapping[str, str], *, firmware: Path, limit_s: float) -> dict[str, str | None]:
    """What kind of instance a machine is: never an account, a project, a name or an address of it.

    Args:
        environment: where ``AWS_EC2_METADATA_DISABLED=true`` and ``NO_GCE_CHECK=true`` keep the service from being
            asked, ``AWS_EC2_METADATA_SERVICE_ENDPOINT`` and ``GCE_METADATA_HOST`` say where it is, as for the SDKs.
        firmware: the directory in which the kernel shows what the firmware says of the machine.
        limit_s: the longest to wait for the service.

    Returns:
        ``cloud``, ``ec2`` or ``gce``; ``instance_type``, ``region``, ``zone`` and ``image_id``, where it is known;
        ``cloud_reason``, why the service told nothing. Each is None where there is nothing to tell.
    """
    told: dict[str, str | None] = dict.fromkeys(("cloud", *_FIELDS, "cloud_reason"))
    cloud = _cloud(firmware)
    if cloud is None:
        return told
    disabled = {"ec2": "AWS_EC2_METADATA_DISABLED", "gce": "NO_GCE_CHECK"}[cloud]
    if environment.get(disabled, "").lower() == "true":
        return told | {"cloud": cloud, "cloud_reason": f"{disabled}=true"}
    answers: list[dict[str, str | None]] = []
    failures: list[str] = []

    def ask() -> None:
        try:
            answers.append(_ec2(environment, limit_s) if cloud == "ec2" else _gce(environment, limit_s))
        except (OSError, ValueError, TypeError, AttributeError, http.client.HTTPException) as error:
            failures.append(f"the metadata service: {type(error).__name__}: {error}")

    # A thread that is not waited for at the end: a time limit of a socket starts again with each byte.
    asking = threading.Thread(target=ask, daemon=True, name="instance-metadata")
    asking.start()
    asking.join(limit_s)
    if answers:
        return told | {"cloud": cloud} | answers[0]
    reason = failures[0] if failures else f"the metadata service did not answer within {limit_s:g} s"
    return told | {"cloud": cloud, "cloud_reason": reason}


def _cloud(firmware: Path) -> str | None:
    told = {name: _text(firmware / name) for name in ("sys_vendor", "bios_version", "product_name")}
    if told["sys_vendor"] == "Amazon EC2" or "amazon" in told["bios_version"].lower():  # Nitro; Xen
        return "ec2"
    return "gce" if told["product_name"] == "Google Compute Engine" else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _ec2(environment: Mapping[str, str], limit_s: float) -> dict[str, str | None]:
    address = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _ADDRESS
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    token, _ = _answer("PUT", address, "/latest/api/token", lifetime, limit_s)
    headers = {"X-aws-ec2-metadata-token": token}
    text, _ = _answer("GET", address, "/latest/dynamic/instance-identity/document", headers, limit_s)
    document = json.loads(text)
    names = {"instance_type": "instanceType", "region": "region", "zone": "availabilityZone", "image_id": "imageId"}
    return {field: _string(document.get(name)) for field, name in names.items()}


def _gce(environment: Mapping[str, str], limit_s: float) -> dict[str, str | None]:
    host = environment.get("GCE_METADATA_HOST")
    address = f"http://{host}" if host else _ADDRESS
    found = {}
    for name in ("machine-type", "zone", "image"):  # one by one: all of it at once has keys and scripts in it
        headers = {"Metadata-Flavor": "Google"}
        text, flavor = _answer("GET", address, f"/computeMetadata/v1/instance/{name}", headers, limit_s)
        if flavor != "Google":
            raise ValueError("what answered is not Google's metadata service")
        found[name] = text.strip().rpartition("/")[2] or None  # projects/NUMBER/zones/us-west1-a
    zone = found["zone"]
    return {
        "instance_type": found["machine-type"],
        "region": zone.rpartition("-")[0] if zone else None,
        "zone": zone,
        "image_id": found["image"],
    }


def _answer(method: str, address: str, path: str, headers: Mapping[str, str], limit_s: float) -> tuple[str, str | None]:
    """The body of an answer, and the header by which Google's service shows that it is itself. Nothing is a proxy's."""
    parts = urlsplit(address)
    if parts.hostname is None:
        raise ValueError(f"{address} is no address")
    connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=limit_s)
    try:
        connection.request(method, f"{parts.path.rstrip('/')}{path}", headers=dict(headers))
        response = connection.getresponse()
        body = response.read(_LARGEST_ANSWER)
        if response.status != 200:
            raise ValueError(f"{method} {path} was answered {response.status}")
        return body.decode(), response.headers.get("Metadata-Flavor")
    finally:
        connection.close()


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
