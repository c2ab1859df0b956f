"""A seed is a whole number below 2^32 wherever one is given: 0 and 2^32 would be the same to torch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import seqloom
from seqloom.analysis.reach import reach
from seqloom.core.seeds import LIMIT, require_count
from seqloom.data.documents import Document
from seqloom.data.probes import probe
from seqloom.data.split import hold_out
from seqloom.data.stories import corpus, story
from seqloom.data.tokens import Tokens
from seqloom.data.windows import Windows
from seqloom.training.settings import resolve

IDS = Tokens(np.zeros(9, np.uint16), np.zeros(1, np.int64), np.ones(1, np.int64))


def _generate(seed: Any) -> object:
    model = seqloom.decoder("she", vocab=9, dim=4, depth=1, context=4)
    return list(seqloom.generate(model, [1], max_tokens=1, seed=seed))


CALLERS: dict[str, Callable[[Any], object]] = {
    "training": lambda seed: resolve("tiny", [f"training.seed={seed}"]),
    "data": lambda seed: resolve("tiny", [f"data.seed={seed}"]),
    "generate": _generate,
    "stories": lambda seed: list(corpus(1, seed)),
    "story": lambda seed: story(seed, 0),
    "windows": lambda seed: Windows(IDS, 4, seed).batch(0, 2),
    "split": lambda seed: hold_out([Document("a", "one two three four")], 0.5, seed),
    "probe": lambda seed: probe("mqar").questions(seed, 0, 1),
    "reach": lambda seed: reach(seqloom.mixer("she", dim=4, context=4), 3, seed=seed),
}


@pytest.mark.parametrize("caller", CALLERS)
def test_a_seed_is_below_2_to_the_32(caller: str) -> None:
    CALLERS[caller](0)
    CALLERS[caller](LIMIT - 1)
    for wrong in (-1, LIMIT, 10**30, True):
        with pytest.raises((TypeError, ValueError), match="seed"):
            CALLERS[caller](wrong)


def test_why() -> None:
    first = torch.rand(3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(first, torch.rand(3, generator=torch.Generator().manual_seed(LIMIT)))


@pytest.mark.parametrize("wrong", [0, -1, 10**9, 1.5, True])
def test_how_many_seeds(wrong: Any) -> None:
    require_count(1)
    with pytest.raises(ValueError, match="--seeds must be at least 1 and at most 10,000, not "):
        require_count(wrong, "--seeds")
