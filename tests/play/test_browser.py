"""The page in headless Chromium: every tab by mouse and keyboard, nothing else is asked for, names are text."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seqloom.generation.batcher import Batcher
from seqloom.generation.requests import Request
from seqloom.runs.metrics import Metrics
from tests.play.conftest import Served, save_model

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = os.environ.get("SEQLOOM_CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium found; SEQLOOM_CHROMIUM names its program"),
]
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as tool:
        started = tool.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(params=[(1280, "light"), (360, "dark")], ids=["wide", "narrow"])
def tab(browser: Any, served: Served, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page, which must have no errors, be no wider than the screen, and ask for nothing but its server."""
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=served.url)
    opened = context.new_page()
    wrong: list[str] = []
    opened.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("request", lambda asked: None if asked.url.startswith(served.url) else wrong.append(asked.url))
    folder = served.runs.parent / HOSTILE
    save_model(folder, "gru", 4)
    served.engine.library._folders[HOSTILE] = folder
    opened.goto(served.url)
    opened.wait_for_selector("#write-models input")
    yield opened
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()
    del served.engine.library._folders[HOSTILE]
    assert [words for words in wrong if "the server responded with a status of 400" not in words] == []


def choose(tab: Any, *names: str) -> None:
    for box in tab.locator("#write-models input").all():
        box.set_checked(box.get_attribute("value") in names)


def wait_for(tab: Any, place: str, words: str) -> None:
    playwright.expect(tab.locator(place).first).to_contain_text(words, timeout=60_000)


def test_two_models_side_by_side(tab: Any, served: Served) -> None:
    choose(tab, "runs/gru", HOSTILE)
    tab.fill("#max_tokens", "40")
    tab.fill("#prompt", "Once upon")
    tab.press("#prompt", "Control+Enter")
    wait_for(tab, "#write-status", "done")
    assert tab.locator("article h3").all_inner_texts() == ["runs/gru", HOSTILE]
    assert "differ from token" in tab.inner_text("#write-status")
    assert tab.locator(".differs").count() == 2
    assert "ms a token" in tab.locator(".facts").first.inner_text()
    assert tab.locator("article svg").count() == 2
    text = tab.locator(".text").first
    text.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"):
        text.press(key)
    note = tab.locator(".alternatives").first
    assert "surprise" in note.inner_text()
    text.press("Enter")
    wait_for(tab, ".alternatives", "depends most on")
    tab.get_by_role("button", name="Copy the command").first.click()
    command = tab.evaluate("navigator.clipboard.readText()")
    assert command.startswith("seqloom generate ")
    assert "--max-tokens 40" in command


def test_a_text_is_stopped(tab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Batcher.step

    def wait_after_some_tokens(batcher: Batcher) -> list[Request]:
        """The text goes on when it was asked to stop, so that it cannot end before."""
        texts = [slot.request for slot in batcher._slots if slot.request is not None]
        deadline = time.monotonic() + 120
        while any(len(text.tokens) >= 5 and not text.cancelled for text in texts):
            assert time.monotonic() < deadline, "the button did not cancel the text"
            time.sleep(0.01)
        return step(batcher)

    monkeypatch.setattr(Batcher, "step", wait_after_some_tokens)
    choose(tab, "runs/endless")
    tab.fill("#max_tokens", "4000")
    tab.click("#go")
    tab.wait_for_selector(".text span:not(.prompt)")
    tab.click("#halt")
    wait_for(tab, "#write-status", "stopped")
    assert tab.locator("#halt").is_disabled()


def test_a_model_that_is_damaged_and_help(tab: Any) -> None:
    choose(tab, "runs/damaged")
    tab.get_by_role("button", name="What is Temperature?").click()
    assert "Divides the model's logits" in tab.inner_text("#help")
    tab.click("#go")
    wait_for(tab, "#write-status", "safetensors")


def test_nothing_is_asked_for_without_a_prompt(tab: Any) -> None:
    choose(tab, "runs/gru")
    tab.fill("#prompt", "")
    tab.click("#go")
    assert tab.evaluate("document.querySelector('#prompt').validity.valueMissing")
    assert tab.inner_text("#write-status") == ""
    assert tab.locator("article").count() == 0


def test_samples(tab: Any) -> None:
    choose(tab, "runs/he")
    tab.fill("#samples", "3")
    tab.fill("#max_tokens", "10")
    tab.click("#go")
    wait_for(tab, "#write-status", "done")
    assert tab.locator(".text").count() == 3


def test_models_of_different_tokenizers_differ_from_a_character_on(tab: Any) -> None:
    choose(tab, "runs/gru", "runs/other")
    tab.fill("#max_tokens", "20")
    tab.click("#go")
    wait_for(tab, "#write-status", "differ from token")
    assert tab.locator(".differs").count() == 2


def test_the_mixers_own_numbers(tab: Any) -> None:
    choose(tab, "runs/he", "runs/other")
    tab.fill("#max_tokens", "10")
    tab.click("#go")
    wait_for(tab, "#write-status", "done")
    for number, (view, words) in enumerate([("taps", "Across: lag"), ("write", "Across: token")]):
        own = tab.locator("details.own").nth(number)
        own.locator("summary").click()
        playwright.expect(own.locator("canvas")).to_be_visible()
        assert "not comparable" in own.inner_text()
        own.get_by_label("Layer").select_option("1")
        own.get_by_label("View").select_option(label=view)
        playwright.expect(own.get_by_role("status")).to_contain_text(words)
        own.locator("canvas").focus()
        own.locator("canvas").press("ArrowRight")
        playwright.expect(own.get_by_role("status")).to_contain_text(" 1")
        own.locator("canvas").hover()


@pytest.mark.slow
def test_a_picture_is_drawn(tab: Any, drawing: str) -> None:
    tab.reload()
    tab.wait_for_selector("#write-models input")
    choose(tab, "runs/gru", drawing)
    assert tab.locator("#prompt").is_visible()
    tab.fill("#prompt", "")
    choose(tab, drawing)
    assert not tab.locator("#prompt").is_visible()
    tab.check("#half")
    tab.fill("#samples", "2")
    tab.get_by_role("button", name="Draw").click()
    wait_for(tab, "#write-status", "done")
    names = [picture.get_attribute("alt") for picture in tab.locator("img.picture").all()]
    assert names == [
        f"picture of {drawing}, sample 1", "the picture whose upper half is given", f"picture of {drawing}, sample 2",
    ]  # fmt: skip
    for picture in tab.locator("img.picture").all():
        assert picture.evaluate("image => [image.naturalWidth, image.naturalHeight]") == [8, 8]
    assert "bits each" in tab.locator(".alternatives").first.inner_text()
    tab.locator("details.own summary").first.click()
    playwright.expect(tab.locator("canvas").first).to_be_visible()
    choose(tab, "runs/gru")
    assert tab.locator("#prompt").input_value() != ""
    assert not tab.locator("#half").is_visible()


def test_watch_opens_the_losses(tab: Any, served: Served) -> None:
    with Metrics(served.runs / "gru" / "metrics.jsonl") as metrics:
        for step in range(1, 30):
            metrics.append({"step": step, "loss": 5.0 / step, "seconds": 0.5, "tokens_per_second": 1234.0})
    try:
        tab.goto("about:blank")
        tab.goto(f"{served.url}/#live")
        wait_for(tab, "#runs", "step 29, loss 0.172, last row")
        assert "1,234 tokens a second" in tab.inner_text("#runs")
        assert tab.locator("#runs svg path").count() == 1
        tab.click("#tab-write")
        assert tab.locator("#write").is_visible()
    finally:
        (served.runs / "gru" / "metrics.jsonl").unlink()


@pytest.mark.skipif("SEQLOOM_AXE" not in os.environ, reason="SEQLOOM_AXE names no axe.min.js, of the package axe-core")
def test_axe_finds_nothing(browser: Any, served: Served) -> None:
    """Each tab, wide and narrow, light and dark."""
    script = Path(os.environ["SEQLOOM_AXE"]).read_text()
    for width, scheme in ((1280, "light"), (360, "dark"), (1280, "dark"), (360, "light")):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
        tab = context.new_page()
        tab.goto(served.url)
        tab.wait_for_selector("#write-models input")
        choose(tab, "runs/he", "runs/other")
        tab.fill("#max_tokens", "20")
        tab.click("#go")
        wait_for(tab, "#write-status", "done")
        tab.locator(".text span:not(.prompt)").nth(5).click()
        wait_for(tab, ".alternatives", "depends most on")
        tab.get_by_text("More").click()
        tab.get_by_text("The mixer's own numbers").first.click()
        playwright.expect(tab.locator("canvas").first).to_be_visible()
        tab.evaluate(script)
        for name in ("write", "score", "live", "reports", "other"):
            tab.click(f"#tab-{name}")
            found = tab.evaluate("axe.run().then((result) => result.violations)")
            assert [(each["id"], each["nodes"][0]["html"][:200]) for each in found] == [], (width, scheme, name)
        context.close()


def test_score_live_reports_and_other_programs(tab: Any) -> None:
    tab.locator("#tab-write").focus()
    tab.keyboard.press("ArrowRight")
    tab.select_option("#score-model", "runs/he")
    tab.fill("#score-text", f"Once {HOSTILE}")
    tab.get_by_role("button", name="Score").click()
    wait_for(tab, "#score-status", "bits per byte")
    assert tab.inner_text("#score-result .text").startswith("Once <img")
    tab.locator("#score-result .text").press("ArrowRight")
    playwright.expect(tab.locator("#score-result").get_by_role("status")).to_contain_text("surprise")
    tab.click("#tab-live")
    wait_for(tab, "#runs", "No run here has rows")
    tab.click("#tab-reports")
    tab.wait_for_selector("#report-list a")
    tab.click("#tab-other")
    assert "/v1/completions" in tab.inner_text("#curl")
