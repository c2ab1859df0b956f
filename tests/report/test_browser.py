"""The page as a browser shows it: what can be clicked works by mouse and keyboard, and nothing is asked of the network.

SEQLOOM_CHROMIUM names the browser's program, SEQLOOM_SCREENSHOTS the folder for pictures of the page.
"""

import csv
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seqloom.report import page
from tests.report.making import HOSTILE, comparison

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("vl_convert", reason="vl-convert is not installed")
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = os.environ.get("SEQLOOM_CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium found; SEQLOOM_CHROMIUM names its program"),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, drawn_charts: None) -> Path:
    return page.write(comparison(tmp_path_factory.mktemp("browser"), hostile=True))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as tool:
        started = tool.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def tab(browser: Any, report: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A page that must have no errors and ask for nothing but itself; `param` holds the settings of its context."""
    context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | getattr(request, "param", {})))
    opened = context.new_page()
    wrong: list[str] = []
    opened.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("request", lambda asked: wrong.append(asked.url[:80]) if asked.url != report.as_uri() else None)
    opened.goto(report.as_uri())
    yield opened
    context.close()
    assert [each for each in wrong if not each.startswith(("data:", "blob:"))] == []


def drawn(tab: Any, name: str) -> Any:
    figure = tab.locator(f"figure[data-chart='{name}']")
    figure.scroll_into_view_if_needed()
    figure.locator(".plot canvas").first.wait_for()
    return figure


def names(tab: Any) -> list[str]:
    result: list[str] = tab.locator("#models tbody th").evaluate_all("all => all.map(each => each.dataset.value)")
    return result


@pytest.mark.parametrize(
    "tab", [{"viewport": {"width": 1280, "height": 800}}, {"viewport": {"width": 390, "height": 844}}], indirect=True
)
def test_the_chart_of_memory_stands_beside_the_answer_on_the_first_screen(tab: Any) -> None:
    figure = tab.locator(".front figure")
    figure.locator(".plot canvas").first.wait_for()
    assert figure.get_attribute("data-chart").startswith("price of state bytes")
    box = figure.locator(".plot").bounding_box()
    size = tab.viewport_size
    assert box["y"] + box["height"] <= size["height"]
    assert box["x"] + box["width"] <= size["width"]
    assert tab.locator(".front .verdict").text_content().startswith("Certain: of one text")


def test_sorts_by_click_and_by_keyboard(tab: Any) -> None:
    before = names(tab)
    head = tab.locator("#models th", has=tab.get_by_role("button", name="ms a step", exact=True))
    head.get_by_role("button").click()
    after = names(tab)
    assert after != before
    assert sorted(after) == sorted(before)
    assert head.get_attribute("aria-sort") == "ascending"
    head.get_by_role("button").press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert names(tab) == after[::-1]
    tab.get_by_role("button", name="agreeing", exact=True).click()
    assert names(tab)[-1] == HOSTILE, "what is unknown stands last"
    tab.get_by_role("button", name="held-out loss", exact=True).click()
    assert names(tab) == before


def pixels(figure: Any) -> str:
    shown: str = figure.locator(".plot canvas").evaluate("canvas => canvas.toDataURL()")
    return shown


def changed(tab: Any, figure: Any, before: str) -> str:
    """The chart after it was drawn again, which must look different."""
    for _ in range(100):
        if figure.locator(".plot canvas").count() and (now := pixels(figure)) != before:
            return now
        tab.wait_for_timeout(50)
    raise AssertionError("the chart is as it was")


def test_a_chart_follows_its_controls_and_the_theme(tab: Any) -> None:
    figure = drawn(tab, "training")
    first = pixels(figure)
    figure.locator("[data-control=choice]").select_option(label="operations of the forward equation")
    second = changed(tab, figure, first)
    figure.get_by_label("logarithmic x").check()
    third = changed(tab, figure, second)
    figure.get_by_label("logarithmic y").check()
    fourth = changed(tab, figure, third)
    tab.emulate_media(color_scheme="dark")
    changed(tab, figure, fourth)
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 28)"


def test_the_numbers_of_a_chart_are_its_rows(tab: Any) -> None:
    figure = drawn(tab, "training")
    figure.locator(".numbers summary").click()
    table = figure.locator(".numbers table")
    table.wait_for()
    rows = json.loads(tab.locator("#data").text_content())["charts"]["training"]["tables"]["rows"]
    assert table.locator("tr").count() == len(list(csv.reader(rows.splitlines())))
    assert table.locator("tr").nth(0).locator("th").all_text_contents() == rows.splitlines()[0].split(",")


def test_a_map_is_read_where_it_is_pointed_at(tab: Any) -> None:
    figure = tab.locator("figure[data-map]").first
    figure.scroll_into_view_if_needed()
    figure.locator("img").hover()
    assert re.search(r"\d", figure.locator(".readout").inner_text())


def test_samples_by_keyboard(tab: Any) -> None:
    sample = tab.locator(".sample").first
    sample.locator(".text").focus()
    tab.keyboard.press("ArrowRight")
    first = sample.locator(".readout").inner_text()
    tab.keyboard.press("ArrowRight")
    assert "%" in first
    assert sample.locator(".readout").inner_text() != first
    assert sample.locator("i.at").count() == 1


def test_all_controls_are_reached_by_keyboard(tab: Any) -> None:
    drawn(tab, "training")
    tab.evaluate("document.querySelector('#training').scrollIntoView()")
    seen = set()
    for _ in range(200):
        tab.keyboard.press("Tab")
        seen.add(tab.evaluate("(e => e.dataset.control || e.dataset.save || e.tagName)(document.activeElement)"))
    assert {"A", "BUTTON", "choice", "x", "y", "svg", "csv", "SUMMARY"} <= seen


def test_downloads(tab: Any) -> None:
    figure = drawn(tab, "training")
    for kind, start in (("SVG", "<svg"), ("CSV", "model,batches,tokens")):
        with tab.expect_download() as result:
            figure.get_by_role("button", name=kind).click()
        assert Path(result.value.path()).read_text(encoding="utf-8").startswith(start)


@pytest.mark.parametrize("tab", [{"viewport": {"width": 390, "height": 844}, "has_touch": True}], indirect=True)
def test_a_phone_does_not_scroll_sideways(tab: Any) -> None:
    drawn(tab, "training")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    assert tab.evaluate("(e => e.scrollWidth > e.clientWidth)(document.querySelector('#contenders .scroll'))")


@pytest.mark.parametrize("tab", [{"java_script_enabled": False}], indirect=True)
def test_without_scripts(tab: Any) -> None:
    assert tab.locator("#models tbody tr").count() == 7
    assert "drawn by a script, which is off" in tab.content()


@pytest.mark.parametrize(
    ("tab", "name"),
    [
        ({"color_scheme": "light"}, "light"),
        ({"color_scheme": "dark"}, "dark"),
        ({"viewport": {"width": 390, "height": 844}}, "phone"),
        ({"viewport": {"width": 794, "height": 1123}, "color_scheme": "dark"}, "print"),
    ],
    indirect=["tab"],
)
def test_pictures(tab: Any, name: str, tmp_path: Path) -> None:
    if name == "print":
        tab.emulate_media(media="print")
        assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert not tab.locator(".controls").first.is_visible()
    else:
        for figure in ("training", "position", "price of ms a step", "lags"):
            drawn(tab, figure)
        tab.evaluate("window.scrollTo(0, 0)")
    folder = Path(os.environ.get("SEQLOOM_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    tab.screenshot(path=folder / f"report-{name}.png", full_page=True)
    assert (folder / f"report-{name}.png").stat().st_size > 100_000
