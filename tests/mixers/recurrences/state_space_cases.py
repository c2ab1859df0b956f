"""Which state-space mixer or long convolution is compared with which recurrence; `cases` includes these.

A mixer keeps complex numbers as pairs, and rates and steps as logarithms; here they become the paper's letters.
"""

from collections.abc import Callable

import numpy as np

from tests.mixers.recurrences.activations import complexes
from tests.mixers.recurrences.arithmetic import Array, Weights
from tests.mixers.recurrences.gss import gss
from tests.mixers.recurrences.guards import GUARDS
from tests.mixers.recurrences.hyena import authors_rates, hyena, implicit
from tests.mixers.recurrences.lssl import lssl
from tests.mixers.recurrences.mamba import mamba, parted
from tests.mixers.recurrences.s4 import s4
from tests.mixers.recurrences.s4d import s4d
from tests.mixers.recurrences.s5 import s5
from tests.mixers.recurrences.s6 import s6
from tests.mixers.recurrences.ssm import system

Recurrence = Callable[[Array, Weights], Array]
HIDDEN = 2
METHODS = ("bilinear", "zoh", "euler")

SELECTIVE = {
    **{"a_log": "a", "d": "D", "x_proj.weight": "w_x"},
    **{"dt_proj.weight": "w_delta", "dt_proj.bias": "b_delta"},
}
NAMES: dict[str, dict[str, str]] = {
    "hyena": {
        **{"in_proj.weight": "w_in", "short": "taps", "bias": "biases", "out_proj.weight": "w_out"},
        **{"frequency": "omega", "filter_in.weight": "first", "filter_in.bias": "first_b", "filter_out.weight": "last"},
        **{f"filter_hidden.{i}.weight": f"hidden_{i}" for i in range(HIDDEN)},
        **{f"filter_hidden.{i}.bias": f"hidden_{i}_b" for i in range(HIDDEN)},
    },
    "gss": {
        **{"log_rate": "a", "log_frequency": "b", "c": "C", "d": "D", "norm.weight": "gain", "norm.bias": "shift"},
        **{"w_u.weight": "w_u", "w_v.weight": "w_v", "w_y.weight": "w_y", "w_out.weight": "w_o"},
    },
    "lssl": {
        **{"a": "A", "b": "B", "log_step": "log_delta", "c": "C", "d": "D"},
        **{"w_out.weight": "w_out", "w_out.bias": "b_out"},
    },
    "s4": {
        **{"log_step": "log_delta", "eigenvalues": "L", "p": "P", "b": "B", "c": "C", "d": "D"},
        **{"w_out.weight": "w_out", "w_out.bias": "b_out"},
    },
    "s4d": {
        **{"log_step": "log_delta", "log_rate": "a", "frequency": "b", "c": "C", "d": "D"},
        **{"w_out.weight": "w_out", "w_out.bias": "b_out"},
    },
    "s6": SELECTIVE,
    "mamba": {
        **{**SELECTIVE, "conv_weight": "taps", "conv_bias": "b_taps"},
        **{"in_proj.weight": "w_in", "out_proj.weight": "w_out"},
    },
    "ssm": {"a": "A", "log_step": "log_delta", "b.weight": "B", "c.weight": "C", "d.weight": "D"},
    "s5": {"log_step": "log_delta", "eigenvalues": "L", "b": "B", "c": "C", "d": "D", "w_gate.weight": "w_gate"},
}


CEILING = -1e-4
"""of the real parts of Λ in S4 and S5, so that no state grows: from the authors' code, which the papers have not"""


def of_pairs(w: Weights, *names: str) -> Weights:
    return {**w, **{name: complexes(w[name]) for name in names}}


def clipped(w: Weights) -> Weights:
    return {**w, "L": np.minimum(w["L"].real, CEILING) + 1j * w["L"].imag}


def ssm_of(rule: str) -> Recurrence:
    def recurrence(x: Array, w: Weights) -> Array:
        turned = {name: w[name].T for name in "BCD"}
        return system(x, {**w, **turned, "delta": np.exp(w["log_delta"][0])}, rule)

    return recurrence


def of_lssl(x: Array, w: Weights) -> Array:
    return lssl(x, {**w, "delta": np.exp(w["log_delta"])})


def of_s4(x: Array, w: Weights) -> Array:
    return s4(x, clipped(of_pairs({**w, "delta": np.exp(w["log_delta"])}, "L", "P", "B", "C")))


def of_s6(x: Array, w: Weights) -> Array:
    return s6(x, {**w, **parted(w["w_x"], w["a"].shape[1])})


def of_gss(x: Array, w: Weights) -> Array:
    return gss(x, of_pairs(w, "C"), **GUARDS["gss"])


def s4d_of(rule: str) -> Recurrence:
    return lambda x, w: s4d(x, of_pairs(w, "C"), rule)


def s5_of(scale: float = 1.0) -> Recurrence:
    def recurrence(x: Array, w: Weights) -> Array:
        result = clipped(of_pairs(w, "L", "B", "C"))
        return s5(x, {**result, "log_delta": w["log_delta"] + np.log(scale)})

    return recurrence


def hyena_of(context: int, *, slow: float = 1.5, fast: float = 0.3, floor: float = 0.05) -> Recurrence:
    def recurrence(x: Array, w: Weights) -> Array:
        width = x.shape[1]
        layers = [
            (w[name], w.get(f"{name}_b", np.zeros(w[name].shape[1])))
            for name in ("first", "hidden_0", "hidden_1", "last")
            if name in w
        ]
        filters = implicit(context, width, layers, w["omega"], authors_rates(width, slow, fast), floor)
        # The mixer's parts begin with v, Algorithm 1's end with it.
        ordered = {name: np.roll(w[name], -width, 1) for name in ("w_in", "taps")}
        return hyena(x, {**w, **ordered}, filters)

    return recurrence


CASES: dict[str, tuple[dict[str, object], Recurrence]] = {
    "gss": ({"kind": "gss", "state_dim": 6}, of_gss),
    "gss, 3 channels": ({"kind": "gss", "state_dim": 5, "channels": 3, "width": 7}, of_gss),
    **{f"ssm, {rule}": ({"kind": "ssm", "state_dim": 5, "method": rule}, ssm_of(rule)) for rule in METHODS},
    "lssl": ({"kind": "lssl", "state_dim": 6}, of_lssl),
    "lssl, not learned": ({"kind": "lssl", "state_dim": 6, "learn": False}, of_lssl),
    "lssl, 3 outputs": ({"kind": "lssl", "state_dim": 4, "outputs": 3}, of_lssl),
    "s4": ({"kind": "s4", "state_dim": 8}, of_s4),
    "s4, 2 states": ({"kind": "s4", "state_dim": 2}, of_s4),
    "s4d": ({"kind": "s4d", "state_dim": 8}, s4d_of("zoh")),
    "s4d, bilinear": ({"kind": "s4d", "state_dim": 6, "method": "bilinear"}, s4d_of("bilinear")),
    "s5": ({"kind": "s5", "state_dim": 10}, s5_of()),
    "s5, steps of 3": ({"kind": "s5", "state_dim": 8, "blocks": 2, "step_scale": 3.0}, s5_of(3.0)),
    "s6": ({"kind": "s6", "state_dim": 4}, of_s6),
    "s6, steps of rank 3": ({"kind": "s6", "state_dim": 3, "dt_rank": 3}, of_s6),
    "mamba": ({"kind": "mamba", "state_dim": 4}, mamba),
    "mamba, wider": ({"kind": "mamba", "state_dim": 3, "expand": 3, "kernel": 2, "dt_rank": 2}, mamba),
    "hyena": ({"kind": "hyena", "filter_dim": 5, "features": 3}, hyena_of(32)),
    "hyena, order 1": ({"kind": "hyena", "order": 1, "filter_dim": 4, "features": 1, "filter_depth": 2}, hyena_of(32)),
    "hyena, order 3": (
        {
            **{"kind": "hyena", "order": 3, "short": 2, "filter_dim": 4, "features": 2, "filter_depth": 3},
            **{"slow_decay": 1.0, "fast_decay": 0.2, "floor": 0.1},
        },
        hyena_of(32, slow=1.0, fast=0.2, floor=0.1),
    ),
}
