"""Records what flash-linear-attention's own models compute, of weights that are drawn by the names of the tensors.

    python -m tests.models.foreign.record_fla CHECKOUT        a checkout of github.com/fla-org/flash-linear-attention

Writes fla.json: per model its config.json, the shapes of its tensors, and logits in float64. Its kernels need a GPU and
round to float32, so that each is replaced here by its equation, in plain torch; what is recorded is the models: their
names, their settings, and what they compute in which order.
"""

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.models.foreign.drawn import IDS, draw

OUT = Path(__file__).with_name("fla.json")
COMMON = {
    **{"hidden_size": 24, "num_hidden_layers": 3, "vocab_size": 13, "intermediate_size": 20},
    **{"fuse_norm": False, "fuse_swiglu": False, "fuse_cross_entropy": False, "norm_eps": 1e-3},
}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "gated_deltanet": ("GatedDeltaNet", {"num_heads": 2, "head_dim": 5, "expand_v": 2.0, "allow_neg_eigval": True}),
    "gated_deltanet, grouped": ("GatedDeltaNet", {"num_heads": 2, "num_v_heads": 4, "head_dim": 4, "expand_v": 1.5}),
    "gated_deltanet, attention in the second layer": (
        "GatedDeltaNet",
        {"num_heads": 2, "head_dim": 5}
        | {"attn": {"layers": [1], "num_heads": 4, "num_kv_heads": 2, "qkv_bias": True, "window_size": 4}},
    ),
    "gla": ("GLA", {"num_heads": 2}),
    "delta_net": ("DeltaNet", {"num_heads": 3, "conv_size": 3}),
    "kda": ("KDA", {"num_heads": 3, "head_dim": 8}),
    "retnet": ("RetNet", {"num_heads": 3}),
    "hgrn2": ("HGRN2", {"expand_ratio": 8}),
    "rwkv7": (
        "RWKV7",
        {"head_dim": 8, "decay_low_rank_dim": 4, "gate_low_rank_dim": 5, "a_low_rank_dim": 6, "v_low_rank_dim": 3}
        | {"norm_eps": 1e-5},
    ),
    "mamba2": ("Mamba2", {"head_dim": 12, "state_size": 5, "chunk_size": 4, "intermediate_size": None}),
}


def decay_loop(q: Tensor, k: Tensor, v: Tensor, g: Tensor, scale: float | None = None) -> Tensor:
    """q_t S_t of S_t = diag(e^g) S_{t-1} + k v, over (B, T, H, ·)."""
    state = q.new_zeros(*q.shape[:1], *k.shape[2:], v.shape[-1])
    rows = []
    for t in range(q.shape[1]):
        state = state * g[:, t, ..., None].exp() + k[:, t, ..., None] * v[:, t, ..., None, :]
        rows.append(torch.einsum("bhk,bhkv->bhv", q[:, t] * (scale or q.shape[-1] ** -0.5), state))
    return torch.stack(rows, 1)


def delta_loop(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> Tensor:
    """The delta rule with decay g (B, T, H, K or 1), of keys and queries that are normed here."""
    q, k = (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
    repeats = v.shape[2] // q.shape[2]
    q, k = (x.repeat_interleave(repeats, 2) for x in (q, k))
    state = q.new_zeros(q.shape[0], q.shape[2], q.shape[-1], v.shape[-1])
    rows = []
    for t in range(q.shape[1]):
        state = state * g[:, t, ..., None].exp()
        error = v[:, t] - torch.einsum("bhk,bhkv->bhv", k[:, t], state)
        state = state + (beta[:, t, :, None] * k[:, t])[..., None] * error[..., None, :]
        rows.append(torch.einsum("bhk,bhkv->bhv", q[:, t] * q.shape[-1] ** -0.5, state))
    return torch.stack(rows, 1)


def gated_delta_rule(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, A_log: Tensor, dt_bias: Tensor, allow_neg_eigval: bool,
    **rest: Any,
) -> tuple[Tensor, None]:  # fmt: skip
    log_decay = -A_log.exp() * F.softplus(g + dt_bias)
    return delta_loop(q, k, v, log_decay[..., None], beta.sigmoid() * (2 if allow_neg_eigval else 1)), None


def kda_rule(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, A_log: Tensor, dt_bias: Tensor, **rest: Any
) -> tuple[Tensor, None]:
    return delta_loop(q, k, v, -A_log.exp()[:, None] * F.softplus(g + dt_bias.view(g.shape[-2:])), beta.sigmoid()), None


def delta_rule(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, **rest: Any) -> tuple[Tensor, None]:
    return delta_loop(q, k, v, torch.zeros_like(beta)[..., None], beta), None


def gla_rule(q: Tensor, k: Tensor, v: Tensor, gk: Tensor, **rest: Any) -> tuple[Tensor, None]:
    return decay_loop(q, k, v, gk), None


def retention_rule(q: Tensor, k: Tensor, v: Tensor, **rest: Any) -> tuple[Tensor, None]:
    heads = torch.arange(q.shape[2], dtype=q.dtype)
    g = torch.log1p(-(2.0 ** (-5 - heads)))
    return decay_loop(q, k, v, g[:, None].expand(*q.shape[:3], 1)), None


def rwkv7_rule(r: Tensor, w: Tensor, k: Tensor, v: Tensor, kk: Tensor, a: Tensor, **rest: Any) -> tuple[Tensor, None]:
    state = r.new_zeros(r.shape[0], r.shape[2], r.shape[-1], v.shape[-1])
    rows = []
    for t in range(r.shape[1]):
        erased = torch.einsum("bhk,bhkv->bhv", kk[:, t], state)
        state = state * w[:, t, ..., None].exp() - (kk * a)[:, t, ..., None] * erased[..., None, :]
        state = state + k[:, t, ..., None] * v[:, t, ..., None, :]
        rows.append(torch.einsum("bhk,bhkv->bhv", r[:, t], state))
    return torch.stack(rows, 1), None


def convolve(self: Any, x: Tensor, **rest: Any) -> tuple[Tensor, None]:
    y = F.conv1d(F.pad(x.mT, (self.kernel_size[0] - 1, 0)), self.weight, self.bias, groups=x.shape[-1]).mT
    return (F.silu(y) if self.activation else y), None


def convolve_fused(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str, **rest: Any) -> tuple[Tensor, None]:
    y = F.conv1d(F.pad(x.mT, (weight.shape[-1] - 1, 0)), weight[:, None], bias, groups=x.shape[-1]).mT
    return (F.silu(y) if activation else y), None


def rms(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return F.rms_norm(x, weight.shape, weight, eps)


def rotate(self: Any, q: Tensor, k: Tensor, **rest: Any) -> tuple[Tensor, Tensor]:
    half = q.shape[-1] // 2
    theta = 10000.0 ** (-torch.arange(half, dtype=q.dtype) / half)
    angle = (torch.arange(q.shape[1], dtype=q.dtype)[:, None] * theta)[:, None]
    cos, sin = angle.cos(), angle.sin()
    turned = [
        torch.cat([x[..., :half] * cos - x[..., half:] * sin, x[..., half:] * cos + x[..., :half] * sin], -1)
        for x in (q, k)
    ]
    return turned[0], turned[1]


def shift(x: Tensor, *rest: Any, **others: Any) -> tuple[Tensor, None]:
    return F.pad(x, (0, 0, 1, -1)) - x, None


def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool, window_size: tuple[int, int]) -> Tensor:
    k, v = (x.repeat_interleave(q.shape[2] // k.shape[2], 2) for x in (k, v))
    distance = torch.arange(q.shape[1])[:, None] - torch.arange(q.shape[1])
    seen = (distance >= 0) & ((distance <= window_size[0]) if window_size[0] >= 0 else True)
    scores = torch.einsum("bthd,bshd->bhts", q, k) * q.shape[-1] ** -0.5
    return torch.einsum("bhts,bshd->bthd", scores.masked_fill(~seen, float("-inf")).softmax(-1), v)


class Widened:
    """torch, whose float32 is float64."""

    float = float32 = torch.float64

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def replace_kernels() -> None:
    """Each kernel by its equation."""
    module = importlib.import_module
    module("fla.modules.convolution").ShortConvolution.forward = convolve
    fused = module("fla.modules.fused_norm_gate").FusedRMSNormGated
    gates = {"sigmoid": torch.sigmoid, "swish": F.silu, "silu": F.silu}
    fused.forward = lambda self, x, g: rms(x, self.weight, self.eps) * gates[self.activation](g)
    norm = module("fla.modules.layernorm").RMSNorm
    norm.forward = lambda self, x, residual=None, prenorm=False, residual_in_fp32=False: (
        rms(x, self.weight, self.eps) if residual is None else (rms(x + residual, self.weight, self.eps), x + residual)
    )
    module("fla.modules.rotary").RotaryEmbedding.forward = rotate
    module("fla.modules.activations").ACT2FN |= {"swish": F.silu, "silu": F.silu, "sqrelu": lambda x: F.relu(x) ** 2}
    module("fla.modules.mlp").swiglu = lambda x, y: F.silu(x) * y
    layers = {name: module(f"fla.layers.{name}") for name in ("gla", "delta_net", "kda", "hgrn2", "rwkv7")}
    gated, retention = module("fla.layers.gated_deltanet"), module("fla.layers.multiscale_retention")
    gated.fused_recurrent_gated_delta_rule, gated.causal_conv1d = gated_delta_rule, convolve_fused
    layers["kda"].fused_recurrent_kda = kda_rule
    layers["delta_net"].fused_recurrent_delta_rule = delta_rule
    layers["gla"].fused_recurrent_gla = layers["hgrn2"].fused_recurrent_gla = gla_rule
    layers["hgrn2"].rms_norm_linear = lambda o, w, b, matrix, bias: rms(o, w, 1e-5) @ matrix.T
    layers["hgrn2"].swish = F.silu
    retention.fused_recurrent_retention = retention_rule
    module("fla.models.hgrn2.modeling_hgrn2").torch = Widened()
    module("fla.layers.mamba2").torch = module("fla.models.mamba2.modeling_mamba2").torch = Widened()
    module("fla.layers.attn").flash_attn_func = attend
    rwkv = layers["rwkv7"]
    rwkv.fused_mul_recurrent_rwkv7, rwkv.token_shift = rwkv7_rule, shift
    module("fla.models.rwkv7.modeling_rwkv7").token_shift = shift
    rwkv.fused_addcmul_rwkv7 = lambda x, d, *mus: tuple(x + d * mu for mu in mus)
    rwkv.fused_k_rwkv7 = lambda k, a, ka: k * (1 + (a - 1) * ka)
    rwkv.gate_output_correction = module("fla.ops.rwkv7.gate_output_correction").gate_output_correction_ref
    module("fla.layers.mamba2").RMSNormGated.forward = lambda self, x, z: (
        F.rms_norm((x * F.silu(z)).unflatten(-1, (-1, self.group_size)), (self.group_size,), None, self.eps).flatten(-2)
        * self.weight
    )


def record(checkout: str) -> None:
    os.environ["TRITON_INTERPRET"] = "1"
    sys.path.insert(0, checkout)
    torch.set_default_dtype(torch.float64)
    replace_kernels()
    torch.Tensor.float = torch.Tensor.double  # type: ignore[method-assign]
    rows = {}
    for name, (kind, settings) in MODELS.items():
        package = importlib.import_module(f"fla.models.{name.partition(',')[0]}")
        config = getattr(package, f"{kind}Config")(**{**COMMON, **settings})
        model = getattr(package, f"{kind}ForCausalLM")(config).double().eval()
        shapes = {key: list(tensor.shape) for key, tensor in model.state_dict().items()}
        model.load_state_dict(draw(shapes))
        with torch.no_grad():
            logits = model(IDS, use_cache=False).logits
        rows[name] = {"config": json.loads(config.to_json_string()), "shapes": shapes, "logits": logits.tolist()}
    OUT.write_text(json.dumps(rows))


if __name__ == "__main__":
    record(sys.argv[1])
