"""Credentials that the testbed makes for itself and, where asked, demands as the providers do.

`credentials` has them as values and files; `canonical`, `sigv4`, `chunks` and `signed_url` check signatures, `tokens`
OAuth; `s3` and `gcs` decide about one request, and `dialect` puts that decision before another.
"""
