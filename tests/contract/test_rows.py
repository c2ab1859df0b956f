"""Every kind that streams: rows of different lengths go on side by side as each does alone, rings that wrapped too."""

from typing import Any

import pytest
import torch
from torch import Tensor

import seqloom
from seqloom.core.model import Model
from seqloom.core.rows import put, stack, take
from seqloom.core.state import ModelState
from tests.kinds import CAUSAL

VOCAB, CONTEXT, LENGTHS, STEPS = 11, 8, (3, 19, 1, 9), 9
KINDS = [kind for kind in CAUSAL if seqloom.list_mixers()[kind].streams]


def build(kind: str) -> Model:
    """A decoder of the kind, which reads beyond its context where it can."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"vocab": VOCAB, "dim": 32, "depth": 2, "ffn": 16, "dropout": 0.0, "position": "none"}
    model = seqloom.decoder(kind, context=CONTEXT, **sizes)
    needed = max(LENGTHS) + STEPS
    if model.traits.longest is not None and model.traits.longest < needed:
        model = seqloom.decoder(kind, context=32, **sizes)
    return model.double().eval()


def alone(model: Model, prompt: Tensor, more: Tensor) -> tuple[ModelState, list[Tensor]]:
    """The state after a prompt (1, T), and the logits of each token that follows it."""
    _, first = model.extend(prompt, model.start(1))
    state, logits = first, []
    for id in more:
        z, state = model.step(id[None], state)
        logits.append(z)
    return first, logits


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_rows_of_different_lengths(kind: str) -> None:
    model, generator = build(kind), torch.Generator().manual_seed(1)
    prompts = [torch.randint(VOCAB, (1, length), generator=generator) for length in LENGTHS]
    more = torch.randint(VOCAB, (len(LENGTHS), STEPS), generator=generator)
    singles = [alone(model, prompt, ids) for prompt, ids in zip(prompts, more, strict=True)]

    def read(state: ModelState, rows: list[int], number: int) -> ModelState:
        logits, state = model.step(more[rows, number], state, reuse=True)
        expected = torch.cat([singles[row][1][number] for row in rows])
        torch.testing.assert_close(logits, expected, rtol=0, atol=1e-10)
        return state

    together = stack([state for state, _ in singles])
    for number in range(3):
        together = read(together, [0, 1, 2, 3], number)
    left = model.trim(take(together, torch.tensor([1])))
    rest = model.trim(take(together, torch.tensor([0, 2])))
    for number in range(3, 6):
        left, rest = read(left, [1], number), read(rest, [0, 2], number)
    slots = stack([model.start(1), rest, model.start(1, capacity=2)])  # rows 0 and 3 are free
    slots = put(slots, 3, left)
    slots = put(slots, 0, singles[3][0])
    logits, slots = model.step(torch.stack([more[3, 0], more[0, 6], more[2, 6], more[1, 6]]), slots, reuse=True)
    expected = torch.cat([singles[3][1][0], singles[0][1][6], singles[2][1][6], singles[1][1][6]])
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-10)


def test_states_of_different_models() -> None:
    state = build("gru").start(1)
    for other in (build("attention").start(1), seqloom.decoder("gru", vocab=5, dim=8, depth=2).start(1)):
        with pytest.raises(ValueError, match="the states are of different models"):
            stack([state, other])
        with pytest.raises(ValueError, match="the states are of different models"):
            put(state, 0, other)
    with pytest.raises(ValueError, match="no state to stack"):
        stack([])
