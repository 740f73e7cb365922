"""A throw-away certificate authority, so that clients verify the testbed's certificate as they would a provider's."""

import shutil
import ssl
import tempfile
from collections.abc import Iterable
from pathlib import Path

import trustme

__all__ = ["ThrowAwayAuthority"]


class ThrowAwayAuthority:
    """Makes a CA and one server certificate in a temporary folder of its own; `close` removes the folder.

    The certificate names localhost, 127.0.0.1, ::1, the host served, and `BUCKET.localhost` for each bucket given:
    OpenSSL accepts no wildcard directly below a top-level name, so a bucket made later is reached path-style.
    """

    def __init__(self, *, host: str, buckets: Iterable[str] = ()) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="testbed-tls-"))
        authority = trustme.CA(organization_name="bucketbench testbed")
        names = dict.fromkeys(["localhost", "127.0.0.1", "::1", host, *(f"{bucket}.localhost" for bucket in buckets)])
        certificate = authority.issue_cert(*names)
        self.certificate = self._folder / "server.pem"
        self.key = self._folder / "server.key"
        self.ca_certificate = self._folder / "ca.pem"
        authority.cert_pem.write_to_path(str(self.ca_certificate))
        certificate.private_key_pem.write_to_path(str(self.key))
        for blob in certificate.cert_chain_pems:
            blob.write_to_path(str(self.certificate), append=True)

    def context(self) -> ssl.SSLContext:
        """Returns a server's TLS context, HTTP/1.1 only."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        context.set_alpn_protocols(["http/1.1"])
        return context

    def close(self) -> None:
        """Removes the certificates and the keys."""
        shutil.rmtree(self._folder, ignore_errors=True)
