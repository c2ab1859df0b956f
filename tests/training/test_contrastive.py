"""Hidden segments that are recognized: the loss by hand, what is hidden, the score, resumed, refused."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from seqloom.data.config import DataConfig
from seqloom.training.objectives.contrastive import Contrastive, ContrastiveConfig
from seqloom.training.objectives.masked_token import MaskedTokenConfig
from seqloom.training.settings import resolve
from tests.models.test_encoder import built
from tests.training.running import same, tiny
from tests.training.stepping import noise

ENCODER = (
    *("model.kind=encoder", "model.mixer={kind: attention, heads: 4}", "model.context=16"),
    "training.objective={kind: contrastive, segment: 4}",
)


def objective(rows: int = 4, **settings: Any) -> Contrastive:
    config = built(vocab=31, context=12).config
    return ContrastiveConfig(segment=3, **settings).build(config, DataConfig(source="noise"), rows, noise())


def test_segments_are_hidden_and_read_alone() -> None:
    model, task = built(vocab=31, context=12), objective(hidden=0.5)
    batch = task.batch(5, 2, model)
    plain = MaskedTokenConfig().build(model.config, DataConfig(source="noise"), 4, noise()).batch(5, 2, model)
    assert batch["chosen"].equal(plain["chosen"])
    assert batch["targets"].equal(plain["targets"])
    ids = task.words.windows(5).batch(2, 4)
    assert batch["segments"].shape == (4, 2)
    assert batch["alone"].shape == (4, 2, 3)
    for row in range(4):
        for number, segment in enumerate(batch["segments"][row].tolist()):
            place = slice(3 * segment, 3 * segment + 3)
            assert (batch["ids"][row, place] == 30).all()
            assert batch["alone"][row, number].equal(ids[row, place])
        shown = [3 * s + i for s in range(4) if s not in batch["segments"][row] for i in range(3)]
        assert batch["ids"][row, shown].equal(plain["ids"][row, shown])
    assert task.batch(5, 3, model)["segments"].ne(batch["segments"]).any()


def test_the_loss_by_hand() -> None:
    model, task = built(vocab=31, context=12), objective(weight=0.7)
    batch = task.batch(5, 2, model)
    losses = task.losses(model, batch, {}).losses
    x = model.features(batch["ids"])
    logits = model.logits(x).gather(1, batch["chosen"][:, :, None].expand(-1, -1, 31))
    torch.testing.assert_close(losses["loss"], cross_entropy(logits.flatten(0, 1), batch["targets"].flatten()))
    p, z = [], []
    for row, segments in enumerate(batch["segments"].tolist()):
        for number, segment in enumerate(segments):
            p.append(x[row, 3 * segment : 3 * segment + 3].mean(0))
            z.append(model.features(batch["alone"][row, number][None])[0].mean(0))
    nats = torch.stack(
        [
            -(p_i @ z[i] / math.sqrt(x.shape[2]))
            + torch.stack([p_i @ z_j / math.sqrt(x.shape[2]) for z_j in z]).logsumexp(0)
            for i, p_i in enumerate(p)
        ]
    )
    torch.testing.assert_close(losses["contrast"], 0.7 * nats.mean())
    losses["contrast"].backward()
    assert all(parameter.grad is not None for name, parameter in model.named_parameters() if name.startswith("layers."))


def test_the_score_counts_what_is_recognized() -> None:
    model, task = built(vocab=31, context=12), objective()
    row = task.score(model, noise())
    assert row["segments"] == 34  # 33 windows of 12 tokens, and one of 4 to 11
    assert 0 <= row["recognized"] <= 1
    assert row["held_out"] == pytest.approx(task.words.score(model, noise())["held_out"])
    assert "recognized" in task.summary(row)
    assert objective(rows=33).score(model, noise())["recognized"] <= row["recognized"], "of more to choose from"


@pytest.mark.slow
def test_it_is_resumed_bit_for_bit(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    tiny(whole, *ENCODER)
    tiny(cut, *ENCODER, "training.batches=4")
    tiny(cut, *ENCODER)
    same(cut, whole)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ((*ENCODER, "model.context=7"), "segment=4 needs model.context=8 or more, so that not all is hidden, not 7"),
        ((*ENCODER, "model.kind=decoder"), "does not fit model.kind=decoder"),
        ((*ENCODER, "training.objective={kind: contrastive, segment: 0}"), "segment"),
    ],
)
def test_settings_that_do_not_fit(changes: tuple[str, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        resolve("tiny", list(changes))
    assert "\n" not in str(error.value)
