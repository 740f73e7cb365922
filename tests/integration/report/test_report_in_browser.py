"""The page of a run in headless Chromium, as Debian packages it: `apt-get install chromium`.

It is opened from its file, as a person does, who may have no network.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from history_runs import write_history
from recorded_runs import recorded_run, sweep_jobs

from bucketbench.history.page import render_history
from bucketbench.history.series import arrange_history
from bucketbench.report import load_run
from bucketbench.report.html import write_html

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt-get install chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("page")
    jobs = sweep_jobs()
    jobs[1] = {**jobs[1], "status": "failed", "reason": "killed by <SIGKILL>"}
    run = recorded_run(directory / "2026-11-02_10-00-00", jobs)
    write_html([load_run(run)], directory / "report.html")
    return directory / "report.html"


DIMMED_BY_CLIENT = """() => {
  const found = {};
  for (const mark of document.querySelectorAll("section.part:not([hidden]) svg [role=graphics-symbol]")) {
    const [client, text] = mark.getAttribute("aria-label").split(" · ");
    if (text) (found[client] ??= []).push(mark.classList.contains("dimmed"));
  }
  return found;
}"""

LEAST_CONTRAST = """() => {
  const luminance = (name) => {
    const made = document.createElement("i");
    made.style.color = `var(--${name})`;
    document.body.append(made);
    const parts = getComputedStyle(made).color.match(/\\d+/g).slice(0, 3).map((part) => part / 255);
    made.remove();
    const [red, green, blue] = parts.map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const page = luminance("page");
  const contrast = (other) => (Math.max(other, page) + 0.05) / (Math.min(other, page) + 0.05);
  const names = ["text", "muted", "link", "bad", "won", "contestant", "reference"];
  return Math.min(...names.map((name) => contrast(luminance(name))));
}"""
"""Of text and marks on the page, by the formula of WCAG 2.2."""


@dataclass
class Opened:
    """A page, and all that it asked for and complained of."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def names(self) -> list[str]:
        """The clients of the visible rows, from top to bottom."""
        found: list[str] = self.page.evaluate(
            "() => [...document.querySelectorAll('table.rows tbody tr[id]')].filter((row) => row.offsetParent)"
            ".map((row) => row.dataset.label.replace('★ ', ''))"
        )
        return found

    def groups(self) -> list[str]:
        """The headings of the visible groups."""
        found: list[str] = self.page.locator("table.rows tr.group:visible").all_inner_texts()
        return [text.strip() for text in found]


@contextmanager
def opening(browser: Browser, file: Path) -> Iterator[Opened]:
    context = browser.new_context()
    page = context.new_page()
    made = Opened(page=page)
    page.on("request", lambda request: made.requests.append(request.url))
    page.on("console", lambda message: made.complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: made.complaints.append(str(error)))
    page.goto(file.as_uri())
    yield made
    context.close()


@pytest.fixture(scope="module")
def shown(browser: Browser, file: Path) -> Iterator[Opened]:
    with opening(browser, file) as made:
        yield made


@pytest.fixture
def opened(shown: Opened, file: Path) -> Iterator[Opened]:
    """The page as it was opened; the tests share it, since a browser takes longer to open it than for all they do."""
    yield shown
    shown.page.emulate_media(media="null", color_scheme="null")
    shown.page.set_viewport_size({"width": 1280, "height": 720})
    shown.page.locator("#reset").click()
    assert shown.complaints == []
    assert [url for url in shown.requests if not url.startswith(("data:", file.as_uri()))] == []


def test_it_opens_without_a_complaint_and_asks_for_nothing(opened: Opened) -> None:
    assert opened.page.title() == "dataset: 36 jobs of 3 clients, 1 failed"
    assert opened.page.locator("#count").inner_text() == "6 of 6 rows"
    assert opened.page.locator("figure svg").count() > 10
    assert opened.groups() == ["dataloader.num_workers=1", "dataloader.num_workers=2"]


def test_what_is_injected_does_not_run(browser: Browser, file: Path) -> None:
    """The policy holds even where text became markup."""
    with opening(browser, file) as made:
        page = made.page
        page.evaluate(
            "() => { const made = document.createElement('script'); made.textContent = 'window.ran = 1';"
            " document.body.append(made); document.body.insertAdjacentHTML('beforeend',"
            ' `<img src=https://example.invalid/x onerror="window.ran = 2">`); }'
        )
        page.wait_for_timeout(50)
        assert page.evaluate("() => window.ran") is None
        assert made.complaints
        assert all("Content Security Policy" in complaint for complaint in made.complaints)


def test_a_heading_sorts_both_ways_and_what_is_na_comes_last(opened: Opened) -> None:
    opened.page.select_option("#group", "")
    heading = opened.page.locator("th[data-heading='MiB/s'] button")
    heading.click()
    assert opened.names() == ["raw (bare loop)", "quick", "raw (bare loop)", "steady", "quick", "steady"]
    assert opened.page.locator("th[data-heading='MiB/s']").get_attribute("aria-sort") == "descending"
    heading.click()
    assert opened.names() == ["steady", "quick", "steady", "raw (bare loop)", "quick", "raw (bare loop)"]
    opened.page.locator("th[data-heading='client'] button").click()
    assert opened.names() == ["quick", "quick", "raw (bare loop)", "raw (bare loop)", "steady", "steady"]
    opened.page.locator("#reset").click()
    assert opened.names() == ["quick", "steady", "raw (bare loop)"] * 2


FILTERS = {
    "num_workers=2 role=contestant": ["quick", "steady"],
    "dataloader.num_workers>1 client!=raw": ["quick", "steady"],
    "client=*ea* num_workers<=1": ["steady"],
    "LOOP num_workers=1": ["raw (bare loop)"],
    "style=map client.options.part_bytes>=8388608 client=quick": ["quick", "quick"],
    "status=partial": ["steady"],
    'client="quick" num_workers=[1]': [],
    "network=regional num_workers=1 client=qui": [],
    "https://x?y=1": [],
}


def test_rows_are_filtered_by_any_key(opened: Opened) -> None:
    for terms, names in FILTERS.items():
        opened.page.fill("#filter", terms)
        assert opened.names() == names, terms
        assert opened.page.locator("#count").inner_text() == f"{len(names)} of 6 rows"


def test_an_unknown_key_is_said(opened: Opened) -> None:
    for key in ("wrokers", "constructor", "toString"):  # the last two are of every object of JavaScript
        opened.page.fill("#filter", f"{key}=2")
        assert opened.page.locator("#count").inner_text() == f"there is no key {key}"
    opened.page.fill("#filter", "wrokers!=2 num_workers=1")
    assert opened.names() == ["quick", "steady", "raw (bare loop)"], "all that = does not find"


def test_rows_are_grouped_by_any_key_and_said_not_to_be_comparable(opened: Opened) -> None:
    banner = opened.page.locator(".comparability")
    assert "loud" not in (banner.get_attribute("class") or "")
    opened.page.select_option("#group", "client")
    assert opened.groups() == ["client=quick", "client=raw", "client=steady"]
    assert "loud" in (banner.get_attribute("class") or "")
    opened.page.fill("#filter", "num_workers=2")
    assert "loud" not in (banner.get_attribute("class") or "")
    opened.page.select_option("#group", "dataloader.num_workers")
    assert opened.groups() == ["dataloader.num_workers=2"]


def test_charts_fade_what_is_filtered_out_and_its_part_disappears(opened: Opened) -> None:
    opened.page.fill("#filter", "num_workers=1 client=quick")
    parts: list[bool] = opened.page.evaluate(
        "() => [...document.querySelectorAll('section.part')].map((part) => part.offsetParent !== null)"
    )
    assert parts == [True, False]
    dimmed: dict[str, Any] = opened.page.evaluate(DIMMED_BY_CLIENT)
    states = {name.replace("★ ", ""): set(states) for name, states in dimmed.items()}
    assert states == {"quick": {False}, "steady": {True}, "raw (bare loop)": {True}}


def test_the_address_brings_back_filter_order_and_groups(opened: Opened, browser: Browser) -> None:
    opened.page.fill("#filter", "client!=raw")
    opened.page.select_option("#group", "client")
    opened.page.locator("th[data-heading='MiB/s'] button").click()
    names, groups = opened.names(), opened.groups()
    assert names == ["quick", "quick", "steady", "steady"]
    other = Opened(page=browser.new_page())
    other.page.goto(opened.page.url)
    assert (other.names(), other.groups()) == (names, groups)
    assert other.page.input_value("#filter") == "client!=raw"
    other.page.close()
    opened.page.locator("#reset").click()
    assert opened.page.evaluate("() => location.hash") == ""


def test_a_row_has_an_address(opened: Opened) -> None:
    row = opened.page.locator("table.rows tbody tr[id]").nth(4)
    row.locator("a.self").click()
    assert opened.page.url.endswith(f"#{row.get_attribute('id')}")
    assert "chosen" in (row.get_attribute("class") or "")
    assert opened.page.locator("tr.chosen").count() == 1


def test_a_mark_of_a_chart_says_what_it_is(opened: Opened) -> None:
    mark = opened.page.locator("section.part svg [aria-roledescription='tick'][aria-label*='quick · median']").first
    mark.evaluate("(mark) => mark.scrollIntoView({ block: 'center' })")
    mark.hover()
    assert opened.page.locator("#tip").inner_text() == mark.get_attribute("aria-label")


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_is_wider_than_the_screen(opened: Opened, width: int) -> None:
    opened.page.set_viewport_size({"width": width, "height": 800})
    assert opened.page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_it_is_dark_where_the_reader_is_and_its_text_stands_out(opened: Opened) -> None:
    backgrounds = []
    for scheme in ("light", "dark"):
        opened.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]  # a literal of two
        backgrounds.append(opened.page.evaluate("() => getComputedStyle(document.body).backgroundColor"))
        assert (
            opened.page.evaluate(LEAST_CONTRAST) >= 4.5
        )  # WCAG 2.2, 1.4.3 for text, and more than 1.4.11 asks of graphics
    assert backgrounds[0] != backgrounds[1]


def test_on_paper_it_is_light_and_has_no_controls(opened: Opened) -> None:
    opened.page.emulate_media(media="print", color_scheme="dark")
    assert not opened.page.locator("#controls").is_visible()
    assert opened.page.evaluate("() => getComputedStyle(document.body).color") == "rgb(0, 0, 0)"


def test_without_scripts_the_page_is_whole(browser: Browser, file: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.locator("table.rows tbody tr[id]").count() == 6
    assert not page.locator("#controls").is_visible()
    assert page.locator("figure svg").first.is_visible()
    context.close()


def test_a_history_opens_likewise_and_its_marks_say_what_they_are(browser: Browser, tmp_path: Path) -> None:
    runs = [load_run(path) for path in write_history(tmp_path, runs=9, drop_at=4)]
    file = tmp_path / "history.html"
    file.write_text(render_history(arrange_history(runs), []), encoding="utf-8")
    for width in (1280, 390):
        page = browser.new_page(viewport={"width": width, "height": 900})
        made = Opened(page=page)
        page.on("request", lambda request, made=made: made.requests.append(request.url))  # type: ignore[misc]  # default
        page.on("console", lambda message, made=made: made.complaints.append(message.text))  # type: ignore[misc]
        page.goto(file.as_uri())
        page.locator(".chart svg [aria-roledescription=point][aria-label^='quick · dataset/2026-11-02']").first.hover()
        assert page.locator("#tip").inner_text().startswith("quick · dataset/2026-11-02_10-00-00, 2026-11-02 10:00")
        assert page.evaluate("() => document.documentElement.scrollWidth") == width
        assert made.complaints == []
        assert [url for url in made.requests if not url.startswith(("data:", file.as_uri()))] == []
        page.close()
