import re

import pytest

from seqloom.report.figures import Axis, Point, Series, css, heat, lines, points, standalone
from seqloom.report.figures.labels import apart, shortened, width
from seqloom.report.figures.palette import DARK, LIGHT, SLOTS, contrast
from tests.report.figures.drawn import parsed, texts

AXIS = Axis("x")


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_stand_out_from_the_paper(theme: dict[str, str]) -> None:
    for slot in range(SLOTS):
        assert contrast(theme[f"series-{slot}"], theme["paper"]) >= 3
    assert contrast(theme["ink"], theme["paper"]) >= 12
    assert 1.1 < contrast(theme["faint"], theme["paper"]) < 2
    assert len(set(theme.values())) == len(theme)


def test_contrast_is_the_known_one() -> None:
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01)


def test_the_style_declares_every_variable_in_both_themes() -> None:
    style = css()
    for part in (
        ":root{",
        ":root[data-theme=dark]{",
        "@media (prefers-color-scheme: dark){:root:not([data-theme=light]){",
    ):
        block = style.split(part, 1)[1].split("}", 1)[0]
        assert set(re.findall(r"--([\w-]+):", block)) == set(LIGHT)


def test_a_figure_stands_alone() -> None:
    for svg in (
        lines([Series("a", [0, 1], [1, 2], 0)], title="T <&>", description="d var(--x)", x=AXIS, y=AXIS),
        points([Point("a", 1, 1, 0)], title="T <&>", description="d", x=AXIS, y=AXIS),
        heat([[1, 2]], title="T <&>", description="d", x="a", y="b", signed=False),
    ):
        alone = standalone(svg)
        root = parsed(alone)
        assert alone.startswith("<?xml")
        assert "T <&>" in texts(root)
        assert "prefers-color-scheme: dark" in alone
        assert "var(--ink)" not in alone
        assert f'fill="{LIGHT["paper"]}"' in alone


def test_what_is_no_figure_does_not_stand_alone() -> None:
    with pytest.raises(ValueError, match="takes the <svg> element"):
        standalone("<p>no figure</p>")


@pytest.mark.parametrize(
    ("wanted", "places"),
    [([], []), ([50], [50]), ([-9], [0]), ([50, 50], [45, 55]), ([52, 50], [56, 46]), ([20, 80, 81], [20, 75.5, 85.5]),
     ([99, 98, 97], [100, 90, 80])],
)  # fmt: skip
def test_labels_move_apart_and_stay_near(wanted: list[float], places: list[float]) -> None:
    assert apart(wanted, 10, 0, 100) == pytest.approx(places)


def test_labels_that_cannot_all_fit_share_the_room() -> None:
    assert apart([5] * 5, 50, 0, 100) == pytest.approx([0, 25, 50, 75, 100])


def test_a_text_is_shortened_to_its_room() -> None:
    assert shortened("short", 100) == "short"
    cut = shortened("a very long name indeed", 80)
    assert cut.endswith("…")
    assert width(cut) <= 80
