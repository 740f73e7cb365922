"""The report as one HTML file that opens anywhere: charts, tables and text in it, and no request leaves it."""

from __future__ import annotations

from bucketbench.report.html.document import render_html, write_html

__all__ = ["render_html", "write_html"]
