"""A model built for a length runs at 16 times that length, or raises an error with the reason."""

from typing import Any

import pytest
import torch

from seqloom.mixers import kinds
from tests.kinds import CAUSAL
from tests.models.drawing import VOCAB, ids
from tests.models.test_reading import near

CONTEXT, FAR = 8, 128
KINDS = CAUSAL


def built(kind: str, **settings: Any) -> Any:
    import seqloom

    torch.manual_seed(0)
    example = kinds()[kind].examples[0]
    model = seqloom.decoder(kind, vocab=VOCAB, dim=8, depth=1, context=CONTEXT, dropout=0.0, **settings, **example)
    return model.double().requires_grad_(False)


@pytest.mark.sample(4)
@pytest.mark.parametrize("kind", KINDS)
def test_models_over_sixteen_times_the_length(kind: str) -> None:
    model, text = built(kind, position="none"), ids(1, FAR)
    longest = model.longest
    if longest is not None:
        assert longest == CONTEXT
        with pytest.raises(ValueError, match=str(CONTEXT)):
            model(text)
        return
    whole = model(text)
    assert bool(whole.isfinite().all())
    head, state = model.extend(text[:, : FAR - 3], model.start(1))
    near(head, whole[:, : FAR - 3])
    for position in range(FAR - 3, FAR):
        logits, state = model.step(text[:, position], state, reuse=True)
        near(logits, whole[:, position])


def test_learned_positions_end_at_the_context() -> None:
    with pytest.raises(ValueError, match=str(CONTEXT)):
        built("retention")(ids(1, CONTEXT + 1))
