"""Both dialects as they demand one testbed's throw-away credentials."""

import time
from collections.abc import Callable, Collection

from buckettestbed.auth.credentials import EXPIRED, OWNER, READ_ONLY, VIEWER
from buckettestbed.auth.dialect import AuthenticatedDialect
from buckettestbed.auth.gcs import GcsAuthenticator
from buckettestbed.auth.s3 import S3Authenticator
from buckettestbed.auth.signed_url import SignedUrls
from buckettestbed.auth.throwaway import ThrowAwayCredentials
from buckettestbed.auth.tokens import Holder, Tokens
from buckettestbed.gcs.service import GcsService
from buckettestbed.model.buckets import Buckets
from buckettestbed.s3.buckets import region_of
from buckettestbed.s3.service import S3Service

__all__ = ["authenticated_gcs", "authenticated_s3"]


def authenticated_s3(
    service: S3Service,
    made: ThrowAwayCredentials,
    *,
    buckets: Buckets,
    public_buckets: Collection[str] = (),
    now: Callable[[], float] = time.time,
) -> AuthenticatedDialect:
    """Returns the S3 dialect, open to those who have one of the access keys made.

    Args:
        service: what to guard.
        made: the credentials.
        buckets: the model, which knows buckets' regions.
        public_buckets: buckets that anyone may read.
        now: the time in seconds since the epoch.
    """
    keys = made.credentials.access_keys

    def region(bucket: str) -> str | None:
        found = buckets.find(bucket)
        return None if found is None else region_of(found)

    authenticator = S3Authenticator(
        service,
        keys=keys.values(),
        read_only=[keys[READ_ONLY].access_key_id],
        public_buckets=public_buckets,
        region=region,
        now=now,
    )
    return AuthenticatedDialect(service, authenticator)


def authenticated_gcs(
    service: GcsService,
    made: ThrowAwayCredentials,
    *,
    public_buckets: Collection[str] = (),
    now: Callable[[], float] = time.time,
) -> AuthenticatedDialect:
    """Returns the GCS dialect, open to those who have a token, or a service account to get one with or to sign by.

    Args:
        service: what to guard.
        made: the credentials.
        public_buckets: buckets that anyone may read.
        now: the time in seconds since the epoch.
    """
    accounts = {account.email: account for account in made.service_accounts}
    owner, viewer = (account.email for account in made.service_accounts)
    known = made.credentials.tokens
    tokens = Tokens(
        accounts.values(),
        token_uri=made.token_uri,
        lifetime_s=made.token_lifetime_s,
        known={
            known[OWNER]: Holder(email=owner, may_write=True),
            known[VIEWER]: Holder(email=viewer, may_write=False),
            known[EXPIRED]: Holder(email=owner, may_write=True, expires_s=0.0),
        },
        now=now,
    )
    signed_urls = SignedUrls(accounts.values(), now=now)
    return AuthenticatedDialect(
        service, GcsAuthenticator(service, tokens=tokens, signed_urls=signed_urls, public_buckets=public_buckets)
    )
