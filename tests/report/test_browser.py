"""The page as a browser shows it: what can be clicked works by mouse and keyboard, and nothing is asked of the network.

SEQLOOM_CHROMIUM names the browser's program, SEQLOOM_SCREENSHOTS the folder for pictures of the page.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seqloom.report import page
from tests.report.making import HOSTILE, comparison
from tests.report.test_many import many

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("plotly", reason="plotly is not installed")
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = os.environ.get("SEQLOOM_CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium found; SEQLOOM_CHROMIUM names its program"),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    figure = tab.locator(f"#figure-{name}")
    figure.scroll_into_view_if_needed()
    figure.locator(".plot .main-svg").first.wait_for()
    return figure


NAMES = """() => [...document.querySelectorAll('#figure-price .scatterlayer text')]
  .filter((each) => each.style.fillOpacity !== "0").map((each) => each.getBoundingClientRect())
  .map((box) => [box.left + 4, box.top + 3, box.right - 4, box.bottom - 3])"""
"""the boxes of the names that are shown, without the spaces around them"""


def names(tab: Any) -> list[str]:
    found: list[str] = tab.locator("#standing tbody th").evaluate_all("all => all.map(each => each.dataset.value)")
    return found


def test_sorts_by_click_and_by_keyboard(tab: Any) -> None:
    before = names(tab)
    head = tab.locator("#standing th", has=tab.get_by_role("button", name="ms a step", exact=True))
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
    tab.get_by_role("button", name="held-out cost", exact=True).click()
    assert names(tab) == before


def test_curves_axes_and_theme(tab: Any) -> None:
    figure = drawn(tab, "training")
    curve = "() => document.querySelectorAll('#figure-training .scatterlayer .trace').length"
    count = tab.evaluate(curve)
    figure.get_by_label("she", exact=True).uncheck()
    tab.wait_for_function(f"({curve})() < {count}")
    layout = "document.querySelector('#figure-training .plot').layout"
    figure.locator("[data-choice=panel]").select_option(label="operations of the forward equation")
    tab.wait_for_function(f"{layout}.xaxis.title.text.startsWith('operations')")
    figure.get_by_label("logarithmic x").check()
    tab.wait_for_function(f"{layout}.xaxis.type === 'log'")
    points = "document.querySelector('#figure-training .plot').data.find(each => each.name === 'aft').x.length"
    many = tab.evaluate(points)
    figure.locator("[data-choice=stretch]").select_option("50")
    tab.wait_for_function(f"{points} < {many}")
    colour = tab.evaluate(f"{layout}.font.color")
    tab.locator("#theme").click()
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
    tab.wait_for_function(f"{layout}.font.color !== '{colour}'")


def test_names_of_many_points_do_not_cover_each_other(browser: Any, tmp_path: Path) -> None:
    many(tmp_path)
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    tab.goto(page.write(tmp_path).as_uri())
    figure = drawn(tab, "price")
    for choice in range(figure.locator("[data-choice=panel] option").count()):
        figure.locator("[data-choice=panel]").select_option(str(choice))
        tab.wait_for_timeout(300)
        boxes = tab.evaluate(NAMES)
        assert len(boxes) > 5
        for at, (left, top, right, bottom) in enumerate(boxes):
            assert not any(left < c and a < right and top < d and b < bottom for a, b, c, d in boxes[:at])
    tab.close()


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
    tab.evaluate("document.querySelector('#training').scrollIntoView()")
    tab.evaluate("document.activeElement.blur()")
    seen = set()
    for _ in range(60):
        tab.keyboard.press("Tab")
        seen.add(
            tab.evaluate("(e => e.id || e.dataset.choice || e.dataset.toggle || e.tagName)(document.activeElement)")
        )
    assert {"theme", "A", "BUTTON", "panel", "stretch", "logx", "logy", "she", "SUMMARY"} <= seen


def test_downloads(tab: Any) -> None:
    panel = tab.locator("#figure-training .panel").first
    for kind, start in (("SVG", "<svg"), ("CSV", "contender,batches,tokens")):
        with tab.expect_download() as found:
            panel.get_by_role("link", name=kind).click()
        assert Path(found.value.path()).read_text(encoding="utf-8").startswith(start)


@pytest.mark.parametrize("tab", [{"viewport": {"width": 390, "height": 844}, "has_touch": True}], indirect=True)
def test_a_phone_does_not_scroll_sideways(tab: Any) -> None:
    drawn(tab, "training")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    assert tab.evaluate("(e => e.scrollWidth > e.clientWidth)(document.querySelector('#contenders .scroll'))")


@pytest.mark.parametrize("tab", [{"java_script_enabled": False}], indirect=True)
def test_without_scripts(tab: Any) -> None:
    assert tab.locator("svg.figure").count() > 10
    assert tab.locator("#figure-price svg.figure").last.is_visible()
    assert not tab.locator(".controls").first.is_visible()
    assert not tab.locator("#theme").is_visible()


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
        assert tab.locator("#figure-training svg.figure").last.is_visible()
    else:
        for figure in ("training", "position", "price", "lags"):
            drawn(tab, figure)
        tab.evaluate("window.scrollTo(0, 0)")
    folder = Path(os.environ.get("SEQLOOM_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    tab.screenshot(path=folder / f"report-{name}.png", full_page=True)
    assert (folder / f"report-{name}.png").stat().st_size > 100_000
