"""The documentation site: every page is in its navigation, and at night it is built as ``make docs`` builds it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
NAVIGATION = (ROOT / "utils" / "documentation_site" / "navigation.md").read_text(encoding="utf-8")
GLOBBED = {"docs/decisions", "docs/results"}  # their pages are in the order of their names

REMOTE = re.compile(
    r"""<(?:script|img|link|iframe|source)\b[^>]*?(?:src|href)=["']?(?:https?:)?//[^"'>]*"""
    r"""|(?:@import|url\()\s*["']?(?:https?:)?//[^"')]*"""
)
"""What a browser asks for when it opens a page; a link is followed by its reader alone."""


def test_every_page_is_in_the_navigation() -> None:
    pages = [path.relative_to(ROOT).with_suffix("") for path in ROOT.glob("docs/**/*.md")]
    named = {str(page) for page in pages if str(page.parent) not in GLOBBED or page.name == "README"}
    listed = re.findall(r"^(docs/\S+)$", NAVIGATION, re.MULTILINE)
    assert len(set(listed)) == len(listed)
    assert set(listed) == named


def test_no_page_links_to_a_directory() -> None:
    """Which a site has none of."""
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")):
        assert re.findall(r"\]\((?!https?:)[^)\s]*/(?:#[^)]*)?\)", page.read_text(encoding="utf-8")) == [], page


def test_what_a_browser_would_ask_for_is_told_from_a_link() -> None:
    remote = ['<script defer src="https://a/b.js">', "<link rel=x href='//a/b.css'>", "@import url(https://a/b.css)"]
    assert all(REMOTE.search(text) for text in remote)
    local = [
        '<a href="https://a/b">',
        '<script src="_static/a.js">',
        "url(../fonts/a.woff2)",
        "url(data:image/svg+xml;)",
    ]
    assert not any(REMOTE.search(text) for text in local)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_site_builds_without_a_warning_and_asks_nobody_for_anything(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="the extra docs is not installed: make docs installs it")
    options = re.search(r"^site := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert options is not None
    words = shlex.split(options[1].replace("build/doctrees", str(tmp_path / "doctrees")))
    command = [sys.executable, "-m", "sphinx", *words, ".", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    site = tmp_path / "site"
    assert "MapDataset.from_prefix" in (site / "docs" / "reference" / "torchbucket.html").read_text(encoding="utf-8")
    assert (site / "index.html").read_bytes() == (site / "README.html").read_bytes()
    asked = {
        match.group()
        for path in site.rglob("*")
        if path.suffix in (".html", ".css")
        for match in REMOTE.finditer(path.read_text(encoding="utf-8"))
    }
    assert asked == set()
