"""One color per mixer in all charts; variants differ in dash and mark; both color schemes are legible."""

import pytest

from seqloom.report.charts.style import COLORS, DARK, FAINT, INK, MUTED, PAPER, SERIES, css, kind_of, styles


def luminance(color: str) -> float:
    parts = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("paper", [{color: color for color in DARK}, DARK], ids=["light", "dark"])
def test_colors_stand_out_from_the_paper(paper: dict[str, str]) -> None:
    for color in SERIES:
        assert contrast(paper[color], paper[PAPER]) >= 3
    assert contrast(paper[INK], paper[PAPER]) >= 12
    assert contrast(paper[MUTED], paper[PAPER]) >= 4.5
    assert 1.1 < contrast(paper[FAINT], paper[PAPER]) < 2
    assert len(set(paper.values())) == len(paper)


def test_a_mixer_has_its_color_whatever_others_there_are() -> None:
    alone = {name: styles([name])[name].color for name in (*COLORS, "unknown_one", "another")}
    together = styles([*reversed(COLORS), "another", "unknown_one"])
    assert {name: together[name].color for name in alone} == alone
    papers = styles(["attention-heads=32", "she", "he", "we", "me", "mamba", "rwkv", "retention"])
    assert len({style.color for style in papers.values()}) == len(papers), "what is often compared is told apart"


def test_variants_share_the_color_and_differ_in_dash_and_mark() -> None:
    names = ["she", "she, no positions", "she-groups=4", "she:order=2", "attention as she"]
    result = styles(names)
    assert {result[name].color for name in names[:4]} == {styles(["she"])["she"].color}
    assert result["attention as she"].color == styles(["attention"])["attention"].color
    assert len({result[name].dash for name in names[:4]}) == len({result[name].shape for name in names[:4]}) == 4


def test_a_kind_may_be_given() -> None:
    assert kind_of("attention-heads=32") == "attention"
    assert kind_of("") == ""
    assert styles(["my model"], {"my model": "mamba"})["my model"].color == styles(["mamba"])["mamba"].color


def test_the_style_declares_every_color_of_both_papers() -> None:
    assert all(f":{color};" in css() for color in (*DARK, *DARK.values()))
