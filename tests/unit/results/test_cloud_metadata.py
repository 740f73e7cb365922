"""The instance of a cloud, by a metadata service of our own, one that never answers, and none."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bucketbench.cluster.ports import held_port
from bucketbench.provenance.cloud import describe_instance, instance_of

PATIENCE_S = 60.0  # for what answers at once; no test waits for it
NOTHING = dict.fromkeys(("cloud", "instance_type", "region", "zone", "image_id", "cloud_reason"))
DOCUMENT = {
    "accountId": "123456789012", "architecture": "x86_64", "availabilityZone": "eu-north-1b", "imageId": "ami-01",
    "instanceId": "i-0abc", "instanceType": "g5.2xlarge", "privateIp": "10.0.0.7", "region": "eu-north-1",
}  # fmt: skip
Answer = Callable[[str, Mapping[str, str]], tuple[int, str]]


def ec2(path: str, headers: Mapping[str, str]) -> tuple[int, str]:
    if path == "PUT /latest/api/token":
        return (200, "token-of-a-minute") if headers.get("X-aws-ec2-metadata-token-ttl-seconds") else (400, "")
    if headers.get("X-aws-ec2-metadata-token") != "token-of-a-minute":
        return 401, "no token: version 1 is turned off"
    return (200, json.dumps(DOCUMENT)) if path == "GET /latest/dynamic/instance-identity/document" else (404, "")


def gce(path: str, headers: Mapping[str, str]) -> tuple[int, str]:
    if headers.get("Metadata-Flavor") != "Google":
        return 403, "forbidden"
    told = {
        "machine-type": "projects/123456789/machineTypes/n2-standard-8",
        "zone": "projects/123456789/zones/us-west1-a",
        "image": "projects/debian-cloud/global/images/debian-12-v20250101",
    }
    name = path.removeprefix("GET /computeMetadata/v1/instance/")
    return (200, told[name]) if name in told else (404, "")


@contextmanager
def served(answer: Answer) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, text = answer(f"{self.command} {self.path}", dict(self.headers))
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.send_header("Metadata-Flavor", "Google")
            self.end_headers()
            self.wfile.write(text.encode())

        do_PUT = do_GET  # noqa: N815 - the name that the base class calls

        def log_message(self, *arguments: object) -> None:
            del arguments

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


@pytest.fixture
def firmware(tmp_path: Path) -> Callable[..., Path]:
    def write(**texts: str) -> Path:
        for name, text in texts.items():
            (tmp_path / name).write_text(f"{text}\n")
        return tmp_path

    return write


@pytest.mark.parametrize("texts", [{"sys_vendor": "Amazon EC2"}, {"sys_vendor": "Xen", "bios_version": "4.11.amazon"}])
def test_an_instance_of_ec2(texts: dict[str, str], firmware: Callable[..., Path]) -> None:
    with served(ec2) as address:
        environment = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://{address}/", "http_proxy": "http://127.0.0.1:9"}
        found = instance_of(environment, firmware=firmware(**texts), limit_s=PATIENCE_S)
    assert found == NOTHING | {
        "cloud": "ec2", "instance_type": "g5.2xlarge", "region": "eu-north-1", "zone": "eu-north-1b",
        "image_id": "ami-01",
    }  # fmt: skip


def test_an_instance_of_gce(firmware: Callable[..., Path]) -> None:
    with served(gce) as address:
        place = firmware(product_name="Google Compute Engine")
        found = instance_of({"GCE_METADATA_HOST": address}, firmware=place, limit_s=PATIENCE_S)
    assert found == NOTHING | {
        "cloud": "gce", "instance_type": "n2-standard-8", "region": "us-west1", "zone": "us-west1-a",
        "image_id": "debian-12-v20250101",
    }  # fmt: skip


def test_a_plain_machine_asks_nobody(firmware: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **named: object) -> None:
        raise AssertionError("a request was sent")

    monkeypatch.setattr(socket, "create_connection", refuse)
    plain = firmware(sys_vendor="LENOVO", bios_version="N2HET", product_name="20QD")
    assert instance_of({}, firmware=plain, limit_s=PATIENCE_S) == NOTHING
    assert instance_of({}, firmware=plain / "absent", limit_s=PATIENCE_S) == NOTHING
    monkeypatch.setattr("bucketbench.provenance.cloud._FIRMWARE", plain)
    assert describe_instance.__wrapped__() == NOTHING
    for name, vendor in (("AWS_EC2_METADATA_DISABLED", {"sys_vendor": "Amazon EC2"}),
                         ("NO_GCE_CHECK", {"sys_vendor": "", "product_name": "Google Compute Engine"})):  # fmt: skip
        found = instance_of({name: "true"}, firmware=firmware(bios_version="", **vendor), limit_s=PATIENCE_S)
        assert found["cloud_reason"] == f"{name}=true"


def test_a_service_that_never_answers_is_given_up(firmware: Callable[..., Path]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it takes connections in, and says nothing
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        place = firmware(product_name="Google Compute Engine")
        found = instance_of({"GCE_METADATA_HOST": host}, firmware=place, limit_s=0.1)
    assert found["cloud"] == "gce"
    assert found["instance_type"] is None
    assert found["cloud_reason"]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda path, headers: (403, "off"), "PUT /latest/api/token was answered 403"),
        (lambda path, headers: (200, "<html>"), "JSONDecodeError"),
        (lambda path, headers: (200, "[]"), "AttributeError"),
    ],
)
def test_an_answer_that_is_none_costs_nothing_but_the_fields(
    answer: Answer, told: str, firmware: Callable[..., Path]
) -> None:
    with served(answer) as address:
        environment = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://{address}"}
        found = instance_of(environment, firmware=firmware(sys_vendor="Amazon EC2"), limit_s=PATIENCE_S)
    assert told in str(found["cloud_reason"])
    assert found["instance_type"] is None


def test_a_service_that_nobody_serves(firmware: Callable[..., Path]) -> None:
    place = firmware(product_name="Google Compute Engine")
    with held_port("127.0.0.1") as port:
        found = instance_of({"GCE_METADATA_HOST": f"127.0.0.1:{port}"}, firmware=place, limit_s=PATIENCE_S)
    assert "ConnectionRefusedError" in str(found["cloud_reason"])
