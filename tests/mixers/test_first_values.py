"""The first values of every parameter, and what is spared weight decay, against the table of `first_values`."""

import math
from functools import lru_cache
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.core.roles import roles
from seqloom.mixers import kinds, mixer_config
from seqloom.mixers.linear.gated_delta import GatedDeltaConfig
from seqloom.mixers.recurrent.mlstm import MLSTMConfig
from tests.mixers.first_values import (
    CONTEXT,
    DEPTH,
    DIM,
    FIRST,
    LAYER,
    OF_OTHERS,
    ORTHOGONAL,
    SCALED,
    SETTINGS,
    SPARED,
    STD,
)
from tests.mixers.laws import Law, log_of_uniform, normal, steps, symmetric, uniform

KINDS = sorted(kinds())
ENOUGH, MOST = 320, 40
"""numbers of a parameter that are looked at together, and mixers that are built for them at the most"""


def fresh(kind: str, seed: int = 0, **settings: Any) -> Any:
    """A mixer after `reset`, as a model begins it."""
    torch.manual_seed(seed)
    causal = kinds()[kind].traits.causal != "never"
    config = mixer_config({"kind": kind, **SETTINGS.get(kind, {}), **settings})
    mixer = config.build(DIM, CONTEXT, causal, layer=LAYER, depth=DEPTH)
    mixer.reset(STD)
    return mixer


@lru_cache(MOST)
def drawn(kind: str, seed: int) -> Any:
    """The same mixer for all of its parameters."""
    return fresh(kind, seed)


def pooled(kind: str, name: str) -> Tensor:
    """A parameter of several mixers."""
    count = min(MOST, max(1, -(-ENOUGH // drawn(kind, 0).get_parameter(name).numel())))
    read = SCALED.get((kind, name), lambda mixer: mixer.get_parameter(name))
    return torch.cat([read(drawn(kind, seed)).detach().flatten() for seed in range(count)])


def expected(kind: str, name: str, mixer: Any) -> Any:
    """The law or the values of a parameter: its row, or what its role gives."""
    if name in FIRST.get(kind, {}):
        return FIRST[kind][name]
    if roles(mixer.named_modules())[name] in ("matrix", "embedding"):
        return normal(STD)
    module, _, last = name.rpartition(".")
    if last == "bias":
        return lambda mixer: 0.0
    if last == "weight" and module.rpartition(".")[2].startswith("norm"):
        return lambda mixer: 1.0
    raise AssertionError(f"{name} of {kind} has no row in tests/mixers/first_values.py")


def check_orthogonal(weight: Tensor, scale: float) -> None:
    """Each block of as many rows as there are columns, or all: its rows or columns are orthogonal, `scale` long."""
    for block in weight.detach().double().split(min(weight.shape[0], max(weight.shape[1], DIM))):
        small = block if block.shape[0] <= block.shape[1] else block.T
        torch.testing.assert_close(small @ small.T, scale**2 * torch.eye(len(small)).double(), rtol=0, atol=1e-5)


def split_gates(kind: str, name: str, mixer: Any, values: Tensor) -> Tensor:
    """mLSTM's input gates, without its forget gates, which are a ramp from 3 to 6."""
    if (kind, name) != ("mlstm", "w_gates.bias"):
        return values
    gates = values.view(-1, 2, mixer.heads)
    torch.testing.assert_close(gates[:, 1], torch.linspace(3, 6, mixer.heads).expand_as(gates[:, 1]))
    return gates[:, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_begins_as_in_the_program_of_its_authors(kind: str) -> None:
    mixer = drawn(kind, 0)
    named = dict(mixer.named_parameters())
    for name, parameter in named.items():
        if name in OF_OTHERS.get(kind, ()):
            continue
        if name in ORTHOGONAL.get(kind, {}):
            check_orthogonal(parameter, ORTHOGONAL[kind][name])
            continue
        law = expected(kind, name, mixer)
        if isinstance(law, Law):
            fault = law.fault(split_gates(kind, name, mixer, pooled(kind, name)))
            assert not fault, f"{name}: {fault}"
        else:
            values = torch.as_tensor(law(mixer)).to(parameter).expand_as(parameter)
            torch.testing.assert_close(
                parameter.detach(), values, rtol=1e-5, atol=1e-6, msg=lambda why, name=name: f"{name}: {why}"
            )
    rows = {*FIRST.get(kind, ()), *ORTHOGONAL.get(kind, ()), *OF_OTHERS.get(kind, ())}
    assert rows <= named.keys(), "a row of a parameter that is not there"


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_spared_weight_decay(kind: str) -> None:
    mixer = fresh(kind)
    name_of = {id(parameter): name for name, parameter in mixer.named_parameters()}
    groups = [({name_of[id(p)] for p in group["params"]}, group) for group in mixer.param_groups()]
    spared = {name for names, group in groups if group.get("weight_decay") == 0.0 for name in names}
    assert spared == SPARED.get(kind, set())
    assert {group["weight_decay"] for _, group in groups if "weight_decay" in group} <= {0.0}
    owned = {name for name in name_of.values() if not name.startswith("shared.")}
    listed = [name for names, _ in groups for name in names]
    assert owned <= {*listed}
    assert len(listed) == len({*listed}), "a parameter is in two groups"


def test_a_table_of_no_other_mixers() -> None:
    assert {*FIRST, *ORTHOGONAL, *SPARED, *OF_OTHERS, *SETTINGS} <= {*KINDS}


def test_forget_gates_that_are_exponentials_begin_alike() -> None:
    """σ of a ramp from 3 to 6, as its logarithm."""
    bias = fresh("mlstm", forget="exp").w_gates.bias.detach()[16:]
    torch.testing.assert_close(bias.exp(), torch.sigmoid(torch.linspace(3, 6, 16)))


@pytest.mark.parametrize("kernel", [1, 2, 7])
@pytest.mark.parametrize("config", [GatedDeltaConfig, MLSTMConfig])
def test_taps_of_any_kernel(config: Any, kernel: int) -> None:
    """n^-0.5, not 1/n, which is the same for one tap."""
    torch.manual_seed(0)
    taps = config(kernel=kernel).build(DIM, CONTEXT).conv.weight
    assert symmetric(kernel**-0.5).fault(taps.detach()) == ""


def test_a_law_tells_other_values() -> None:
    """Those that were found to pass before: taps of 1/n, steps to 1.0; and A from 0 or from 2."""
    generator = torch.Generator().manual_seed(0)
    u = torch.rand(320, generator=generator, dtype=torch.float64)
    step = (math.log(1e-3) + u * math.log(100)).exp()
    longer = (math.log(1e-3) + u * math.log(1000)).exp()

    def inverse(x: Tensor) -> Tensor:
        return x + torch.log(-torch.expm1(-x))

    assert steps().fault(inverse(step)) == ""
    assert steps().fault(inverse(longer)) == "a value is out of bounds"
    assert steps(1e-3, 1.0).fault(inverse(step)) != ""
    assert symmetric(0.5).fault(u - 0.5) == ""
    assert symmetric(0.5).fault((2 * u - 1) / 4) != ""
    assert log_of_uniform(1, 16).fault((1 + 15 * u).log()) == ""
    assert log_of_uniform(1, 16).fault((16 * u).log()) == "a value is out of bounds"
    assert log_of_uniform(1, 16).fault((2 + 14 * u).log()) != ""
    assert uniform(0, 1).fault(u.square()) != ""
    z = torch.randn(1000, generator=generator, dtype=torch.float64)
    assert normal(1.0).fault(z) == ""
    assert normal(1.3).fault(z) != ""
    assert normal(1.0).fault(z + 0.2) != ""
