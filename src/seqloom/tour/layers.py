"""What the first layer of a trained model computes: attention's weights, HE's factors, the table of the delta rule.

    attention     weights (H, T, T)
    HE            taps (L, D), the adjustment (T, D)
    gated_delta   keys (H, T, K), what each token writes (H, T, V), decays and strengths (H, T), tables by `equations`

The first layer reads the words alone; what deeper layers read depends on all words before.
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.analysis.reading import reading_of
from seqloom.core.mixer import Mixer
from seqloom.core.model import Model
from seqloom.mixers.attention.attention import Attention
from seqloom.mixers.extractors.extractors import Extractor
from seqloom.mixers.linear.gated_delta import GatedDelta
from seqloom.tour.equations import gated_delta

NORM = 1e-6
"""added to the square of a key's length, as in the mixer"""


@final
@dataclass(frozen=True)
class Writes:
    """What the delta rule writes: of each head of values (H) and token (T)."""

    keys: Float[Tensor, "H T K"]
    """of length 1"""
    changes: Float[Tensor, "H T V"]
    """what is added to the table's answer for the key: strength times value minus old value"""
    erased: Float[Tensor, "H T"]
    """the length of the old value"""
    decay: Float[Tensor, "H T"]
    strength: Float[Tensor, "H T"]
    tables: Float[Tensor, "H T K V"]


def first_mixer(model: Model) -> Mixer | None:
    """The mixer of the first layer; None for a model without such layers."""
    return model.mixers[0] if model.mixers else None


def input_of(model: Model, ids: list[int]) -> Float[Tensor, "1 T D"]:
    """What the mixer of the first layer reads."""
    with torch.no_grad():
        return reading_of(model, 0, torch.tensor([ids], device=model.device)).x


def attention_weights(mixer: Attention, x: Float[Tensor, "1 T D"]) -> Float[Tensor, "H T T"]:
    """How much of each earlier token every token takes, by head."""
    with torch.no_grad():
        views = mixer.plots(x)
    heads = views[1:] if len(views) > 1 else views  # the mean comes first
    return torch.stack([view.values for view in heads])


def extractor_taps(mixer: Extractor, x: Float[Tensor, "1 T D"]) -> Float[Tensor, "L D"]:
    """The taps by lag and channel: no text changes them."""
    (view,) = mixer.plots(x)
    return view.values.detach()


def extractor_adjustment(mixer: Extractor, x: Float[Tensor, "1 T D"]) -> Float[Tensor, "T D"]:
    """What each token multiplies its extraction by."""
    assert mixer.w_adj is not None
    with torch.no_grad():
        adjustment: Tensor = mixer.w_adj(x[0])
    return adjustment


def delta_writes(mixer: GatedDelta, x: Float[Tensor, "1 T D"]) -> Writes:
    """What every token erases and writes."""
    with torch.no_grad():
        qkv, _ = mixer.conv(mixer.w_qkv(x), None)
        keys = mixer.heads * mixer.K
        q, k, v = qkv[0].split([keys, keys, mixer.value_heads * mixer.V], -1)
        v = v.unflatten(-1, (mixer.value_heads, mixer.V)).transpose(0, 1)
        q, k = (_unit_heads(part, mixer) for part in (q, k))
        g = mixer.log_decay(x[0])
        assert g is not None
        decay, strength = g.exp().T, mixer.strength(x[0]).T
        tables = torch.stack([gated_delta(*head)[1] for head in zip(q, k, v, decay, strength, strict=True)])
        before = decay[..., None, None] * torch.cat((torch.zeros_like(tables[:, :1]), tables[:, :-1]), 1)
        old = torch.einsum("htk,htkv->htv", k, before)
        changes = strength[..., None] * (v - old)
    return Writes(k, changes, old.norm(dim=-1), decay, strength, tables)


def _unit_heads(x: Tensor, mixer: GatedDelta) -> Tensor:
    """Queries or keys (T, H K) of length 1, one for each head of values: (H', T, K)."""
    heads = x.unflatten(-1, (mixer.heads, mixer.K)).transpose(0, 1)
    unit = heads / (heads.square().sum(-1, keepdim=True) + NORM).sqrt()
    return unit.repeat_interleave(mixer.value_heads // mixer.heads, 0)
