"""Beam search over states: every mixer against its own logits without a state, and small searches against all texts."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.core.config import read
from seqloom.generation.beams import Beams, Hypothesis, beam_search, penalty
from seqloom.generation.decode import generate_ids
from seqloom.generation.sample import Sampling
from seqloom.mixers import kinds
from seqloom.models.decoder import Decoder
from tests.kinds import CAUSAL

Build = Callable[..., Decoder]
KINDS = [
    pytest.param({"kind": kind, **example}, marks=[pytest.mark.slow] if n else [])
    for kind in CAUSAL
    for n, example in enumerate(kinds()[kind].examples)
]
EOS = 0


def prompts(length: int, rows: int = 2) -> Tensor:
    return torch.randint(1, 11, (rows, length), generator=torch.Generator().manual_seed(length))


def next_log_p(model: Decoder, texts: list[list[int]]) -> Tensor:
    """(texts, vocabulary), from texts of one length."""
    with torch.no_grad():
        return model(torch.tensor(texts))[:, -1].log_softmax(1)


def plain(model: Decoder, prompt: list[int], tokens: int, beams: Beams, eos: int | None) -> list[Hypothesis]:
    """The search in lists, which reads every text again from its first token and never stops early."""
    open_texts: list[tuple[float, list[int]]] = [(0.0, [])]
    results: list[Hypothesis] = []
    for length in range(1, tokens + 1):
        scale = penalty(length, beams.length_penalty)
        longer: list[tuple[float, list[int]]] = []
        gains = next_log_p(model, [prompt + ids for _, ids in open_texts]).tolist() if open_texts else []
        for (log_p, ids), row in zip(open_texts, gains, strict=True):
            for id, gained in enumerate(row):
                if id == eos:
                    results.append(Hypothesis(ids, log_p + gained, (log_p + gained) / scale, True))
                else:
                    longer.append((log_p + gained, [*ids, id]))
        open_texts = sorted(longer, key=lambda each: -each[0])[: beams.beams]
    results += [Hypothesis(ids, log_p, log_p / scale, False) for log_p, ids in open_texts]
    return sorted(results, key=lambda each: -each.score)[: beams.best]


def same(results: list[Hypothesis], expected: list[Hypothesis]) -> None:
    """In the order of their scores; equal ones, as where each token follows from the last alone, in any order."""
    assert [result.score for result in results] == pytest.approx([each.score for each in expected], abs=1e-9)
    results, expected = (sorted(each, key=lambda one: (one.ids, one.ended)) for each in (results, expected))
    assert [(result.ids, result.ended) for result in results] == [(each.ids, each.ended) for each in expected]
    for one, other in zip(results, expected, strict=True):
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-9)
        assert one.score == pytest.approx(other.score, abs=1e-9)


@pytest.mark.parametrize(
    ("length", "alpha", "expected"),
    [(1, 0.6, 1.0), (7, 1.0, 2.0), (7, 0.6, 1.515716566510398), (13, 2.0, 9.0), (9, 0, 1)],
)
def test_the_penalty_of_a_length(length: int, alpha: float, expected: float) -> None:
    """Wu et al., Eq. 14: ((5 + |y|) / (5 + 1))^α, so that a single token has none."""
    assert penalty(length, alpha) == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("mixer", KINDS, ids=str)
def test_the_state_is_reordered(decoder: Build, mixer: dict[str, Any]) -> None:
    """Two texts with three beams; a wrong order of any entry of the state changes the log-probabilities."""
    model = decoder(mixer, context=8).eval()
    texts, beams = prompts(3), Beams(beams=3, best=3)
    expected = [plain(model, text, 4, beams, EOS) for text in texts.tolist()]
    for mode in ("slide", "stream") if model.traits.streams else ("slide",):
        result = beam_search(model, texts, max_tokens=4, beams=beams, mode=mode, eos=EOS)
        for results, wanted in zip(result, expected, strict=True):
            same(results, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("eos", [None, 2])
def test_as_wide_as_the_vocabulary_it_finds_the_best_of_all_texts(
    decoder: Build, alpha: float, eos: int | None
) -> None:
    """Two tokens of a vocabulary of four: no prefix is pruned, so brute force finds the same."""
    model, prompt = decoder("attention", vocab=4).eval(), [1, 3, 0]
    every: list[Hypothesis] = []
    for ids in [*product(range(4), repeat=2), *([] if eos is None else [(eos,)])]:
        if eos is not None and eos in ids[:-1]:
            continue
        log_p = sum(float(next_log_p(model, [[*prompt, *ids[:n]]])[0, id]) for n, id in enumerate(ids))
        ended = ids[-1] == eos
        every.append(Hypothesis(list(ids[:-1] if ended else ids), log_p, log_p / penalty(len(ids), alpha), ended))
    beams = Beams(beams=4, best=4, length_penalty=alpha)
    (result,) = beam_search(model, torch.tensor([prompt]), max_tokens=2, beams=beams, eos=eos)
    same(result, sorted(every, key=lambda each: -each.score)[:4])


@pytest.mark.slow
def test_past_the_window_and_over_the_end_of_the_text(decoder: Build) -> None:
    """Texts longer than the context of 6 are read as windows; a hop makes the state of a full window."""
    model = decoder("she").eval()
    beams = Beams(beams=3, best=2, length_penalty=1.0)
    for hop in (1, 3):
        (result,) = beam_search(model, prompts(4, 1), max_tokens=9, beams=beams, hop=hop)
        assert [len(each.ids) for each in result] == [9, 9]
        assert result[0].score > result[1].score


@pytest.mark.slow
def test_one_beam_is_greedy(decoder: Build) -> None:
    model, texts = decoder("mamba").eval(), prompts(4, 3)
    greedy = generate_ids(model, texts, max_tokens=7, sampling=Sampling(temperature=0))
    result = beam_search(model, texts, max_tokens=7, beams=Beams(beams=1))
    assert [results[0].ids for results in result] == greedy


def test_it_stops_once_nothing_can_come_among_the_results(decoder: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    model = decoder("attention").eval()
    with torch.no_grad():
        model.head.bias[EOS] = 60.0  # type: ignore[index]
    steps, step = [], model.step
    monkeypatch.setattr(model, "step", lambda *args, **kwargs: steps.append(0) or step(*args, **kwargs))
    (result,) = beam_search(model, prompts(2, 1), max_tokens=50, beams=Beams(beams=2), mode="stream", eos=EOS)
    assert result[0].ids == []
    assert len(steps) <= 1


@pytest.mark.parametrize(
    ("values", "words"),
    [({"beams": 0}, "beams"), ({"beams": 2, "best": 3}, "raise beams"), ({"length_penalty": -1.0}, "length_penalty")],
)
def test_settings_of_beams_that_do_not_fit(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read(Beams, values)


def test_more_beams_than_the_vocabulary(decoder: Build) -> None:
    with pytest.raises(ValueError, match="12 beams are more than the vocabulary has entries: at most 11"):
        beam_search(decoder(), prompts(2), max_tokens=2, beams=Beams(beams=12))


def test_logits_that_are_not_finite(decoder: Build) -> None:
    model = decoder()
    with torch.no_grad():
        model.head.bias[3] = torch.nan  # type: ignore[index]
    with pytest.raises(ValueError, match="no token can be ranked"):
        beam_search(model, prompts(2), max_tokens=2)
