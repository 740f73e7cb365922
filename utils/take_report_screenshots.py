"""Take the pictures of docs/report.md and docs/history.md: a page light, dark and on a phone.

    python utils/take_report_screenshots.py multirun/dataset/2026-11-29_08-59-24
    bucketbench history --html history.html && python utils/take_report_screenshots.py history.html

It needs Chromium (``apt-get install chromium``) and playwright, which is among the development packages.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import sync_playwright

from bucketbench.cost.pricing import read_pricing
from bucketbench.report import load_run
from bucketbench.report.costs import priced
from bucketbench.report.html import write_html

IMAGES: Final = Path(__file__).resolve().parent.parent / "docs" / "images"

VIEWS: Final[dict[str, dict[str, Any]]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 1500}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 1500}},
    "narrow": {"color_scheme": "light", "viewport": {"width": 390, "height": 1500}},
}


def main() -> int:
    """Take them; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "run", type=Path, help="directory of a run, or a page that is written, by whose name they are called"
    )
    parser.add_argument("--directory", type=Path, default=IMAGES, help="where the pictures go (default: docs/images)")
    parser.add_argument("--whole", action="store_true", help="the whole page instead of its beginning")
    arguments = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.stderr.write("no Chromium is installed: apt-get install chromium\n")
        return 2
    arguments.directory.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as started:
        page_file = arguments.run.absolute()
        if page_file.is_dir():
            page_file = Path(scratch) / "report.html"
            write_html([priced(load_run(arguments.run), read_pricing())], page_file)
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, view in VIEWS.items():
            page = browser.new_page(**view)
            page.goto(page_file.as_uri())
            page.screenshot(path=arguments.directory / f"{page_file.stem}-{name}.png", full_page=arguments.whole)
            page.close()
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
