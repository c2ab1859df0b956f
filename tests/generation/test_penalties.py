"""Penalties: the logits by hand, draws by counts, in a text with and without a draft, and where there are none."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

from seqloom.generation.decode import generate
from seqloom.generation.drafting import Draft
from seqloom.generation.penalties import Seen, penalize
from seqloom.generation.sample import Sampling, draw, probabilities
from tests.generation.markov import Markov, chance

LOGITS = torch.tensor([[2.0, -1.0, 0.5, 0.0, 1.0]], dtype=torch.float64)


def test_the_logits_by_hand() -> None:
    """Token 0 is of the prompt; 1 was written; 4 both."""
    seen = Seen.after(torch.tensor([[0, 4]]), 5).add(torch.tensor([1])).add(torch.tensor([4]))
    expected = torch.tensor([[2.0 / 1.5, -1.0 * 1.5 - 0.25, 0.5, 0.0, 1.0 / 1.5 - 0.25]], dtype=torch.float64)
    torch.testing.assert_close(penalize(LOGITS, seen, 1.5, 0.25), expected, rtol=0, atol=1e-15)
    assert torch.equal(penalize(LOGITS, seen, 1.0, 0.0), LOGITS)


@pytest.mark.parametrize(
    "settings",
    [
        {"repetition_penalty": 1.8},
        {"presence_penalty": 0.7},
        {"presence_penalty": -0.7, "temperature": 0.6},
        {"repetition_penalty": 0.5, "presence_penalty": 0.3, "min_p": 0.1, "top_k": 4},
        {"min_p": 0.3},
        {"min_p": 0.0},
    ],
    ids=str,
)
def test_draws_follow_the_exact_probabilities(settings: dict[str, float]) -> None:
    seen = Seen.after(torch.tensor([[0]]), 5).add(torch.tensor([4]))
    z = [number for (number,) in LOGITS.T.tolist()]
    r, a = settings.get("repetition_penalty", 1.0), settings.get("presence_penalty", 0.0)
    z = [(number / r if number > 0 else number * r) if id in (0, 4) else number for id, number in enumerate(z)]
    z[4] -= a
    weights = [math.exp(number / settings.get("temperature", 1.0)) for number in z]
    kept = sorted(range(5), key=lambda id: -weights[id])[: int(settings.get("top_k", 5))]
    kept = [id for id in kept if weights[id] >= settings.get("min_p", 0.0) * max(weights)]
    law = torch.tensor([weights[id] if id in kept else 0.0 for id in range(5)], dtype=torch.float64)
    law /= law.sum()
    sampling = Sampling(**settings)  # type: ignore[arg-type]
    torch.testing.assert_close(probabilities(LOGITS, sampling, seen)[0], law, rtol=1e-12, atol=0)
    rows = Seen(seen.read.expand(20_000, -1), seen.written.expand(20_000, -1))
    ids = draw(LOGITS.expand(20_000, -1), sampling, torch.Generator().manual_seed(2), rows)
    counts = torch.bincount(ids, minlength=5)
    assert int(counts[law == 0].sum()) == 0
    assert chance(counts[law > 0].numpy(), law[law > 0].numpy()) > 1e-3


def exact_second_tokens(model: Markov, first: int, sampling: Sampling) -> dict[tuple[int, int], float]:
    """p of each pair of tokens after the prompt [first]."""
    law = {}
    start = Seen.after(torch.tensor([[first]]), model.config.vocab)
    for one, p in enumerate(probabilities(model.table[[first]], sampling, start)[0].tolist()):
        after = start.add(torch.tensor([one]))
        for two, q in enumerate(probabilities(model.table[[one]], sampling, after)[0].tolist()):
            law[one, two] = p * q
    return law


@pytest.mark.parametrize("draft", [False, True])
def test_texts_follow_them_with_a_draft_too(draft: bool) -> None:
    """Pairs of tokens, of which the second depends on what the first was."""
    model, settings = Markov(0), {"repetition_penalty": 1.6, "presence_penalty": 0.8}
    ways: list[Any] = [Draft(model=Markov(1, scale=2.0), tokens=2)] if draft else []
    law = exact_second_tokens(model, 0, Sampling(**settings))
    pairs = Counter(
        tuple(generate(model, [0], *ways, max_tokens=2, mode="stream", seed=seed, **settings)) for seed in range(1500)
    )
    counts = np.array([pairs[key] for key in law])
    assert chance(counts, np.array(list(law.values()))) > 1e-3


def test_greedy_text_that_may_not_repeat() -> None:
    model = Markov(3)
    ids = list(generate(model, [0], max_tokens=4, mode="stream", temperature=0, presence_penalty=50.0))
    assert sorted(ids) == [0, 1, 2, 3]
