"""The page of a study shows what its rows show of the paper's claims, the conclusion first."""

from pathlib import Path

import pytest

from seqloom_studies.paper.claims import HEADLINE, OPEN, conclusions, decide_claims
from seqloom_studies.paper.compared import PEER, Compared
from seqloom_studies.paper.page import write as write_page
from seqloom_studies.paper.page_rows import read
from seqloom_studies.paper.rules import ONE
from seqloom_studies.paper.verdicts import Verdict, count_verdicts
from tests.report.reading import read as html_of
from tests.studies.paper.made_up import Losses, plate, rows, write

SIX: Losses = {ONE: [4.30, 4.31, 4.29], PEER: [4.20, 4.21, 4.20], "she": [4.10, 4.11, 4.09],
               "he": [4.15, 4.16, 4.16], "we": [4.25, 4.24, 4.25], "me": [4.32, 4.31, 4.31]}  # fmt: skip
HELD = {**SIX, "she": [4.4, 4.4, 4.4]}


@pytest.mark.slow
def test_the_conclusion_comes_first(tmp_path: Path) -> None:
    html = html_of(write_page(write(tmp_path, rows(SIX, HELD))).read_text(encoding="utf-8"))
    answer = html.one("header").one("div", **{"class": "answer"})
    assert [part.text for part in answer.all("p")] == [
        "A significantly lower held-out loss than 32 heads: HE. Significantly higher: 1 head, SHE, WE, ME.",
        "The paper makes 8 claims about these models: on the training loss 8 hold; on held-out text 6 hold and 2 do "
        "not.",
    ]
    assert html.one("main").all("section")[0].attributes["id"] == "claims"


@pytest.mark.slow
def test_every_claim_about_the_figure_has_its_verdicts_on_the_page(tmp_path: Path) -> None:
    path = write(tmp_path, rows(SIX, HELD))
    html = html_of(write_page(path).read_text(encoding="utf-8"))
    lines = [[cell.text for cell in line.elements] for line in html.one("section", id="claims").all("tr")[1:]]
    known = decide_claims(read(path))
    assert next(iter(known)) == HEADLINE
    assert [line[1:] for line in lines] == [[str(v) for v in by_loss.values()] for by_loss in known.values()]
    assert lines[0][0].startswith(HEADLINE.text)
    assert lines[0][1].startswith("holds (adjusted p 0.003): SHE - 32 heads: -0.103 ± 0.0")
    assert lines[0][2].startswith("does not hold (adjusted p 0.002): SHE - 32 heads: +0.197 ± 0.0")


def test_the_open_claims_of_a_figure_are_one_family_with_its_own(tmp_path: Path) -> None:
    losses = {("she", x): [4.1 - x / 100, 4.11 - x / 100, 4.09 - x / 100] for x in (8, 16)}
    losses |= {(PEER, x): [4.2, 4.21, 4.2] for x in (8, 16)}
    made = plate(tmp_path, losses, name="fig10", over="context")
    claims = decide_claims(made)
    assert [claim for claim in claims if claim in OPEN] == [claim for claim in OPEN if claim.study == "fig10"]
    first, second = conclusions(made)
    assert first.startswith("The paper makes 2 claims about these models: on the training loss ")
    assert second.startswith("The paper leaves 3 claims open: on the training loss 3 are undecided")


def test_a_figure_that_no_claim_is_about_has_none(tmp_path: Path) -> None:
    path = write(tmp_path, rows({PEER: [4.2]}, name="other"))
    html = write_page(path).read_text(encoding="utf-8")
    assert decide_claims(read(path)) == {}
    assert conclusions(read(path)) == []
    assert 'class="answer"' not in html
    assert 'id="claims"' not in html


def test_one_seed_decides_nothing(tmp_path: Path) -> None:
    made = plate(tmp_path, {PEER: [4.2], "she": [4.1]})
    assert Compared(made, "held_out").conclusion == (
        "One run of each model: no lower held-out loss than 32 heads can be called significant."
    )
    assert decide_claims(made)[HEADLINE]["training"] == Verdict("one run", "", "SHE - 32 heads: -0.100", 1)


def test_a_conclusion_names_the_lines_of_a_sweep(tmp_path: Path) -> None:
    made = plate(tmp_path, {(PEER, 8): [4.2, 4.21, 4.2], ("she", 8): [4.1, 4.11, 4.09]}, over="context")
    assert (
        Compared(made, "training").conclusion == "A significantly lower training loss than 32 heads: SHE at context 8."
    )


def test_a_conclusion_without_a_lower_loss(tmp_path: Path) -> None:
    made = plate(tmp_path, {PEER: [4.2, 4.21, 4.2], "she": [4.2, 4.3, 4.1], "me": [4.4, 4.41, 4.4]})
    assert Compared(made, "held_out").conclusion == (
        "No significantly lower held-out loss than 32 heads. Significantly higher: ME. No clear difference: SHE."
    )


def test_counted_words() -> None:
    holds, fails = Verdict("holds"), Verdict("does not hold")
    assert count_verdicts([holds]) == "1 holds"
    assert count_verdicts([holds, fails, holds, Verdict("undecided")]) == "2 hold, 1 does not and 1 is undecided"
    assert count_verdicts([fails, fails, Verdict("one run")]) == "2 do not and 1 rests on one run"
