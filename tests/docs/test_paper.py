"""docs/paper.md: its lines of code compute the paper's equations, its claims and commands are those of the rows."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import seqloom
from docs.making import paper, replication
from seqloom.cli import command
from seqloom.ops.lag_sum import reference
from seqloom_studies.paper.claims import ANCHORS, CLAIMS
from seqloom_studies.paper.studies import STUDIES
from seqloom_studies.paper.verdicts import FORMS

TEXT = paper.PAGE.read_text(encoding="utf-8")
LINES = {equation.number: [line.text for line in equation.lines] for equation in paper.EQUATIONS}
WORDS = 20
"""the most words of a cell"""


def random_array(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def value_of(statement: str, **names: object) -> np.ndarray:
    """What the expression of a statement of the page gives, for these names."""
    expression = statement.removeprefix("return ").partition(" = ")
    return eval(expression[2] or expression[0], dict(names)).detach().numpy()


@pytest.mark.slow
def test_the_page_is_of_today() -> None:
    assert paper.page() == TEXT, "make pages"


def test_it_has_all_equations_of_the_extractors() -> None:
    assert list(LINES) == [23, 24, 25, 26, 27, 28, 29]
    for lines in LINES.values():
        for line in lines:
            assert f"`{line}`" in TEXT


@pytest.mark.parametrize(("number", "shape"), [(23, (3, 2, 2)), (26, (3, 2)), (28, (3, 2)), (29, (3,))])
def test_the_sums_are_equations_23_26_28_and_29(number: int, shape: tuple[int, ...]) -> None:
    x, w = random_array(4, 2, seed=1), random_array(*shape, seed=2)
    sums, (added, product) = np.zeros_like(x), LINES[number]
    for i in range(1, 5):  # the paper counts from 1
        for j in range(max(1, i - len(w) + 1), i + 1):
            weight = w[i - j + 1 - 1]
            term = x[j - 1] @ weight if weight.ndim == 2 else x[j - 1] * weight
            sums[i - 1] += term
            np.testing.assert_allclose(value_of(product, x=torch.tensor(x[j - 1]), tap=torch.tensor(weight)), term)
    y = reference.lags(torch.tensor(x)[None], torch.tensor(w))[0]
    np.testing.assert_allclose(y.numpy(), sums)
    names = {"x": torch.tensor(x)[None], "w": torch.tensor(w), "product": reference.product}
    assert value_of(added, y=y[None, 0], i=1, k=1, **names).shape == (1, 2)


@pytest.mark.parametrize(("number", "reads", "weight"), [(24, "x", "w_adj"), (25, "y", "w_out"), (27, "x", "w_in")])
def test_the_maps_are_equations_24_25_and_27(number: int, reads: str, weight: str) -> None:
    mixer = seqloom.mixer("he", dim=2, context=3).double()
    names = {name: random_array(4, 2, seed=seed) for seed, name in enumerate("xey")}
    matrix = getattr(mixer, weight).weight.detach().numpy().T
    expected = names[reads] @ matrix
    if number == 24:
        expected = expected * names["e"]
    (line,) = LINES[number]
    given = {name: torch.tensor(values) for name, values in names.items()}
    np.testing.assert_allclose(value_of(line, self=mixer, **given), expected)


def test_a_line_that_is_gone_or_is_there_twice_is_an_error() -> None:
    for beginning, count in (("w =", 0), ("y =", 2)):
        with pytest.raises(ValueError, match=f"{count} lines of lags begin with"):
            print(paper.Line(reference.lags, beginning).text)


def test_every_claim_has_two_verdicts_with_links_to_its_row() -> None:
    details = replication.PAGE.read_text(encoding="utf-8")
    for claim in CLAIMS:
        (line,) = [line for line in TEXT.splitlines() if line.startswith(f"| {claim.text} |")]
        found = re.findall(r"\[([^]]+)\]\(replication\.md#([\w-]+)\)", line)
        assert len(found) == 2
        for verdict, anchor in found:
            assert verdict in FORMS
            assert len(verdict.split()) <= 3
            assert anchor == ANCHORS[claim]
        (row,) = [line for line in details.splitlines() if f'<a id="{ANCHORS[claim]}"></a>' in line]
        assert row.startswith(f"| {claim.text} ")


def test_no_cell_has_more_than_twenty_words() -> None:
    cells = [cell for line in TEXT.splitlines() if line.startswith("|") for cell in line.strip("|").split(" | ")]
    assert len(cells) > 100
    for cell in cells:
        assert len(re.sub(r"`[^`]*`|\]\([^)]*\)", "", cell).split()) <= WORDS, cell


def test_every_misprint_is_an_entry_of_the_errata() -> None:
    errata = paper.ERRATA.read_text(encoding="utf-8")
    found = paper.misprints(errata)
    assert len(found) > 9
    assert "Eq. 26, the weights of WE (seed 000)" in [what for what, _ in found]
    headings = {heading.lower().replace(" ", "-") for heading in re.findall(r"^### (.+)$", errata, flags=re.M)}
    assert {link.partition("#")[2].rstrip(")") for _, link in found} <= headings


def test_minutes_are_of_studies_whose_models_were_all_run_on_one_machine() -> None:
    studies = replication.content().studies
    machine, rows = paper.laptop_studies(studies)
    assert machine in TEXT
    assert "H100" not in machine
    assert rows
    for heading, _, minutes, _ in rows:
        assert 1 <= minutes <= paper.LONGEST, heading
    assert paper.laptop_studies({}) == ("", [])


@pytest.mark.slow
def test_the_snippet_and_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (snippet,) = re.findall(r"```python\n(.*?)```", TEXT, flags=re.S)
    names: dict[str, object] = {}
    exec(compile(snippet, "paper.md", "exec"), names)
    assert isinstance(names["y"], torch.Tensor)
    assert names["y"].shape == (1, 32, 128)
    blocks = re.findall(r"```sh\n(.*?)```", TEXT, flags=re.S)
    lines = [line.split()[1:] for block in blocks for line in block.splitlines()]
    assert [words[0] for words in lines] == ["study", "cost", "study"]
    for words in lines:
        assert command(words if "--scale" not in words else [*words, "--plan"]) == 0
    named = re.findall(r"`seqloom study paper (\w\S+) --scale small --batches 1000[^`]* --data books/`", TEXT)
    assert len(named) == len(paper.laptop_studies(replication.content().studies)[1])
    assert set(named) <= set(STUDIES)
