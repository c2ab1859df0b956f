"""The work of a training step reads nothing from the device, for every mixer under every objective that is captured."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.data.probes import probe
from seqloom.models.encoder import Encoder, EncoderConfig
from seqloom.ops.attention import portable, tiled
from seqloom.ops.attention.patterns import Columns, Pattern, Union, around, local, strided_parts
from seqloom.ops.attention.plan import plan
from seqloom.training.capturable import changes_afterwards, why_uncaptured
from seqloom.training.loop import Updates
from seqloom.training.losses import Losses
from seqloom.training.objectives.exits import ExitsConfig
from seqloom.training.objectives.masked_token import MaskedTokenConfig
from seqloom.training.objectives.next_token import NextToken
from seqloom.training.objectives.probe import ProbeObjective
from seqloom.training.optimizers import optimizer
from seqloom.training.preparation import learner_of, with_text
from seqloom.training.settings import resolve
from seqloom.training.step import Learner
from tests.contract.cases import CASES, Case
from tests.training.recorded import no_reads
from tests.training.stepping import CONTEXT, VOCAB, decoder, noise
from tests.training.test_whole_recipes import NAMES, changes

ROWS = 2
QUESTIONS = probe("mqar:pairs=2,length=8,keys=4,values=4")


def updates(case: Case, objective: str, *changes: str) -> Updates:
    """The steps of a small model of this mixer."""
    mixer: dict[str, Any] = {"kind": case.kind, **dict(case.example)}
    config = resolve("tiny", [f"training.batch={ROWS}", "training.clip=1.0", *changes]).training
    torch.manual_seed(7)
    learner = {"next_token": _next_token, "exits": _exits, "probe": _probe, "masked_token": _masked}[objective](mixer)
    return Updates(learner, optimizer(learner.model, config, learner.objective), config, seed=0)


def _next_token(mixer: dict[str, Any]) -> Learner:
    return Learner(decoder(mixer, depth=1), NextToken(noise(), CONTEXT, ROWS))


def _exits(mixer: dict[str, Any]) -> Learner:
    model = decoder(mixer)
    return Learner(model, ExitsConfig().build(model.config, resolve("tiny", []).data, ROWS, noise()))


def _probe(mixer: dict[str, Any]) -> Learner:
    model = decoder(mixer, depth=1, vocab=QUESTIONS.vocab, context=QUESTIONS.row_tokens)
    return Learner(model, ProbeObjective(QUESTIONS, model.config.dim, ROWS, 0))


def _masked(mixer: dict[str, Any]) -> Learner:
    sizes = {"vocab": VOCAB + 1, "dim": 8, "depth": 1, "context": CONTEXT, "ffn": 16, "std": 0.3}
    config = EncoderConfig(**sizes, mixer=mixer)
    objective = MaskedTokenConfig().build(config, resolve("tiny", []).data, ROWS, noise())
    return Learner(Encoder(config).train(), objective)


def does_a_step(steps: Updates) -> None:
    """Fails unless a step reads nothing from the device, or says why it is not captured, and then does read."""
    parts, divisors = steps.batch(0)
    steps.set_rates(0)
    steps.step(parts, divisors, Losses.values)  # the first makes what is cached, the optimizer's memory among it
    before = [parameter.detach().clone() for parameter in steps.learner.parameters()]
    if why_uncaptured(steps):
        with no_reads(), pytest.raises(RuntimeError, match="the device"):
            steps.step(parts, divisors, Losses.values)
        return
    with no_reads():
        losses, _ = steps.step(parts, divisors, Losses.values)
    assert bool(losses.isfinite().all())
    assert any(not weight.equal(old) for weight, old in zip(steps.learner.parameters(), before, strict=True))


CAUSAL = [case for case in CASES if case.first and case.causal]
OTHERS = [case for case in CASES if case.first and not case.causal]


@pytest.mark.parametrize("case", [case for case in CAUSAL if case.kind in ("he", "adaptive_span")], ids=str)
def test_a_step_reads_nothing(case: Case) -> None:
    does_a_step(updates(case, "next_token"))


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["next_token", "exits", "probe"])
@pytest.mark.parametrize("case", CAUSAL, ids=str)
def test_a_step_of_every_causal_mixer_reads_nothing(case: Case, objective: str) -> None:
    does_a_step(updates(case, objective))


@pytest.mark.slow
@pytest.mark.parametrize("case", OTHERS, ids=str)
def test_a_step_of_every_bidirectional_mixer_reads_nothing(case: Case) -> None:
    does_a_step(updates(case, "masked_token"))


@pytest.mark.slow
def test_a_step_with_global_tokens_reads_nothing() -> None:
    (case,) = (case for case in OTHERS if case.kind == "longformer" and not case.causal)
    example = {"heads": 2, "window": 4, "global_tokens": (0, 3)}
    does_a_step(updates(replace(case, example=tuple(example.items())), "masked_token"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "pattern", [local(3), Union((around(2), Columns((0, 70), False, around(2)))), strided_parts(5)[1]]
)
def test_sparse_attention_in_tiles_reads_nothing_a_second_time(
    monkeypatch: pytest.MonkeyPatch, pattern: Pattern
) -> None:
    """As on a GPU whose kernels do not fit, where the tiles of a pattern lie after the first call."""
    monkeypatch.setattr(portable, "_groups", portable._cached_tiles)
    q, k, v = (torch.randn(2, 2, 150, 4, requires_grad=True) for _ in range(3))
    lengths = torch.tensor([150, 99])

    def gradients() -> list[Tensor]:
        y = tiled.attend(q, k, v, lengths, plan(pattern.of(150), 150), portable)
        return [y, *torch.autograd.grad(y.square().sum(), (q, k, v))]

    first = gradients()
    with no_reads():
        again = gradients()
    assert all(one.equal(other) for one, other in zip(first, again, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("position", ["t5", "alibi", "rotary", "sinusoidal", "learned_each_layer", "xpos"])
def test_a_step_with_every_position_reads_nothing(position: str) -> None:
    model = decoder({"kind": "attention", "heads": 2}, depth=1, position=position)
    config = resolve("tiny", [f"training.batch={ROWS}"]).training
    learner = Learner(model, NextToken(noise(), CONTEXT, ROWS))
    does_a_step(Updates(learner, optimizer(model, config, learner.objective), config, seed=0))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, "bert/small"])
def test_a_step_of_a_whole_model_reads_nothing(name: str) -> None:
    config, corpus = with_text(resolve(name, changes(name, 6)))
    learner = learner_of(config, corpus).train()
    does_a_step(Updates(learner, optimizer(learner.model, config.training, learner.objective), config.training, seed=0))


def test_the_guard_sees_every_way_to_read() -> None:
    """Otherwise the tests above could not fail."""
    x = torch.arange(4.0)
    array = np.zeros(2)
    ways: list[Callable[[], Any]] = [
        lambda: x.sum().item(), lambda: x.tolist(), lambda: x.numpy(), lambda: bool((x > 9).any()), lambda: int(x[0]),
        lambda: torch.tensor([1.0]), lambda: torch.as_tensor(2), lambda: torch.from_numpy(array),
        lambda: x[x > 1], lambda: torch.where(x > 1), lambda: x.masked_select(x > 1), lambda: x.unique(),
        lambda: x.double().index_put((x > 1,), torch.zeros((), dtype=torch.float64)),
        lambda: torch.nn.functional.one_hot(x.long()),
    ]  # fmt: skip
    for number, way in enumerate(ways):
        with no_reads(), pytest.raises(RuntimeError, match="the device"):
            raise AssertionError(f"way {number} to read was not seen: {way()}")
    with no_reads():
        assert x.index_select(0, x.long()).shape == x[x.long()].shape


@pytest.mark.slow
def test_what_changes_after_an_update() -> None:
    changing = {case.kind for case in CAUSAL if changes_afterwards(updates(case, "next_token").learner.model)}
    assert changing == {"reformer", "routing", "adaptive_span", "performer", "rfa"}
