"""Calls of C for one token of a whole mixer, by the mixers' own verb."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import nn

from seqloom.core.state import State
from seqloom.mixers.aft.rwkv import RWKV
from seqloom.mixers.linear.delta import DeltaConfig
from seqloom.mixers.linear.gated_delta import GatedDeltaConfig
from seqloom.mixers.linear.gla import GLAConfig
from seqloom.mixers.linear.hgrn2 import HGRN2Config
from seqloom.mixers.linear.kda import KDAConfig
from seqloom.mixers.linear.rwkv7 import RWKV7Config
from seqloom.mixers.recurrent.mlstm import MLSTMConfig
from seqloom.mixers.recurrent.rglru import RGLRUConfig
from seqloom.mixers.state_space.mamba import Mamba, MambaConfig
from seqloom.mixers.state_space.mamba2 import Mamba2Config
from seqloom.models.channel_mix import ChannelMix
from tests.ops.native_forms.form import Draw, Form, Outputs

OWN = {**dict.fromkeys(("gla", "hgrn2", "mamba2", "mlstm"), "linear_decay"), "rglru": "gated_decay"}
"""the op whose native code a mixer is part of, where that is not the delta rule"""
MIXERS: tuple[tuple[int, Any], ...] = (
    (4, GatedDeltaConfig(heads=1, kernel=1)),
    (9, GatedDeltaConfig(heads=1, value_heads=3, key_width=5, value_width=9, kernel=2, negative=True, norm_eps=0.1)),
    (34, GatedDeltaConfig(heads=2, key_width=17, value_width=33)),
    (4, KDAConfig(heads=2, kernel=2)),
    (9, KDAConfig(heads=3, rank=2, gate_bias=False)),
    (34, KDAConfig(heads=2, rank=9, kernel=1)),
    (4, DeltaConfig(heads=1)),
    (34, DeltaConfig(heads=2, kernel=2, negative=True)),
    (4, GLAConfig(heads=2, rank=1)),
    (36, GLAConfig(heads=2, rank=3, tau=1.0)),
    (4, HGRN2Config(heads=1)),
    (33, HGRN2Config(heads=3)),
    (34, HGRN2Config(heads=2)),
    (9, Mamba2Config(state_dim=3, head_width=3, groups=2, kernel=2, norm_eps=0.1)),
    (34, Mamba2Config(state_dim=17, head_width=17)),
    (5, Mamba2Config(state_dim=1, expand=1, head_width=1, groups=5, kernel=1)),
    (9, MLSTMConfig(heads=3, block=3, kernel=2, forget="exp")),
    (34, MLSTMConfig(heads=2, block=4)),
    (2, MLSTMConfig(heads=1, expand=1, block=1, kernel=1)),
    (4, RGLRUConfig(heads=2)),
    (9, RGLRUConfig(heads=3, width=33, kernel=2)),
    (17, RGLRUConfig(heads=1, width=17, kernel=1)),
    (4, RWKV7Config(heads=2)),
    (9, RWKV7Config(heads=3)),
    (34, RWKV7Config(heads=2)),
)


def forms() -> Iterator[Form]:
    """Each of them, in a first layer and in a later one, where the first hands on its values."""
    for number, (dim, config) in enumerate(MIXERS):
        for layer in (0, 1):
            for began in (False, True):
                name = f"a token of {config.kind} {dim} {number}, layer {layer}{', after others' if began else ''}"
                run = partial(_mixer, config, dim, layer, began)
                yield Form(name, OWN.get(config.kind, "delta_rule"), run, ((1,), (3,)), learns=False)
    for dim, sizes in ((4, (1, 2, 1)), (9, (3, 4, 2)), (17, (17, 1, 3))):
        run = partial(_mamba, dim, *sizes)
        yield Form(f"a token of mamba {dim}", "selective_scan", run, ((1,), (3,)), portable="sequential", learns=False)
    for dim, width in ((4, 9), (9, 4), (17, 33)):
        for kind in (RWKV, ChannelMix):
            run = partial(_rwkv, kind, dim, width)
            name = f"a token of {kind.__name__} {dim}"
            yield Form(name, "wkv_average", run, ((1,), (3,)), portable="sequential", learns=False)


def _drawn(module: Any, draw: Draw) -> Any:
    """The module with all parameters drawn, in their dtype."""
    module = module.to(draw(1).dtype).requires_grad_(False)
    for parameter in module.parameters():
        parameter.copy_(draw(*parameter.shape) / 2)
    return module


def _mixer(config: Any, dim: int, layer: int, began: bool, draw: Draw, B: int) -> Outputs:
    mixer = _drawn(config.build(dim, 8, layer=layer, depth=2), draw)
    x, first = draw(B, dim), {"values": draw(B, dim)} if config.kind == "rwkv7" and layer else {}
    entries = {name: draw(B, *entry.shape) / 2 for name, entry in mixer.state_spec.items()}
    state = State({**entries, "length": torch.full((B,), 9 * began)}, 9 * began, True)
    if not began:
        state = mixer.start(B)
    y, after = mixer.step_cross_layer(x, state, True, first)[:2] if first else mixer.step(x, state, reuse=True)
    return y, *(after[name] for name in entries)


def _mamba(dim: int, states: int, kernel: int, rank: int, draw: Draw, B: int) -> Outputs:
    mixer = _drawn(Mamba(dim, MambaConfig(state_dim=states, kernel=kernel, dt_rank=rank)), draw)
    state = {"window": draw(B, kernel - 1, 2 * dim), "h": draw(B, 2 * dim, states), "length": torch.full((B,), 9)}
    y, after = mixer.step(draw(B, dim), State(state, 9, True), reuse=True)
    return y, after["window"], after["h"]


def _rwkv(kind: type[nn.Module], dim: int, width: int, draw: Draw, B: int) -> Outputs:
    module = _drawn(kind(dim) if kind is RWKV else kind(dim, width), draw)
    state = {"last": draw(B, dim), "length": torch.full((B,), 9)}
    if kind is RWKV:
        state["sums"] = torch.stack([draw(B, dim), draw(B, dim).exp(), draw(B, dim)], 1)
    y, after = module.step(draw(B, dim), State(state, 9, True), reuse=True)
    if kind is not RWKV:
        return y, after["last"]
    numerator, denominator, scale = after["sums"].unbind(1)
    return y, after["last"], numerator / denominator, scale + denominator.log()
