"""A threshold for each layer: the search against a plain loop, its combinations, and what is stored."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch

import seqloom
from seqloom.core.progress import show_nothing
from seqloom.depth.kinds import classifier_config
from seqloom.depth.store import THRESHOLDS, open_exits, save_exits, save_thresholds
from seqloom.evaluation.thresholds import MOST, combinations, search_thresholds, try_thresholds
from seqloom.generation.exits import Exiting, Exits
from tests.depth.test_learned import model, text


def geometric(depth: int = 3) -> Any:
    built = classifier_config({"kind": "geometric", "depth": depth, "dim": 8}).build()
    for parameter in built.parameters():
        torch.nn.init.normal_(parameter)
    return built


def test_layers_and_right_tokens_by_hand() -> None:
    """Three tokens, three layers; τ = (0.5, 0.5), (0.9, 0.5) and (1, 1)."""
    c = torch.tensor([[0.6, 0.1], [0.4, 0.8], [0.95, 0.2]], dtype=torch.float64)
    right = torch.tensor([[False, True, True], [False, True, True], [True, False, False]])
    layers, shares = try_thresholds(c, right, torch.tensor([[0.5, 0.5], [0.9, 0.5], [1.0, 1.0]], dtype=torch.float64))
    torch.testing.assert_close(layers, torch.tensor([4 / 3, 2.0, 3.0], dtype=torch.float64))
    torch.testing.assert_close(shares, torch.tensor([2 / 3, 1.0, 2 / 3], dtype=torch.float64))


def test_it_is_a_plain_loop() -> None:
    generator = torch.Generator().manual_seed(2)
    c, right = torch.rand(40, 3, generator=generator), torch.rand(40, 4, generator=generator) < 0.5
    grid = torch.tensor(list(itertools.product([0.2, 0.5, 0.9], repeat=3)))
    layers, shares = try_thresholds(c, right, grid)
    for row, thresholds in enumerate(grid.tolist()):
        ends = [
            next((n for n, needed in enumerate(thresholds) if c[t, n] >= torch.tensor(needed)), 3) for t in range(40)
        ]
        assert float(layers[row]) == pytest.approx(sum(end + 1 for end in ends) / 40)
        assert float(shares[row]) == pytest.approx(sum(bool(right[t, end]) for t, end in enumerate(ends)) / 40)


def test_combinations() -> None:
    assert combinations(2, 3, 0).tolist() == [list(row) for row in itertools.product(range(2), repeat=3)]
    many = combinations(5, 17, 0)
    assert many.shape == (MOST, 17)
    assert many[:5].tolist() == [[n] * 17 for n in range(5)]
    assert torch.equal(many, combinations(5, 17, 0))
    assert not torch.equal(many, combinations(5, 17, 1))
    assert (int(many.min()), int(many.max())) == (0, 4)


@pytest.mark.slow
def test_the_best_reads_fewest_layers_and_is_right_enough() -> None:
    deep, classifier = model(std=0.7), geometric()
    asked: dict[str, Any] = {"grid": [0.2, 0.5, 0.8, 1.0], "show": show_nothing}
    result = search_thresholds(deep, classifier, text(3000), delta=0.02, **asked)
    assert result.combinations == 16
    assert len(result.alike) == 4
    assert result.best is not None
    assert result.best.right >= result.right - 0.02
    able = [row.layers for row in result.alike if row.right >= result.right - 0.02]
    assert able
    assert result.best.layers <= min(able)
    loose = search_thresholds(deep, classifier, text(3000), delta=0.9, **asked)
    assert loose.best is not None
    assert loose.best.thresholds[0] == 0.2, "the lowest, where anything is right enough"
    classifier.bias.data[:] = 100.0  # every token ends after the first layer, which is not as right
    torch.nn.init.zeros_(classifier.weight)
    bad = search_thresholds(deep, classifier, text(3000), delta=1e-9, **asked)
    assert {row.layers for row in bad.alike} == {1.0}
    assert (bad.best is None) == (bad.alike[0].right < bad.right - 1e-9)


@pytest.mark.slow
def test_they_are_stored_and_used(tmp_path: Path) -> None:
    deep, classifier = model(position="none"), geometric()
    torch.nn.init.zeros_(classifier.weight)
    classifier.bias.data[:] = torch.tensor([0.0, 1.0])  # χ = 0.5, 0.73
    save_exits(classifier, deep, "text", tmp_path / "exits")
    for thresholds, layers in (((0.4, 0.9), 1.0), ((0.6, 0.7), 2.0), ((0.6, 0.8), 3.0)):
        save_thresholds(thresholds, tmp_path / "exits")
        opened: Any = open_exits(tmp_path / "exits", deep)
        assert opened.thresholds == thresholds
        text = seqloom.generate(deep, [1, 2], Exits(by=opened), max_tokens=5)
        list(text)
        assert isinstance(text.counts, Exiting)
        assert text.counts.depth == layers
        streams, _ = deep.exits(torch.tensor([[1, 2]]))
        assert opened.depths(streams).unique().tolist() == [layers]
    given = seqloom.generate(deep, [1, 2], Exits(threshold=0.5, by=opened, decay=50.0), max_tokens=5)
    list(given)
    assert isinstance(given.counts, Exiting)
    assert given.counts.depth < 3, "a threshold that is given is taken instead"


@pytest.mark.slow
def test_thresholds_of_another_classifier(tmp_path: Path) -> None:
    deep = model()
    for name in ("one", "two"):
        save_exits(geometric(), deep, "text", tmp_path / name)
        save_thresholds((0.5, 0.5), tmp_path / name)
    (tmp_path / "one" / THRESHOLDS).write_bytes((tmp_path / "two" / THRESHOLDS).read_bytes())
    with pytest.raises(ValueError, match="is of another classifier"):
        open_exits(tmp_path / "one", deep)
    values = json.loads((tmp_path / "two" / THRESHOLDS).read_text())
    (tmp_path / "two" / THRESHOLDS).write_text(json.dumps({**values, "thresholds": [0.1, 0.1]}))
    with pytest.raises(ValueError, match="is altered"):
        open_exits(tmp_path / "two", deep)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"delta": 0.0}, "delta lies between 0 and 1, and is 0.0"),
        ({"delta": 1.0}, "delta lies between 0 and 1"),
        ({"grid": []}, "the grid has thresholds from 0 to 1"),
        ({"grid": [0.5, 1.5]}, "the grid has thresholds from 0 to 1"),
        ({"grid": [0.5, float("nan")]}, "the grid has thresholds from 0 to 1"),
        ({"grid": [0.5, 0.5]}, "each once"),
        ({"seed": -1}, "a seed must be a whole number"),
    ],
)
def test_impossible_settings_of_thresholds(changes: dict[str, Any], words: str) -> None:
    asked: dict[str, Any] = {"grid": [0.5], "delta": 0.1, "show": show_nothing, **changes}
    with pytest.raises(ValueError, match=words):
        search_thresholds(model(), geometric(), text(), **asked)
