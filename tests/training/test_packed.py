"""Packed documents: loss and gradient are those of the documents read one by one, for every mixer."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from seqloom.cli import command
from seqloom.core.objective import Batch, Pass
from seqloom.data.tokens import Tokens
from seqloom.mixers import kinds, mixer_config
from seqloom.models.decoder import Decoder, DecoderConfig
from seqloom.training.distributed import require_one_dropout
from seqloom.training.loop import Updates, micro_batches
from seqloom.training.objectives.next_token import PackedNextToken
from seqloom.training.settings import resolve
from seqloom.training.step import Learner
from seqloom.training.train import Outcome
from tests.training.balancing import BalancedConfig
from tests.training.running import same, tiny
from tests.training.stepping import CONTEXT, VOCAB, descent

EOS = 0

Whole = Callable[..., Outcome]
CAUSAL = [kind for kind, config in kinds().items() if config.traits.causal != "never"]
PACKED = ("data.packed=true", "data.source=stories:30:0")


def documents() -> Tokens:
    """Documents of 1 to 20 words, most of them shorter than the context of 8 and some longer."""
    draws = np.random.default_rng(1)
    texts = [[*draws.integers(1, VOCAB, n), EOS] for n in (1, 3, 20, 2, 5, 7, 4, 1, 9, 2, 6, 3)]
    lengths = [len(text) for text in texts]
    return Tokens(np.concatenate(texts).astype("<u2"), np.cumsum(lengths) - lengths, np.array(lengths))


def model(mixer: Any, **settings: Any) -> Decoder:
    torch.manual_seed(7)
    sizes = {"vocab": VOCAB, "dim": 8, "depth": 2, "context": CONTEXT, "ffn": 16, "std": 0.3, "dropout": 0.0}
    return Decoder(DecoderConfig(**{**sizes, "mixer": mixer, **settings})).double().train()


def alone(model: Decoder, batch: Batch) -> Tensor:
    """The mean loss over the targets of a batch, its documents read one by one."""
    nats = []
    for ids, document in zip(batch["ids"], batch["document"], strict=True):
        for number in range(int(document.max()) + 1):
            own = ids[document == number]
            nats.append(cross_entropy(model(own[None, :-1])[0], own[1:], reduction="none"))
    return torch.cat(nats).mean()


def gradients(model: Decoder, loss: Tensor) -> list[Tensor]:
    weights = list(model.parameters())
    actual = torch.autograd.grad(loss, weights, allow_unused=True)
    return [torch.zeros_like(weight) if slope is None else slope for weight, slope in zip(weights, actual, strict=True)]


def require_alone(model: Decoder) -> None:
    objective = PackedNextToken(documents(), CONTEXT, rows=4)
    batch = objective.batch(0, 0, model)
    assert int(batch["document"].max()) > 0, "no row holds two documents"
    packed, expected = objective.losses(model, batch, {}).losses["loss"], alone(model, batch)
    assert float(packed.detach()) == pytest.approx(float(expected.detach()), rel=1e-10)
    for one, other in zip(gradients(model, packed), gradients(model, expected), strict=True):
        assert torch.allclose(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("kind", CAUSAL)
def test_every_mixer(kind: str) -> None:
    require_alone(model(mixer_config({"kind": kind, **kinds()[kind].examples[0]})))


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{"channel": "channel_mix"}, {"position": {"kind": "rotary"}}, {"embed_norm": True, "norm": "rms"}]
)
def test_every_other_part(settings: dict[str, Any]) -> None:
    require_alone(model({"kind": "attention", "heads": 2}, **settings))


@pytest.mark.slow
def test_micro_batches_add_up_to_the_mean_over_all_targets() -> None:
    objective = PackedNextToken(documents(), CONTEXT, rows=4)
    result: dict[int, tuple[float, list[Tensor]]] = {}
    counts = [objective.targets(part) for part in micro_batches(objective.batch(3, 0, None), 4)]
    assert len(set(counts)) > 1, "all rows have equally many targets"
    for pieces in (1, 2, 4):
        read = model({"kind": "attention", "heads": 2})
        settings = resolve("tiny", [f"training.accumulate={pieces}"]).training
        update = Updates(Learner(read, objective), descent(read, 1.0), settings, seed=3)
        result[pieces] = update(0).loss, [weights.detach() for weights in read.parameters()]
    for loss, weights in result.values():
        assert loss == pytest.approx(result[1][0], rel=1e-12)
        for one, other in zip(weights, result[1][1], strict=True):
            assert torch.allclose(one, other, atol=1e-12)


def test_auxiliary_losses_are_means_over_the_tokens_that_are_read() -> None:
    read = model(BalancedConfig(weight=0.5), depth=1)
    objective = PackedNextToken(documents(), CONTEXT, rows=4)
    batch = objective.batch(0, 0, read)
    actual: Pass = objective.losses(read, batch, {})
    balances, loads = [], []
    for ids, document in zip(batch["ids"], batch["document"], strict=True):
        for number in range(int(document.max()) + 1):
            own = ids[document == number][None, :-1]
            extras = read.forward_with_extras(own)[1]
            balances.append(extras.losses["layers.0.balance"] * own.numel())
            loads.append(extras.statistics["layers.0.load"])
    expected = torch.stack(balances).sum() / objective.targets(batch)
    assert torch.allclose(actual.extras.losses["layers.0.balance"], expected, rtol=1e-12)
    assert torch.allclose(actual.extras.statistics["layers.0.load"], torch.stack(loads).sum(0), rtol=1e-12)


@pytest.mark.slow
def test_a_run_reports_its_padding_and_resumes_bit_for_bit(whole: Whole, out: Path) -> None:
    changes = (*PACKED, "training.accumulate=2")
    messages: list[str] = []
    tiny(out, *changes, "training.batches=4", say=messages.append)
    (line,) = [line for line in messages if "parameters; in " in line]
    assert re.search(r"; packed: 2\d documents in [\d,]+ pieces in [\d,]+ rows of 17 tokens, \d\.\d% padding; ", line)
    tiny(out, *changes)
    same(out, whole(*changes).run.folder)


def test_the_setting_is_a_part_of_the_identity_only_where_it_is_set() -> None:
    plain, packed = (resolve("tiny", ["data.source=x", *changes]) for changes in ([], ["data.packed=true"]))
    assert "packed" not in plain.identity("text")["data"]
    assert packed.identity("text")["data"]["packed"] is True


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        (["training.objective.kind=probe"], "training.objective.kind=probe reads no packed documents"),
        (["training.compile=true"], "data.packed gives each batch other shapes, which training.compile would"),
        (["data.within_documents=true"], "packed=true and within_documents=true are two ways to cut a text"),
        (["data.packed=2"], "data.packed: input should be a valid boolean"),
    ],
)
def test_settings_of_packed_that_do_not_fit(
    changes: list[str], error: str, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word for change in (*PACKED, *changes) for word in ("--set", change)]
    assert command(["train", "tiny", "--out", str(out), *words]) == 2
    printed = capsys.readouterr().err
    assert error in printed
    assert printed.count("\n") == 1
    assert not out.exists()


def test_a_text_of_one_document(tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "one.txt"
    text.write_text("".join(f"A line {n * n} of no meaning, {n % 7} times.\n" for n in range(400)))
    words = ["--data", str(text), "--set", "data.packed=true", "--set", "data.vocab=260"]
    assert command(["train", "tiny", "--out", str(out), *words]) == 2
    printed = capsys.readouterr().err.splitlines()[-1]
    assert "data.packed fills rows with whole documents, and the training text is a single one" in printed
    assert not out.exists()


def test_dropout_does_not_depend_on_the_number_of_processes() -> None:
    config = resolve("tiny", [*PACKED, "model.dropout=0.1"])
    require_one_dropout(config, 1)
    require_one_dropout(resolve("tiny", [*PACKED, "model.dropout=0"]), 2)
    require_one_dropout(resolve("tiny", ["data.source=x", "model.dropout=0.1"]), 2)
    with pytest.raises(ValueError, match=r"depend on the number of processes, which is 2: choose model\.dropout=0"):
        require_one_dropout(config, 2)
