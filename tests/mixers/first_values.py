"""How every parameter of every mixer begins, and whether it is spared weight decay.

By its role a parameter follows `DEFAULTS`; all others are in `FIRST`, by mixer and name, with what follows from the
program of the mixer's authors. A mixer with a parameter of its own needs a row. `SPARED` are those that `param_groups`
keeps from weight decay, whatever the training's `decay` is.
"""

import math
from typing import Any

import torch
from torch import Tensor

from tests.mixers.laws import (
    Exact,
    Law,
    log_of_uniform,
    log_uniform,
    normal,
    steps,
    symmetric,
)

STD = 0.02
"""of `reset`"""
DIM, CONTEXT, LAYER, DEPTH = 64, 32, 1, 4
SETTINGS: dict[str, dict[str, Any]] = {
    "linformer": {"k": 8},
    "mamba2": {"head_width": 4},
    **{kind: {"heads": 16} for kind in ("gated_delta", "deltaproduct", "gated_delta2", "kda", "mlstm")},
}
"""so that there are many heads"""
UNIT, ZERO, ONE = normal(1.0), lambda m: 0.0, lambda m: 1.0
PLAIN, SMALL = normal(STD), normal((2 / (5 * DIM)) ** 0.5)
SHORT = symmetric(4**-0.5)
"""torch's Conv1d, of 4 taps: the programs of Mamba, Mamba-2, fla and xLSTM leave it as it is"""
DELTA = {"conv.weight": SHORT, "a_log": log_of_uniform(1e-3, 16)}
"""fla's `GatedDeltaNet`: A uniform to 16 (ours at least 1e-3, where theirs may be 0), dt from 0.001 to 0.1"""
BY_CHANNEL = {"conv.weight": SHORT, "a_log": log_of_uniform(1, 16), "decay_out.bias": steps()}
"""fla's `KimiDeltaAttention`: A uniform from 1 to 16, dt from 0.001 to 0.1"""
S4 = {
    "log_step": log_uniform(1e-3, 0.1),
    "c": normal(0.5**0.5),
    "d": UNIT,
}
"""S4's program: dt from 0.001 to 0.1; c complex of variance 1"""


def _share() -> Tensor:
    return torch.arange(DIM, dtype=torch.float64) / (DIM - 1)


def _zigzag(mixer: Any) -> Tensor:
    u = (torch.arange(DIM, dtype=torch.float64) % mixer.K) / (mixer.K - 1) * 2 - 1
    return u * u.abs()


def _rwkv7_shift(exponent: float) -> Tensor:
    return 1 - (torch.arange(DIM, dtype=torch.float64) / DIM) ** (exponent * (1 - LAYER / DEPTH))


LATE = LAYER / (DEPTH - 1)
CHANNEL = torch.arange(DIM, dtype=torch.float64)
RWKV7: dict[str, Law | Exact] = {
    "mu": lambda m: torch.stack([_rwkv7_shift(e) for e in (0.2, 0.9, 0.7, 0.7, 0.9, 0.2)]),
    "erased": lambda m: 0.71 - 0.1 * (_share() - 0.5),
    "replaced": lambda m: 1.02,
    "gain": lambda m: ((1 + LAYER) / DEPTH) ** 0.7,
    "shift": ZERO,
    "bonus": lambda m: -0.04,
    **{f"thin_in.{name}.weight": ZERO for name in ("decay", "rate", "gate", "value")},
    "thin_out.decay.bias": lambda m: -5.5 + 6 * _share() ** (1 + LATE**0.3) + 2.5 * _zigzag(m),
    "thin_out.rate.bias": lambda m: -0.19 + 0.3 * _zigzag(m) + 0.4 * (_share() - 0.5),
    "thin_out.value.bias": lambda m: 0.73 - 0.4 * (_share() - 0.5),
}
"""RWKV-LM's `train_temp`"""
RWKV: dict[str, Law | Exact] = {
    "mu_r": lambda m: (CHANNEL / DIM) ** ((1 - LAYER / DEPTH) / 2),
    "mu_k": lambda m: (CHANNEL / DIM) ** (1 - LAYER / DEPTH),
    "mu_v": lambda m: (CHANNEL / DIM) ** (1 - LAYER / DEPTH) + 0.3 * LATE,
    "log_rate": lambda m: -5 + 8 * _share() ** (0.7 + 1.3 * LATE),
    "bonus": lambda m: math.log(0.3) + torch.tensor([(c + 1) % 3 - 1 for c in range(DIM)]) / 2,
}
"""RWKV-4's program"""
ORTHOGONAL: dict[str, dict[str, float]] = {
    "rnn": {"w_state.weight": 1.0},
    "gru": {"w_state.weight": 1.0},
    "lstm": {"w_state.weight": 1.0},
    "both_ways": {"forward_mixer.w_state.weight": 1.0, "backward_mixer.w_state.weight": 1.0},
    "rwkv7": {
        **{"w_r.weight": 1.0, "w_k.weight": 0.1, "w_v.weight": 1.0},
        **{f"thin_out.{name}.weight": 0.1 for name in ("decay", "rate", "gate", "value")},
    },
}
"""by mixer: its orthogonal matrices, each block of them that is as wide as it is long, times this"""


def _forget_of_slstm(mixer: Any) -> Tensor:
    """xLSTM's program: power-law forget biases, all others 0."""
    K = mixer.dim // mixer.heads
    bias = torch.zeros(mixer.heads, 4 * K)
    bias[:, K : 2 * K] = 5 - 12 * (torch.arange(K) / (K - 1)) ** (0.3 + 1.3 * LATE)
    return bias


def _waves(mixer: Any) -> Tensor:
    return -math.log(CONTEXT) * torch.arange(1, mixer.order + 1) / mixer.order


def _modal_c(mixer: Any) -> Tensor:
    """The weights of the waves over the deviation that gives all taps together the energy 1."""
    energy = 1 / -torch.expm1(-2 * _waves(mixer).double().exp())
    return mixer.c / (1 / (2 * (mixer.order * energy).sqrt()))[:, None]


SCALED = {("modal_extractor", "c"): _modal_c}
"""of some parameters: the values that follow their law"""

FIRST: dict[str, dict[str, Law | Exact]] = {
    **{kind: {"w_ext": PLAIN} for kind in ("extractor", "she", "he", "we", "me", "he_extraction")},
    "active_memory": {
        **dict.fromkeys(("w_g", "w_r", "w"), normal((3 * DIM) ** -0.5)),
        "b": ZERO,
        "b_g": ZERO,
        "b_r": ZERO,
    },
    "adaptive_span": {"extent": ZERO},
    "additive": {"w": normal((DIM // 4) ** -0.5)},
    "aft_conv": {"w": UNIT, "gain": ZERO, "shift": ZERO},
    "aft_full": {"w": normal(0.1)},
    "aft_local": {"w": normal(0.1)},
    "compressive": {"position.u": ZERO, "position.v": ZERO},
    "delta": {"conv.weight": SHORT},
    "deltaproduct": {**DELTA, "w_a.bias": steps()},
    "differential": {"vectors": normal(0.1)},
    "etc": {"labels_long": PLAIN, "labels_global": PLAIN},
    "gated_delta": {**DELTA, "w_a.bias": steps()},
    "gated_delta2": BY_CHANNEL,
    "gmlp": {"w": symmetric(1e-3 / CONTEXT), "b": ONE},
    "gss": {"log_rate": UNIT, "log_frequency": UNIT, "c": UNIT, "d": UNIT},
    "hgrn2": {"shared.table": ZERO},
    "hyena": {
        **{"short": symmetric(3**-0.5), "frequency": lambda m: 14.0, "bias": UNIT},
        **{f"filter_in.{name}": symmetric(33**-0.5) for name in ("weight", "bias")},
        **{f"filter_hidden.{n}.{name}": symmetric(DIM**-0.5) for n in (0, 1) for name in ("weight", "bias")},
        "filter_out.weight": symmetric(DIM**-0.5),
    },
    "kda": BY_CHANNEL,
    "lightweight_conv": {"w": symmetric((6 / (7 * 5)) ** 0.5)},
    "linformer": {"shared.keys": normal(CONTEXT**-0.5)},
    "lssl": {**S4, "c": UNIT},
    "lstm": {"w_in.bias": lambda m: (torch.arange(4 * DIM) // DIM == 1).double()},
    "mamba": {
        **{"conv_weight": SHORT, "conv_bias": SHORT, "a_log": lambda m: torch.arange(1, 17).log().expand(128, 16)},
        **{"d": ONE, "dt_proj.weight": symmetric(4**-0.5), "dt_proj.bias": steps()},
    },
    "mamba2": {
        **{"conv.weight": SHORT, "conv.bias": SHORT, "a_log": log_of_uniform(1, 16)},
        **{"step_bias": steps(), "d": ONE},
    },
    "memorizing": {"gate": lambda m: -2.0},
    "mlp_mixer": {"w_1": normal(CONTEXT**-0.5), "w_2": normal(CONTEXT**-0.5), "b_1": ZERO, "b_2": ZERO},
    "mlstm": {
        **{"conv.weight": SHORT, "conv.bias": SHORT, "qkv": SMALL, "gain": ONE, "skip": ONE},
        **{"w_gates.weight": ZERO, "w_gates.bias": normal(0.1)},
    },
    "modal_extractor": {"log_rate": lambda m: _waves(m).expand(DIM, -1), "frequency": ZERO, "d": ZERO, "c": UNIT},
    "rfa": {"sigma": ONE},
    "rglru": {
        **{"conv.weight": normal((0.01 / 4) ** 0.5), "gates.weight": normal(16**-0.5), "gates.bias": ZERO},
        "rate": Law(lambda x: ((-2 * torch.nn.functional.softplus(x)).exp() - 0.81) / (0.999**2 - 0.81)),
    },
    "rwkv": RWKV,
    "rwkv7": RWKV7,
    "s4": S4,
    "s4d": {
        **S4,
        "log_rate": lambda m: math.log(0.5),
        "frequency": lambda m: math.pi * torch.arange(32, dtype=torch.float64).expand(DIM, 32),
    },
    "s5": {"log_step": log_uniform(1e-3, 0.1), "d": UNIT},
    "s6": {
        **{"a_log": lambda m: torch.arange(1, 17).log().expand(DIM, 16), "d": ONE},
        **{"dt_proj.weight": symmetric(4**-0.5), "dt_proj.bias": steps()},
    },
    "slstm": {
        **{"conv.weight": SHORT, "conv.bias": SHORT, "gain": ONE, "w_h.weight": ZERO, "w_h.bias": _forget_of_slstm},
        **{"w_if.weight": SMALL, "w_zo.weight": SMALL},
    },
    "spade": {f"far.{name}": law for name, law in S4.items()},
    "ssm": {"log_step": lambda m: math.log(0.01)},
    "transformer_xl": {"position.u": ZERO, "position.v": ZERO},
}
OF_OTHERS: dict[str, set[str]] = {
    "s4": {"eigenvalues", "p", "b"},
    "spade": {"far.eigenvalues", "far.p", "far.b"},
    "s5": {"eigenvalues", "b", "c"},
    "lssl": {"a", "b"},
    "ssm": {"a"},
}
"""HiPPO's matrices and what follows from them: the tests of each mixer compare these with the definition"""

_S4 = {"log_step", "eigenvalues", "p", "b"}
_VECTORS = {"gain", "skip", "conv.bias", "w_gates.bias"}
SPARED: dict[str, set[str]] = {
    "deltaproduct": {"a_log", "w_a.bias"},
    "differential": {"vectors"},
    "gated_delta": {"a_log", "w_a.bias"},
    "gated_delta2": {"a_log", "decay_out.bias"},
    "gmlp": {"b"},
    "gss": {"log_rate", "log_frequency"},
    "hyena": {"frequency", "bias", *(name for name in FIRST["hyena"] if name.startswith("filter"))},
    "kda": {"a_log", "decay_out.bias"},
    "lightweight_conv": {"w"},
    "lssl": {"a", "b", "log_step"},
    "mamba": {"a_log", "d"},
    "mamba2": {"a_log", "step_bias", "d"},
    "memorizing": {"gate"},
    "mlstm": _VECTORS,
    "modal_extractor": {"log_rate", "frequency"},
    "rfa": {"sigma"},
    "rglru": {"rate"},
    "rwkv": {*RWKV},
    "rwkv7": {*RWKV7, *(name for name in ORTHOGONAL["rwkv7"] if name.startswith("thin"))},
    "s4": _S4,
    "s4d": {"log_step", "log_rate", "frequency"},
    "s5": {"log_step", "eigenvalues", "b"},
    "s6": {"a_log", "d"},
    "slstm": {"gain", "conv.bias", "w_h.weight", "w_h.bias"},
    "spade": {f"far.{name}" for name in _S4},
    "ssm": {"a", "log_step"},
}
"""by mixer: all that its authors' program keeps from weight decay, or of whose values 0 is not the neutral one"""
