"""Which mixer is compared with which recurrence: settings, names, and constants that a mixer adds to its paper.

The recurrences know the mixers by the names of their parameters and buffers alone: `NAMES` translates.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from tests.mixers.recurrences import state_space_cases
from tests.mixers.recurrences.aft import aft_conv, aft_full, aft_local, aft_simple
from tests.mixers.recurrences.arithmetic import Array, Weights
from tests.mixers.recurrences.differential import differential
from tests.mixers.recurrences.fox import fox
from tests.mixers.recurrences.gated_delta import delta, deltaproduct, gated_delta, gated_delta2, kda
from tests.mixers.recurrences.gla import gla
from tests.mixers.recurrences.guards import GUARDS
from tests.mixers.recurrences.hgrn2 import hgrn2
from tests.mixers.recurrences.linear import linear
from tests.mixers.recurrences.mamba2 import mamba2
from tests.mixers.recurrences.mla import mla
from tests.mixers.recurrences.mlstm import mlstm
from tests.mixers.recurrences.performer import hyperbolic, performer, rectified
from tests.mixers.recurrences.retention import retention
from tests.mixers.recurrences.rfa import rfa
from tests.mixers.recurrences.rglru import rglru
from tests.mixers.recurrences.rwkv import time_mixing
from tests.mixers.recurrences.rwkv7 import rwkv7
from tests.mixers.recurrences.slstm import slstm

D, CONTEXT = 8, 32
PROJECTIONS = {f"w_{name}.weight": f"w_{name}" for name in ("q", "k", "v", "out")}
NAMES: dict[str, dict[str, str]] = {
    "linear": PROJECTIONS,
    "retention": {**PROJECTIONS, "w_g.weight": "w_g", "w_o.weight": "w_out"},
    "gla": {
        **{**PROJECTIONS, "w_g.weight": "w_r", "w_o.weight": "w_out", "norm.weight": "gain"},
        **{"w_1.weight": "w_a1", "w_2.weight": "w_a2", "w_2.bias": "b_a"},
    },
    "hgrn2": {
        **{f"w_{name}.weight": f"w_{name}" for name in "qfi"},
        **{"w_o.weight": "w_out", "norm.weight": "gain", "shared.table": "table"},
    },
    "gated_delta": {
        **{f"w_{name}.weight": f"w_{name}" for name in ("qkv", "a", "b", "g")},
        **{"w_a.bias": "b_a", "a_log": "a_log", "conv.weight": "taps", "norm.weight": "gain", "w_o.weight": "w_out"},
    },
    "mamba2": {
        **{"w_in.weight": "w_in", "w_out.weight": "w_out", "conv.weight": "taps", "conv.bias": "b_taps"},
        **{"a_log": "a_log", "step_bias": "b_dt", "d": "d", "norm.weight": "gain"},
    },
    "rwkv7": {
        **{f"w_{name}.weight": f"w_{name}" for name in "rkv"},
        **{"w_o.weight": "w_out", "mu": "mu", "erased": "xi", "replaced": "alpha", "bonus": "rho"},
        **{f"thin_{end}.{name}.weight": f"{name}_{end}" for end in ("in", "out") for name in ("decay", "rate", "gate")},
        **{"thin_out.decay.bias": "w_0", "thin_out.rate.bias": "a_0", "gain": "gain", "shift": "shift"},
        **{"thin_in.value.weight": "value_in", "thin_out.value.weight": "value_out", "thin_out.value.bias": "v_0"},
    },
    "mlstm": {
        **{"w_up.weight": "w_up", "w_down.weight": "w_out", "conv.weight": "taps", "conv.bias": "b_taps"},
        **{"qkv": "qkv", "w_gates.weight": "w_gates", "w_gates.bias": "b_gates", "gain": "gain", "skip": "skip"},
    },
    "rglru": {
        **{f"w_{name}.{part}": f"{of}_{name}" for name in "xy" for part, of in (("weight", "w"), ("bias", "b"))},
        **{"w_o.weight": "w_out", "w_o.bias": "b_out", "conv.weight": "taps", "conv.bias": "b_taps"},
        **{"gates.weight": "gates", "gates.bias": "b_gates", "rate": "rate"},
    },
    "differential": {
        **{f"w_{name}.weight": f"w_{name}" for name in ("q", "k", "v", "share")},
        **{"w_o.weight": "w_out", "norm.weight": "gain", "vectors": "vectors"},
    },
    "fox": {"w_qkv.weight": "w_qkv", "w_f.weight": "w_f", "w_f.bias": "b_f", "w_out.weight": "w_out"},
    "mla": {
        **{f"w_{name}.weight": f"w_{name}" for name in ("c", "r", "d", "q", "kv")},
        **{"w_o.weight": "w_out", "norm.weight": "gain", "norm_d.weight": "gain_d"},
    },
    "slstm": {
        **{"conv.weight": "taps", "conv.bias": "b_taps", "w_if.weight": "w_if", "w_zo.weight": "w_zo"},
        **{"w_h.weight": "w_h", "w_h.bias": "b_h", "gain": "gain"},
    },
    "delta": {
        **{f"w_{name}.weight": f"w_{name}" for name in ("qkv", "b")},
        **{"conv.weight": "taps", "norm.weight": "gain", "w_o.weight": "w_out"},
    },
    "kda": {
        **{f"w_{name}.weight": f"w_{name}" for name in ("qkv", "b")},
        **{"conv.weight": "taps", "norm.weight": "gain", "w_o.weight": "w_out", "a_log": "a_log"},
        **{f"{name}_{end}.weight": f"{name}_{end}" for name in ("decay", "gate") for end in ("in", "out")},
        **{"decay_out.bias": "b_a", "gate_out.bias": "b_g"},
    },
    "deltaproduct": {
        **{f"w_{name}.weight": f"w_{name}" for name in ("qkv", "a", "b", "g")},
        **{"w_a.bias": "b_a", "a_log": "a_log", "conv.weight": "taps", "norm.weight": "gain", "w_o.weight": "w_out"},
    },
    "gated_delta2": {
        **{f"w_{name}.weight": f"w_{name}" for name in ("qkv", "b", "w")},
        **{"conv.weight": "taps", "norm.weight": "gain", "w_o.weight": "w_out", "a_log": "a_log"},
        **{f"{name}_{end}.weight": f"{name}_{end}" for name in ("decay", "gate") for end in ("in", "out")},
        **{"decay_out.bias": "b_a", "gate_out.bias": "b_g"},
    },
    "performer": {**PROJECTIONS, "directions": "omega"},
    "rfa": {
        **PROJECTIONS,
        **{"directions": "directions", "sigma": "sigma", "w_gate.weight": "gate_w", "w_gate.bias": "gate_b"},
    },
    "aft_simple": PROJECTIONS,
    "aft_full": {**PROJECTIONS, "w": "biases"},
    "aft_local": {**PROJECTIONS, "w": "biases"},
    "aft_conv": {**PROJECTIONS, "w": "lags", "gain": "gain", "shift": "shift"},
    "rwkv": {
        **{**PROJECTIONS, "w_r.weight": "w_r", "log_rate": "log_decay", "bonus": "bonus"},
        **{f"mu_{name}": f"mu_{name}" for name in "rkv"},
    },
    **state_space_cases.NAMES,
}
"""the paper's letter for each entry of a mixer's state_dict; what is not here takes no part in the equation"""

Recurrence = Callable[[Array, Weights], Array]


def linear_of(heads: int) -> Recurrence:
    return lambda x, w: linear(x, w, heads, **GUARDS["linear"])


def retention_of(heads: int) -> Recurrence:
    return lambda x, w: retention(x, w, heads, **GUARDS["retention"])


def gla_of(heads: int, tau: float = 16.0) -> Recurrence:
    return lambda x, w: gla(x, w, heads, tau, eps=1e-5)


def gated_delta_of(heads: int, value_heads: int, strongest: float = 1.0) -> Recurrence:
    return lambda x, w: gated_delta(x, w, heads, value_heads, strongest, eps=1e-5)


def mamba2_of(heads: int, groups: int, states: int) -> Recurrence:
    return lambda x, w: mamba2(x, w, heads, groups, states, eps=1e-5)


def performer_of(heads: int, **features: Callable[[Array, Array], Array]) -> Recurrence:
    return lambda x, w: performer(x, w, heads, **features)


def rfa_of(heads: int) -> Recurrence:
    return lambda x, w: rfa(x, w, heads, **GUARDS["rfa"])


def local_of(window: int) -> Recurrence:
    return lambda x, w: aft_local(x, w, window)


def by_lag(x: Array, w: Weights) -> Array:
    """AFT-local with its biases at [t, lag]."""
    matrix = np.zeros((CONTEXT, CONTEXT))
    for t in range(CONTEXT):
        for lag in range(min(t + 1, w["biases"].shape[1])):
            matrix[t, t - lag] = w["biases"][t, lag]
    return aft_local(x, {**w, "biases": matrix}, w["biases"].shape[1])


def conv_of(heads: int) -> Recurrence:
    return lambda x, w: aft_conv(x, {**w, "taps": w["lags"].T}, heads, **GUARDS["aft_conv"])


def rwkv(x: Array, w: Weights) -> Array:
    return time_mixing(x, {**w, "decay": np.exp(w["log_decay"])})


THREE_STEPS = {"steps": 3, "decay": False, "gate": False, "negative": False}
CASES: dict[str, tuple[dict, Recurrence]] = {
    "linear, 1 head": ({"kind": "linear", "heads": 1}, linear_of(1)),
    "linear, 2 heads": ({"kind": "linear", "heads": 2}, linear_of(2)),
    "linear, 8 heads": ({"kind": "linear", "heads": 8}, linear_of(8)),
    "retention, 1 head": ({"kind": "retention", "heads": 1}, retention_of(1)),
    "retention, 2 heads": ({"kind": "retention", "heads": 2}, retention_of(2)),
    "gla, 1 head": ({"kind": "gla", "heads": 1}, gla_of(1)),
    "gla, 2 heads": ({"kind": "gla", "heads": 2, "rank": 3, "tau": 1.0}, gla_of(2, 1.0)),
    "hgrn2": ({"kind": "hgrn2", "heads": 2}, lambda x, w: hgrn2(x, w, 2, np.zeros(D))),
    "hgrn2, 1 head": ({"kind": "hgrn2", "heads": 1}, lambda x, w: hgrn2(x, w, 1, np.zeros(D))),
    "gated_delta": ({"kind": "gated_delta", "heads": 2}, gated_delta_of(2, 2)),
    "gated_delta, shared keys": (
        {"kind": "gated_delta", "heads": 1, "value_heads": 2, "key_width": 3, "value_width": 5, "negative": True},
        gated_delta_of(1, 2, strongest=2.0),
    ),
    "mamba2": ({"kind": "mamba2", "state_dim": 3, "head_width": 4}, mamba2_of(4, 1, 3)),
    "mamba2, 2 groups": ({"kind": "mamba2", "state_dim": 5, "head_width": 2, "groups": 2}, mamba2_of(8, 2, 5)),
    "rwkv7": ({"kind": "rwkv7", "heads": 2}, lambda x, w: rwkv7(x, w, 2)),
    "mlstm": ({"kind": "mlstm", "heads": 2, "block": 2}, lambda x, w: mlstm(x, w, 2, "sigmoid")),
    "mlstm, forget exp": (
        {"kind": "mlstm", "heads": 1, "forget": "exp"},
        lambda x, w: mlstm(x, w, 1, "exp"),
    ),
    "rglru": ({"kind": "rglru", "heads": 2}, rglru),
    "rglru, wider": ({"kind": "rglru", "heads": 4, "width": 12, "kernel": 2}, rglru),
    "slstm": ({"kind": "slstm", "heads": 2}, slstm),
    "slstm, 1 head": ({"kind": "slstm", "heads": 1, "kernel": 2}, slstm),
    "differential": ({"kind": "differential", "heads": 2}, lambda x, w: differential(x, w, 2, 1)),
    "differential, version 2": (
        {"kind": "differential", "heads": 2, "version": 2},
        lambda x, w: differential(x, w, 2, 2),
    ),
    "fox": ({"kind": "fox", "heads": 2}, lambda x, w: fox(x, w, 2)),
    "fox, 8 heads": ({"kind": "fox", "heads": 8}, lambda x, w: fox(x, w, 8)),
    "mla": ({"kind": "mla", "heads": 2, "rank": 3, "base": 10.0}, lambda x, w: mla(x, w, 2, 10.0)),
    "mla, small queries": (
        {"kind": "mla", "heads": 2, "query_rank": 5, "rotary_width": 4},
        lambda x, w: mla(x, w, 2, 1e4),
    ),
    "mla, not turned": (
        {"kind": "mla", "heads": 4, "rotary": False, "rotary_width": 1},
        lambda x, w: mla(x, w, 4, None),
    ),
    "delta": ({"kind": "delta", "heads": 2}, lambda x, w: delta(x, w, 2, strongest=1.0)),
    "delta, negative": ({"kind": "delta", "heads": 1, "negative": True}, lambda x, w: delta(x, w, 1, strongest=2.0)),
    "kda": ({"kind": "kda", "heads": 2, "rank": 3}, lambda x, w: kda(x, w, 2)),
    "deltaproduct": ({"kind": "deltaproduct", "heads": 2}, lambda x, w: deltaproduct(x, w, 2, 2, 2, 2.0, 3)),
    "deltaproduct, 3 steps, shared keys, no decay": (
        {**{"kind": "deltaproduct", "heads": 1, "value_heads": 2, "key_width": 4, "value_width": 3}, **THREE_STEPS},
        lambda x, w: deltaproduct(x, w, 1, 2, 3, 1.0, 4),
    ),
    "gated_delta2": ({"kind": "gated_delta2", "heads": 2, "rank": 3}, lambda x, w: gated_delta2(x, w, 2, 1.0)),
    "gated_delta2, negative": (
        {"kind": "gated_delta2", "heads": 1, "gate_bias": False, "negative": True},
        lambda x, w: gated_delta2(x, w, 1, 2.0),
    ),
    "retention, 4 heads": ({"kind": "retention", "heads": 4}, retention_of(4)),
    "performer": ({"kind": "performer", "heads": 2}, performer_of(2)),
    "performer, 8 heads": ({"kind": "performer", "heads": 8, "features": 3}, performer_of(8)),
    "performer, hyperbolic": (
        {"kind": "performer", "heads": 2, "features": 5, "kernel": "hyperbolic"},
        performer_of(2, features=hyperbolic),
    ),
    "performer, relu": (
        {"kind": "performer", "heads": 2, "features": 5, "kernel": "relu"},
        performer_of(2, features=partial(rectified, **GUARDS["relu"])),
    ),
    "rfa": ({"kind": "rfa", "heads": 2}, rfa_of(2)),
    "rfa without a gate": ({"kind": "rfa", "heads": 2, "gate": False}, rfa_of(2)),
    "rfa, 8 heads": ({"kind": "rfa", "heads": 8, "features": 3}, rfa_of(8)),
    "aft_simple": ({"kind": "aft_simple"}, aft_simple),
    "aft_full": ({"kind": "aft_full", "bias_dim": 0}, aft_full),
    "aft_full of factors": ({"kind": "aft_full", "bias_dim": 3}, aft_full),
    "aft_local": ({"kind": "aft_local", "window": 3, "bias_dim": 0}, by_lag),
    "aft_local of factors": ({"kind": "aft_local", "window": 2, "bias_dim": 3}, local_of(2)),
    "aft_conv, 1 head": ({"kind": "aft_conv", "heads": 1, "window": 1}, conv_of(1)),
    "aft_conv, 2 heads": ({"kind": "aft_conv", "heads": 2, "window": 3}, conv_of(2)),
    "aft_conv, 8 heads": ({"kind": "aft_conv", "heads": 8, "window": 4}, conv_of(8)),
    "rwkv": ({"kind": "rwkv"}, rwkv),
    **state_space_cases.CASES,
}


def mixer_of(name: str) -> Mixer:
    """The mixer of a case with drawn parameters; buffers stay what they are.

    A dense matrix that a state is multiplied by is drawn around -3/2 I: a state that grows would hide in its rounding
    what the others do.
    """
    torch.manual_seed(7)
    mixer = mixer_config(CASES[name][0]).build(dim=D, context=CONTEXT).double()
    with torch.no_grad():
        for key, parameter in mixer.named_parameters():
            parameter.copy_(torch.randn(parameter.shape, dtype=torch.float64) * 0.5)
            if key == "a":
                parameter.sub_(1.5 * torch.eye(len(parameter)))
    return mixer


def papers(mixer: Mixer, kind: str) -> Weights:
    """A mixer's state_dict in the paper's letters: torch's linear layers hold W transposed."""
    result = {}
    for name, tensor in mixer.state_dict().items():
        if name in NAMES[kind]:
            array = tensor.detach().numpy()
            result[NAMES[kind][name]] = array.T if name.endswith(".weight") else array
    assert {name for name, _ in mixer.named_parameters()} <= set(NAMES[kind])
    return result
