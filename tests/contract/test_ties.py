"""Tokens that repeat have equal scores: which of them are chosen depends on their places alone."""

from typing import Any

import pytest
import torch

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from seqloom.ops.bucketing.orders import balance_clusters
from tests.contract.cases import DIM, close, draw, drawn

T = 40
CHOOSING: list[dict[str, Any]] = [
    {"kind": "routing", "heads": 2, "clusters": 3, "window": 4, "choice": "text"},
    {"kind": "routing", "heads": 2, "clusters": 3, "window": 4},
    {"kind": "reformer", "heads": 2, "bucket": 4, "buckets": 4, "rounds": 2, "choice": "text"},
    {"kind": "reformer", "heads": 2, "bucket": 4, "buckets": 4, "rounds": 2},
    {"kind": "sinkhorn", "heads": 2, "block": 4},
    {"kind": "memorizing", "heads": 2, "window": 3, "memory": 20, "neighbors": 3},
]


def built(settings: dict[str, Any]) -> Mixer:
    torch.manual_seed(7)
    return drawn(mixer_config(settings).build(DIM, 2 * T + 40, True))


@torch.no_grad()
@pytest.mark.parametrize("settings", CHOOSING, ids=lambda each: f"{each['kind']}-{each.get('choice', '')}")
def test_padding_changes_nothing_where_tokens_repeat(settings: dict[str, Any]) -> None:
    mixer = built(settings)
    words = draw(3, DIM)
    x = words[torch.randint(3, (1, T), generator=torch.Generator().manual_seed(3))]
    expected = mixer(x)
    for before, after in ((0, 23), (5, 0), (9, 64)):
        padded = torch.cat([draw(1, before, DIM), x, draw(1, after, DIM)], 1)
        keep = torch.zeros(padded.shape[:2], dtype=torch.bool)
        keep[:, before : before + T] = True
        close(mixer(padded, keep)[keep], expected[0])
    close(mixer(torch.cat([draw(1, T, DIM), x]))[1], expected[0])


def test_of_equal_scores_the_first_are_taken() -> None:
    for padding in (0, 30):
        time = torch.cat([torch.arange(50), torch.full((padding,), -1)])[None]
        order = balance_clusters(torch.ones(1, 1, 50 + padding, 5), time)
        assert order.tokens[0, 0, :, :10].tolist() == [list(range(10))] * 5
