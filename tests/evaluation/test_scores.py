"""The held-out loss against a loop that predicts one token at a time, and against counts by hand."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

from seqloom.data.tokens import Tokens
from seqloom.evaluation.pseudo import score_pseudo
from seqloom.evaluation.reading import score_reading
from seqloom.evaluation.scores import Scores, score, unigram_entropy
from seqloom.models.decoder import Decoder, DecoderConfig
from seqloom.models.kinds import model_config

EOS = 0

VOCAB, CONTEXT = 11, 5
LENGTHS = (3, 1, 14, 5, 6, 0, 9)  # words of each document; an empty one, and ones that end with a window or just after


def text(lengths: tuple[int, ...] = LENGTHS) -> Tokens:
    """Documents of noise, each followed by `<eos>`."""
    draw = np.random.default_rng(3)
    parts = [np.append(draw.integers(1, VOCAB, length), EOS) for length in lengths]
    ends = np.cumsum([len(part) for part in parts])
    ids = np.concatenate(parts).astype("<u2")
    return Tokens(ids, np.append(0, ends[:-1]), np.array([4 * length for length in lengths]))


def decoder(kind: str = "attention", **settings: Any) -> Decoder:
    torch.manual_seed(5)
    sizes = {"vocab": VOCAB, "dim": 8, "depth": 2, "context": CONTEXT, "ffn": 16, "std": 0.5}
    return Decoder(DecoderConfig(**{**sizes, "mixer": {"kind": kind}, **settings}))


def one_by_one(model: Decoder, tokens: Tokens) -> list[tuple[int, float]]:
    """(position in its window, nats) of every token of every document, in order, each predicted in a separate call."""
    model = model.eval()
    result = []
    for first, end in zip(tokens.starts, tokens.ends, strict=True):
        document = [EOS, *map(int, tokens.ids[first:end])]  # read as <eos> t1 … tn, predicted as t1 … tn <eos>
        for position in range(1, len(document)):
            within = (position - 1) % CONTEXT
            read = torch.tensor([document[position - 1 - within : position]])
            with torch.no_grad():
                p = torch.softmax(model(read)[0, -1].double(), 0)[document[position]]
            result.append((within, -math.log(float(p))))
    return result


@pytest.mark.parametrize("way", [score, score_reading, score_pseudo])
def test_the_progress_counts_every_token_once(way: Callable[..., Scores]) -> None:
    totals, amounts = [], []

    @contextmanager
    def listening(label: str, total: float, unit: str) -> Iterator[Callable[[int], None]]:
        totals.append(total)
        yield amounts.append

    sizes = {"vocab": VOCAB + 1, "dim": 8, "depth": 1, "context": CONTEXT, "ffn": 16}
    encoder = model_config({"kind": "encoder", **sizes, "mixer": {"kind": "attention"}}).build()
    way(encoder if way is score_pseudo else decoder(position={"kind": "none"}), text(), batch=2, show=listening)
    assert totals == [sum(amounts)] == [len(text())]
    assert len(amounts) > 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["attention", "she", "he", "we", "me"])
@pytest.mark.parametrize("batch", [1, 3, 64])
def test_every_token_once(kind: str, batch: int) -> None:
    model, tokens = decoder(kind), text()
    expected = one_by_one(model, tokens)
    actual = score(model, tokens, batch=batch)
    assert actual.tokens == len(expected) == len(tokens) == sum(LENGTHS) + len(LENGTHS)
    total = sum(nats for _, nats in expected)
    assert actual.loss == pytest.approx(total / len(expected), rel=1e-5)
    assert actual.bits_per_byte == pytest.approx(total / math.log(2) / (4 * sum(LENGTHS)), rel=1e-5)
    assert len(actual.by_position) == CONTEXT
    for position, loss in enumerate(actual.by_position):
        here = [nats for within, nats in expected if within == position]
        assert loss == pytest.approx(sum(here) / len(here), rel=1e-5), f"place {position}"


def overlapping(model: Decoder, tokens: Tokens, stride: int) -> list[float]:
    """Nats of every token, each predicted in its own call: from the first window that holds it or all before it."""
    result = []
    for first, end in zip(tokens.starts, tokens.ends, strict=True):
        document = [EOS, *map(int, tokens.ids[first:end])]
        for position in range(1, len(document)):
            starts = range(0, len(document), stride)
            start = next(start for start in starts if position <= start + CONTEXT)
            with torch.no_grad():
                p = torch.softmax(model.eval()(torch.tensor([document[start:position]]))[0, -1].double(), 0)
            result.append(-math.log(float(p[document[position]])))
    return result


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["attention", "he", "gla"])
@pytest.mark.parametrize("stride", [1, 2, 3, 4])
def test_overlapping_windows(kind: str, stride: int) -> None:
    model, tokens = decoder(kind), text()
    expected = overlapping(model, tokens, stride)
    actual = score(model, tokens, batch=3, stride=stride)
    assert actual.tokens == len(expected) == len(tokens)
    assert actual.loss == pytest.approx(sum(expected) / len(expected), rel=1e-5)
    assert actual.loss != pytest.approx(score(model, tokens).loss, rel=1e-5)


def test_a_stride_of_the_context_is_whole_windows() -> None:
    model, tokens = decoder(), text()
    assert score(model, tokens, stride=CONTEXT) == score(model, tokens)


def test_a_text_shorter_than_the_context_is_one_window() -> None:
    model, tokens = decoder(), text((2, 3))
    assert score(model, tokens, stride=1) == score(model, tokens)


@pytest.mark.parametrize("stride", [0, -1, CONTEXT + 1])
def test_a_stride_that_leaves_out_tokens_or_none(stride: int) -> None:
    with pytest.raises(ValueError, match=f"a stride is from 1 to the 5 tokens of a window, not {stride}"):
        score(decoder(), text(), stride=stride)


def test_windows_of_another_length_than_the_models() -> None:
    model, tokens = decoder(position="none"), text()
    shorter = Decoder(model.config.model_copy(update={"context": 3}))
    shorter.load_state_dict(model.state_dict())
    actual, expected = score(model, tokens, context=3), score(shorter, tokens)
    assert actual.by_position == pytest.approx(expected.by_position, rel=1e-6)
    assert actual.tokens == expected.tokens
    with pytest.raises(ValueError, match="context"):
        score(model, tokens, context=0)


def test_positions_that_no_token_has() -> None:
    scored = score(decoder(), text((2, 1)))
    assert len(scored.by_position) == 3
    assert scored.tokens == 5


def test_the_loss_of_a_uniform_model_is_the_logarithm_of_its_vocabulary() -> None:
    model, tokens = decoder(), text()
    torch.nn.init.zeros_(model.head.weight)
    scored = score(model, tokens)
    assert scored.loss == pytest.approx(math.log(VOCAB), rel=1e-6)
    assert scored.by_position == pytest.approx([math.log(VOCAB)] * CONTEXT, rel=1e-6)
    assert scored.bits_per_byte == pytest.approx(math.log2(VOCAB) * len(tokens) / (4 * sum(LENGTHS)), rel=1e-6)


def test_a_document_does_not_see_the_one_before() -> None:
    model, tokens = decoder(), text((4, 4))
    both = score(model, tokens)
    apart = [
        score(model, Tokens(tokens.ids[first : first + 5], np.array([0]), np.array([16])), batch=1) for first in (0, 5)
    ]
    assert both.loss == pytest.approx((apart[0].loss + apart[1].loss) / 2, rel=1e-6)


@pytest.mark.parametrize("training", [True, False])
def test_dropout_is_off_and_the_mode_is_left_as_it_was(training: bool) -> None:
    model, tokens = decoder(dropout=0.5), text()
    model.train(training)
    first, second = score(model, tokens), score(model, tokens)
    assert first == second
    assert all(module.training is training for module in model.modules())
    assert first.loss == pytest.approx(score(decoder(dropout=0.0), tokens).loss, rel=1e-6)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_mode_is_left_as_it_was_by_an_error_too() -> None:
    model = decoder(vocab=3).train()
    with pytest.raises(ValueError, match="vocabulary"):
        score(model, text())
    assert model.training


def test_the_random_numbers_are_left_alone() -> None:
    model, tokens = decoder(dropout=0.5).train(), text()
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    score(model, tokens)
    assert torch.rand(3).equal(expected)


def test_its_row() -> None:
    scored = score(decoder(), text())
    assert scored.row() == {
        "held_out": scored.loss,
        "bits_per_byte": scored.bits_per_byte,
        "tokens": scored.tokens,
        "by_position": scored.by_position,
    }


@pytest.mark.parametrize(
    ("ids", "nats"),
    [
        ([1, 1, 2, 0], 0.5 * math.log(2) + 2 * 0.25 * math.log(4)),
        ([7, 7, 7, 7], 0.0),
        ([0, 1, 2, 3, 4, 5, 6, 7], math.log(8)),
        ([1, 1, 1, 0], -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))),
    ],
)
def test_unigram_entropy(ids: list[int], nats: float) -> None:
    tokens = Tokens(np.array(ids, "<u2"), np.array([0]), np.array([1]))
    assert unigram_entropy(tokens) == pytest.approx(nats, abs=1e-12)


def test_no_model_without_context_beats_the_unigram_entropy() -> None:
    tokens = text()
    p = np.bincount(tokens.ids, minlength=VOCAB) / len(tokens)
    loss: Callable[[Any], float] = lambda q: float(-np.log(q[tokens.ids]).mean())  # noqa: E731
    assert unigram_entropy(tokens) == pytest.approx(loss(p), rel=1e-12)
    assert loss((p + 0.01) / (p + 0.01).sum()) > unigram_entropy(tokens)
