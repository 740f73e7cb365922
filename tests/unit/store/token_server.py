"""A stand-in on loopback for the servers that grant credentials: Google's token endpoint and metadata server, and AWS's
STS and instance and container metadata."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import parse_qs, urlsplit

STS_ANSWER = """<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIAWEB</AccessKeyId><SecretAccessKey>web-secret
</SecretAccessKey><SessionToken>web-token</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>
<AssumedRoleUser><Arn>arn:aws:sts::1:assumed-role/r/s</Arn><AssumedRoleId>x:s</AssumedRoleId></AssumedRoleUser>
</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"""


class TokenServer:
    """Counts what it grants: the n-th Google token is ``google-token-n``. ``fails`` refuses everything."""

    def __init__(self, *, lifetime_s: int = 3600) -> None:
        self.granted = 0
        self.fails = False
        self.wait_s = 0.0
        self.paths: list[str] = []
        self.forms: list[dict[str, str]] = []
        outer, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
                time.sleep(outer.wait_s)
                with lock:
                    outer.paths.append(self.path)
                    outer.forms.append({name: values[0] for name, values in parse_qs(body).items()})
                    if outer.fails:
                        self._send(400, b'{"error": "invalid_grant"}')
                        return
                    self._send(200, outer.said(urlsplit(self.path).path, self.command, lifetime_s).encode())

            def _send(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("metadata-flavor", "Google")
                self.send_header("content-type", "application/json" if body[:1] == b"{" else "text/xml")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = answer  # noqa: N815  # the base class wants them

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.host = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.host}"

    def said(self, path: str, method: str, lifetime_s: int) -> str:
        if path.endswith((":generateAccessToken", "/token")) and not path.startswith("/latest"):
            self.granted += 1
            token = f"google-token-{self.granted}"
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + lifetime_s))
            return json.dumps(
                {
                    "access_token": token,
                    "accessToken": token,
                    "expireTime": stamp,
                    "expires_in": lifetime_s,
                    "token_type": "Bearer",
                    "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
                }
            )
        if path == "/latest/api/token":
            return "imds-session"
        if path == "/latest/meta-data/iam/security-credentials/":
            return "the-role"
        if path.startswith("/latest/meta-data/iam/") or path == "/container":
            return json.dumps(
                {
                    "Code": "Success",
                    "AccessKeyId": "ASIACONTAINER" if path == "/container" else "ASIAINSTANCE",
                    "SecretAccessKey": "machine-secret",
                    "Token": "machine-token",
                    "Expiration": "2099-01-01T00:00:00Z",
                    "LastUpdated": "2026-01-01T00:00:00Z",
                }
            )
        if path.endswith("/service-accounts/default/"):
            return json.dumps({"email": "machine@example.iam.gserviceaccount.com", "scopes": [], "aliases": []})
        if path == "/computeMetadata/v1/project/project-id":
            return "a-project"
        if method == "POST":
            return STS_ANSWER
        return ""

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
