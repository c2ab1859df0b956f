"""What the promise `gradients` measures, in which dtype, and at how many tokens."""

import re
from importlib import import_module
from pkgutil import walk_packages

import pytest
import torch

from seqloom import ops
from seqloom.contracts import Finding
from seqloom.contracts.gradients import gradients
from seqloom.contracts.readings import LONG, readings
from seqloom.contracts.target import subject_of
from tests.contracts.layers_trained import (
    Keyed,
    LargestKeys,
    OnlySingleTriples,
    ReadsOnWithoutGradients,
    Relu,
    TriplesKeys,
)

LAYERS = "tests.contracts.layers_trained"


def finding(kind: type, dtype: torch.dtype | None = None, dim: int = 16) -> Finding:
    return gradients(subject_of(f"{LAYERS}:{kind.__name__}", dim=dim, dtype=dtype))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [(Keyed, None), (Keyed, torch.float32), (Relu, None), (Relu, torch.float32), (LargestKeys, None)],
)
def test_a_sound_layer_holds_also_where_it_bends(kind: type, dtype: torch.dtype | None) -> None:
    result = finding(kind, dtype, dim=32)
    assert result.verdict == "holds", result


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "dtype"), [(TriplesKeys, torch.float32), (OnlySingleTriples, None)])
def test_without_float64_eight_directions_tell_a_false_gradient(kind: type, dtype: torch.dtype | None) -> None:
    result = finding(kind, dtype)
    assert result.verdict == "breaks"
    assert "the gradient of k.weight is wrong" in result.detail
    assert result.difference is not None
    assert 0.3 < result.difference < 0.8  # 3 - 1 of 3


@pytest.mark.slow
def test_coarse_differences_across_choices_prove_nothing() -> None:
    result = finding(LargestKeys, torch.float32, dim=32)
    assert result.verdict == "does not apply", result
    assert "differences do not converge" in result.detail


def test_in_bfloat16_differences_say_nothing() -> None:
    result = finding(TriplesKeys, torch.bfloat16)
    assert (result.verdict, "--reference" in result.detail) == ("does not apply", True), result


@pytest.mark.slow
def test_pieces_without_gradients_are_named() -> None:
    result = finding(ReadsOnWithoutGradients)
    assert result.verdict == "holds"
    assert result.detail.endswith("(forward over 5 and 263, extend over 0: the output has no gradient)")


def test_what_is_read() -> None:
    assert [reading.name for reading in readings(subject_of("tests.contracts.layers:Decay", dim=8))] == [
        "forward over 5 tokens", "extend over 2 + 3 tokens", "forward over 263 tokens", "extend over 9 + 263 tokens",
    ]  # fmt: skip
    limited = subject_of("tests.contracts.layers:Limited", dim=8, context=6)
    assert [reading.name for reading in readings(limited)] == ["forward over 5 tokens", "forward over 6 tokens"]


@pytest.mark.slow
def test_a_long_sequence_has_more_tokens_than_any_block_of_an_op() -> None:
    sizes: dict[str, int] = {}
    for module in walk_packages(ops.__path__, "seqloom.ops."):
        if module.name.endswith("kernels"):  # of Triton, which is not installed everywhere
            continue
        for name, value in vars(import_module(module.name)).items():
            if re.fullmatch(r"[A-Z_]*(BLOCK|CHUNK|TILE)", name) and isinstance(value, int):
                sizes[f"{module.name}.{name}"] = value
    del sizes["seqloom.ops.attention.DECAY_TILE"]  # 1024, against overflow: torch derives it, tile by tile
    assert len(sizes) > 10
    assert max(sizes.values()) < LONG, sizes
