"""Models as others write them, in plain torch, next to which ours are timed: the same sizes, data and optimizer.

    x ← x + mix(norm(x)),   x ← x + W_o (silu(W_g norm(x)) ∘ W_v norm(x))        at each of the layers
    loss = cross entropy of norm(x) Eᵀ                                           E: the embedding

The mixer is rotary attention by SDPA, or flash-linear-attention's own layer of the gated delta rule. Source: the model
of nanoGPT and nanochat (Karpathy) with the blocks of Llama, as the recipe board/small has them.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from seqloom.core.layered import LayeredConfig
from seqloom.training.config import TrainConfig


@final
class Attention(nn.Module):
    """Causal attention over `dim` channels with rotary positions."""

    cosines: Tensor
    sines: Tensor

    def __init__(self, dim: int, heads: int, context: int, base: float) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        width = dim // heads
        rates = base ** (-torch.arange(0, width, 2) / width)
        angles = torch.outer(torch.arange(context), rates)  # (T, K/2)
        self.register_buffer("cosines", angles.cos(), persistent=False)
        self.register_buffer("sines", angles.sin(), persistent=False)

    @override
    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(self._turn_pairs(q), self._turn_pairs(k), v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))

    def _turn_pairs(self, x: Float[Tensor, "B H T K"]) -> Float[Tensor, "B H T K"]:
        """x, each pair of whose channels is turned by the angle of its position."""
        first, second = x.chunk(2, -1)
        T = x.shape[2]
        cosines, sines = self.cosines[:T].to(x.dtype), self.sines[:T].to(x.dtype)
        return torch.cat((first * cosines - second * sines, first * sines + second * cosines), -1)


@final
class FirstOutput(nn.Module):
    """A layer of fla, of whose outputs the first is y."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    @override
    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        y: Tensor = self.layer(x)[0]
        return y


@final
class Block(nn.Module):
    """One layer: a mixer and a gated feed-forward network, each after a norm and beside a skip."""

    def __init__(self, mixer: nn.Module, config: LayeredConfig) -> None:
        super().__init__()
        dim, hidden = config.dim, config.ffn_width
        self.mixer_norm, self.mixer = nn.RMSNorm(dim, eps=config.norm_eps), mixer
        self.hidden_norm = nn.RMSNorm(dim, eps=config.norm_eps)
        self.gate_and_value = nn.Linear(dim, 2 * hidden, bias=False)
        self.out = nn.Linear(hidden, dim, bias=False)

    @override
    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        x = x + self.mixer(self.mixer_norm(x))
        gate, value = self.gate_and_value(self.hidden_norm(x)).chunk(2, -1)
        return x + self.out(F.silu(gate) * value)


@final
class Peer(nn.Module):
    """The model; `build_mixer` makes the mixer of a layer."""

    def __init__(self, config: LayeredConfig, build_mixer: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.vocab, config.dim)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(build_mixer(), config) for _ in range(config.depth))
        self.norm = nn.RMSNorm(config.dim, eps=config.norm_eps)

    @override
    def forward(self, ids: Int[Tensor, "B T+1"]) -> Float[Tensor, ""]:
        x = self.embedding(ids[:, :-1])
        for block in self.blocks:
            x = block(x)
        logits = self.norm(x) @ self.embedding.weight.T
        return F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())


def unavailable() -> str:
    """Why fla's layers cannot be timed here, in a few words; "" if they can."""
    if find_spec("fla") is None or find_spec("fla.layers") is None:
        return "flash-linear-attention's layers are not installed"
    if find_spec("transformers") is None:
        return "transformers, which flash-linear-attention's layers import, is not installed"
    return ""


def attention_step(config: LayeredConfig, training: TrainConfig, device: str, compiled: bool) -> Callable[[], object]:
    """A training step of the model with attention, of which torch.compile makes one graph where `compiled`."""
    mixer: Any = config.mixer
    base = getattr(config.position, "base", 10_000.0)
    model = Peer(config, lambda: Attention(config.dim, mixer.heads, config.context, base))
    return _step(model, config, training, device, compiled)


def fla_step(config: LayeredConfig, training: TrainConfig, device: str) -> Callable[[], object]:
    """A training step of the model with fla's layer of the gated delta rule, as many and as wide heads as ours.

    ValueError where fla's layers are not here.
    """
    if reason := unavailable():
        raise ValueError(reason)
    from fla.layers import GatedDeltaNet

    mixer: Any = config.mixer
    width = 3 * config.dim // 4 // mixer.heads
    layer: dict[str, Any] = {"hidden_size": config.dim, "num_heads": mixer.heads, "head_dim": width, "expand_v": 2}
    model = Peer(config, lambda: FirstOutput(GatedDeltaNet(**layer)))
    return _step(model, config, training, device, compiled=False)


def _step(
    model: nn.Module, config: LayeredConfig, training: TrainConfig, device: str, compiled: bool
) -> Callable[[], object]:
    """A function that trains the model by one batch of random tokens, and returns the loss on the device."""
    model = model.to(device).train()
    loss_of: Callable[[Tensor], Tensor] = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(
        model.parameters(), training.lr, training.betas, weight_decay=training.weight_decay, fused=device == "cuda"
    )
    draws = torch.Generator().manual_seed(0)

    def step() -> Tensor:
        ids = torch.randint(config.vocab, (training.batch, config.context + 1), generator=draws)
        with training.autocast(torch.device(device)):
            loss = loss_of(ids.to(device, non_blocking=True))
        loss.backward()
        if training.clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), training.clip)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step
