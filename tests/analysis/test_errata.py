"""The errors of the source texts outside of tables (docs/errata.md): each test shows that the printed text is wrong."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from seqloom.analysis.tables import training
from seqloom.data.tokens import Tokens
from seqloom.data.windows import Windows
from seqloom.evaluation.scores import score
from seqloom.mixers import kinds
from seqloom.models.decoder import Decoder, DecoderConfig
from seqloom.ops.attention import attend
from seqloom.ops.backends import use

EOS = 0

BATCHES, BATCH, CONTEXT, CORPUS = 60_000, 64, 128, 8_400_000
"""the paper's Table 1 and section 6"""
DEFINED = re.compile(r"^def (\w+)\(", re.MULTILINE)


def test_epochs_are_starts_not_passes() -> None:
    starts = Windows(Tokens(np.zeros(1000, "<u2"), np.array([0]), np.array([1])), CONTEXT, seed=0).starts
    assert starts == 1000 - CONTEXT  # every token starts a window, but the last ones
    assert round(BATCHES * BATCH / (CORPUS - CONTEXT), 3) == 0.457
    assert round(BATCHES * BATCH * CONTEXT / CORPUS, 1) == 58.5


def test_she_has_eight_times_the_parameters_of_attention() -> None:
    extra = 18 * (training("she", 128, 128).params - training("attention", 128, 128).params)
    assert extra == 37_158_912
    assert round((4_861_320 + extra) / 4_861_320, 1) == 8.6  # the whole models: tests/analysis/test_cost.py


@pytest.mark.parametrize("words", [50, 5000])
def test_perplexity_is_the_exponential_of_the_loss(words: int) -> None:
    """A model that is as unsure as among all words has that many as its perplexity, and their logarithm as its loss."""
    config = {"vocab": words, "dim": 8, "depth": 1, "context": 6, "ffn": 8, "mixer": {"kind": "he"}}
    model = Decoder(DecoderConfig.model_validate(config))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    text = Tokens(np.append(np.arange(1, 20), EOS).astype("<u2"), np.array([0]), np.array([40]))
    loss = score(model, text).loss
    assert loss == pytest.approx(math.log(words), rel=1e-6)
    assert math.exp(loss) == pytest.approx(words, rel=1e-5)


@pytest.mark.parametrize("backend", ["reference", "kernel", "formed"])
def test_attention_weights_are_normalised_over_the_past(backend: str) -> None:
    q, k = torch.rand(1, 2, 6, 4).double(), torch.rand(1, 2, 6, 4).double()
    with use(attention=backend):
        sums = attend(q, k, torch.ones_like(k))
    assert torch.allclose(sums, torch.ones_like(sums))
    e = (q @ k.mT / 2).exp()  # seed 000: normalised over all t, so that the last weights alone add up to 1
    to_the_end = e.tril().sum(-1) / e.sum(-1)
    assert bool((to_the_end[..., :-1] < 1).all())


@pytest.mark.parametrize("kind", ["we", "he", "me", "she"])
def test_extractors_have_a_weight_for_each_lag_of_the_context(kind: str) -> None:
    mixer = kinds()[kind]().build(4, 6).double()
    x = torch.randn(1, 6, 4, dtype=torch.float64)
    with use(lag_sum="direct"):  # which has no rounding where a weight is not used
        mixer(x)[0, 2].sum().backward()  # the third position uses w_1 … w_3 (seed 000 ends the list at w_i)
        used = mixer.w_ext.grad.reshape(6, -1).abs().sum(1) > 0
        assert used.tolist() == [True] * 3 + [False] * 3
        mixer.zero_grad()
        mixer(x)[0, 5].sum().backward()
    assert bool((mixer.w_ext.grad.reshape(6, -1).abs().sum(1) > 0).all())


def test_adjustment_reads_the_token_at_its_own_position() -> None:
    mixer = kinds()["we"](out_proj=False).build(4, 6).double()
    x = torch.randn(1, 6, 4, dtype=torch.float64)
    z = mixer(x)
    for i in range(6):
        extracted = sum(x[:, j] * mixer.w_ext[i - j] for j in range(i + 1))
        assert torch.allclose(z[:, i], mixer.w_adj(x[:, i]) * extracted)


@pytest.mark.parametrize(("position", "same"), [("learned", False), ("none", True)])
def test_a_slide_of_the_window_changes_every_input(position: str, same: bool) -> None:
    config = {
        "vocab": 11,
        "dim": 8,
        "depth": 1,
        "context": 6,
        "ffn": 8,
        "position": position,
        "mixer": {"kind": "he"},
    }
    model, ids = Decoder(DecoderConfig.model_validate(config)).eval(), torch.randint(11, (1, 7))
    inputs: list[torch.Tensor] = []
    model.blocks[0].norm_1.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
    model(ids[:, :6]), model(ids[:, 1:])
    shared_before, shared_after = inputs[0][:, 1:], inputs[1][:, :5]
    moved = (shared_before != shared_after).any(-1)
    assert bool((~moved).all() if same else moved.all())


def test_a_state_of_learned_positions_ends_at_the_context() -> None:
    config = {"vocab": 11, "dim": 8, "depth": 1, "context": 6, "ffn": 8, "mixer": {"kind": "he"}}
    model = Decoder(DecoderConfig.model_validate(config)).eval()
    _, state = model.extend(torch.randint(11, (1, 6)), model.start(1))
    with pytest.raises(ValueError, match="the learned positions reach 6"):
        model.step(torch.tensor([3]), state)


@pytest.mark.slow
def test_every_test_that_the_errata_name_is_there() -> None:
    tests = Path(__file__).parents[1]
    message = (tests.parent / "docs" / "errata.md").read_text(encoding="utf-8")
    named = re.findall(r"`(?:(\w+\.py)::)?(test_\w+)`", message)
    texts = {path: path.read_text(encoding="utf-8") for path in tests.rglob("test_*.py")}
    there = {(path.name, name) for path, text in texts.items() for name in DEFINED.findall(text)}
    names = {name for _, name in there}
    assert len(named) > 60
    assert [name for file, name in named if name not in names or (file and (file, name) not in there)] == []
    printed = {name for file, name in there if file.startswith("test_printed_formulas") and name.startswith("test_")}
    assert printed - {name for _, name in named} == {"test_004_eq_31_is_the_kernel"}, "a row for each printed formula"
