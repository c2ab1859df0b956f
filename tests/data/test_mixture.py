"""Several sources with weights: shares, each source without replacement, and what is refused."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from seqloom.core.config import read as read_config
from seqloom.data.config import DataConfig, WeightedSource
from seqloom.data.mixture import DECK, Mixture, deal_cards, windows_of
from seqloom.data.prepare import prepare
from seqloom.data.tokenizer import Tokenizer
from seqloom.data.tokens import Tokens
from seqloom.data.windows import Windows
from seqloom.training.settings import resolve


def tokens(first: int, count: int) -> Tokens:
    return Tokens(np.arange(first, first + count, dtype="<u4"), np.array([0]), np.array([count]))


def mixture(weights: tuple[float, ...] = (7, 3), seed: int = 0) -> Mixture:
    windows = [Windows(tokens(1000 * number, 50 + number), 4, seed) for number in range(len(weights))]
    return Mixture(windows, weights, seed)


def test_shares_are_exact_in_each_deck() -> None:
    source, number = mixture().samples(0, 3 * DECK)
    for deck in range(3):
        part = source[deck * DECK : (deck + 1) * DECK]
        assert np.bincount(part).tolist() == [7000, 3000]
        assert 10 < np.abs(np.cumsum(part - 0.3)).max() < 200  # drawn, and not in turns
    for index, share in ((0, 0.7), (1, 0.3)):
        assert sorted(number[source == index]) == list(range(round(3 * DECK * share)))


def test_a_batch_is_a_function_of_seed_and_step() -> None:
    one, other = mixture(), mixture()
    for step in (5, 0, 2):
        torch.testing.assert_close(one.batch(step, 8), other.batch(step, 8), rtol=0, atol=0)
    rows = torch.cat([one.batch(step, 4) for step in range(6)])
    assert torch.equal(rows, torch.cat([other.batch(step, 8) for step in range(3)]))
    assert not torch.equal(rows, torch.cat([mixture(seed=1).batch(step, 8) for step in range(3)]))
    assert torch.equal(rows[:, 1:], rows[:, :-1] + 1)  # each row is a window of one source
    assert set((rows // 1000).flatten().tolist()) == {0, 1}


def test_each_source_is_read_once_an_epoch() -> None:
    rows = torch.cat([mixture().batch(step, 10) for step in range(10)])
    first = rows[rows[:, 0] < 1000][:46]  # the windows of the first source, at stride 1
    assert sorted(first[:, 0].tolist()) == list(range(46))


@pytest.mark.parametrize(
    ("weights", "counts"), [((1, 1, 1), [3334, 3333, 3333]), ((0.7, 0.3), [7000, 3000]), ((1e-4, 1), [1, 9999])]
)
def test_cards_of_a_deck(weights: tuple[float, ...], counts: list[int]) -> None:
    assert deal_cards(weights).tolist() == counts


def test_a_weight_without_a_card_is_an_error() -> None:
    with pytest.raises(ValueError, match="a weight of 1e-05 is less than a sample in 10,000: leave the source out"):
        deal_cards((1, 1e-5))


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    (tmp_path / "a").mkdir()
    for number in range(12):
        (tmp_path / f"a/{number}.txt").write_text(f"{number} once upon a time " * 9)
    (tmp_path / "b.jsonl").write_text("".join(f'{{"text": "{"XYZ" * number}"}}\n' for number in range(1, 30)))
    return tmp_path


def sources(folder: Path, *weights: float) -> list[WeightedSource]:
    names = ("a", "b.jsonl")
    return [WeightedSource(source=str(folder / name), weight=w) for name, w in zip(names, weights, strict=True)]


def test_a_corpus_of_two_sources(texts: Path) -> None:
    make = partial(prepare, context=4, tokenizer=Tokenizer.of_bytes(), cache=texts / "cache", held_out=0.2)
    corpus = make(sources(texts, 3.0, 1.0))
    alone = [make(each.source) for each in sources(texts, 1, 1)]
    for part, whole in zip(corpus.train.by_source(), alone, strict=True):
        for name in ("ids", "starts", "sizes"):
            np.testing.assert_array_equal(getattr(part, name), getattr(whole.train, name))
    np.testing.assert_array_equal(corpus.held_out.ids, np.concatenate([part.held_out.ids for part in alone]))
    assert [weight for _, weight in corpus.train.sources] == [3.0, 1.0]
    assert make(sources(texts, 1.0, 9.0)).identity == corpus.identity
    assert make(sources(texts, 1.0, 9.0)[::-1]).identity != corpus.identity
    rows = windows_of(corpus.train, 4, 0).batch(0, 1000)
    letters = (rows > ord("W")) & (rows <= ord("Z") + 1)
    assert letters.any(1).float().mean() == pytest.approx(0.25, abs=0.04)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("[{source: a, weight: 0}, {source: b, weight: 0}]", "data.sources.0.weight.*greater than 0"),
        ("[{source: a, weight: -1}]", "data.sources.0.weight.*greater than 0"),
        ("[{source: a, weight: .nan}]", "data.sources.0.weight.*finite"),
        ("[{source: a, weight: .inf}]", "data.sources.0.weight.*finite"),
        ("[{source: a}]", "data.sources.0.weight"),
        ("[{weight: 1}]", "data.sources.0.source"),
        ("[{source: a, weigth: 1}]", "weigth.*did you mean 'weight'"),
        ("[3]", "data.sources.0"),
        ("3", "data.sources"),
    ],
)
def test_wrong_weights_are_one_line(change: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        resolve("tiny", [f"data.sources={change}"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["data.packed=true"], "data.sources mixes windows of several texts, without data.packed: choose one"),
        (["training.memory=carry", "model.position=none"], "without training.memory=carry: choose one"),
        (["data.division=authors"], "division=authors divides one source"),
    ],
)
def test_what_mixes_no_sources_is_refused(changes: list[str], message: str) -> None:
    two = "data.sources=[{source: a, weight: 1}, {source: b, weight: 1}]"
    with pytest.raises(ValueError, match=message):
        resolve("tiny", [two, *changes])
    with pytest.raises(ValueError, match=r"--data and data\.sources both name the text: choose one"):
        resolve("tiny", [two], "stories")


@pytest.mark.parametrize(
    ("content", "message"),
    [('{"text": ""}\n', r"c\.jsonl: empty: no line has any text"), (None, r"c\.jsonl: there is no such file")],
)
def test_a_source_without_documents_is_named(texts: Path, content: str | None, message: str) -> None:
    if content is not None:
        (texts / "c.jsonl").write_text(content)
    two = [WeightedSource(source=str(texts / name), weight=1.0) for name in ("a", "c.jsonl")]
    with pytest.raises((OSError, ValueError), match=message):
        prepare(two, context=4, tokenizer=Tokenizer.of_bytes(), cache=texts / "cache")


def test_the_identity_of_a_run_has_weights_and_no_paths(texts: Path) -> None:
    def identity(*weights: float) -> dict[str, object]:
        data = {"sources": [each.model_dump() for each in sources(texts, *weights)], "workers": 2}
        assert read_config(DataConfig, data).source == f"{texts / 'a'} + {texts / 'b.jsonl'}"
        text = f"[{{source: {texts}/a, weight: {weights[0]}}}, {{source: {texts}/b.jsonl, weight: {weights[1]}}}]"
        return resolve("tiny", [f"data.sources={text}"]).identity("text")

    assert str(texts) not in str(identity(1.0, 2.0))
    assert identity(1.0, 2.0) != identity(1.0, 3.0)
