"""Layers of public packages for `seqloom verify`: each as an nn.Module from (B, T, D) to (B, T, D) that streams.

    seqloom verify examples.public_layers:TransformersMamba
    seqloom verify examples.public_layers:TransformersRwkv
    seqloom verify examples.public_layers:MambapyBlock
    seqloom verify examples.public_layers:XTransformersDecoder

The packages are those of `pip install seqloom[peers]`, and x-transformers. A wrapper builds the layer as its model
does, so that its weights are initialized, and declares what the layer supports: a mask, and a state between tokens.
"""

import copy
from typing import Any, final

import torch
from torch import Tensor, nn


@final
class TransformersMamba(nn.Module):
    """`MambaMixer` of transformers, with the attention mask and the cache that its model hands to it."""

    def __init__(self, dim: int = 32) -> None:
        super().__init__()
        from transformers import MambaConfig, MambaModel

        self.config = MambaConfig(hidden_size=dim, state_size=8, num_hidden_layers=1, vocab_size=8)
        self.mixer = MambaModel(self.config).layers[0].mixer

    def forward(self, x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return self.mixer(x, attention_mask=attention_mask)

    def start(self, batch: int) -> Any:
        from transformers import DynamicCache

        return DynamicCache(config=self.config)

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        y, state = self.extend(x[:, None], state)
        return y[:, 0], state

    def extend(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        state = copy.deepcopy(state)  # it is written into
        return self.mixer(x, cache_params=state), state


@final
class TransformersRwkv(nn.Module):
    """`RwkvSelfAttention` of transformers: RWKV-4's time mixing, with the state that its model hands to it."""

    def __init__(self, dim: int = 32) -> None:
        super().__init__()
        from transformers import RwkvConfig, RwkvModel

        config = RwkvConfig(hidden_size=dim, num_hidden_layers=2, vocab_size=8, attention_hidden_size=dim)
        self.mixer = RwkvModel(config).blocks[0].attention

    def forward(self, x: Tensor) -> Tensor:
        return self.mixer(x)[0]

    def start(self, batch: int) -> list[Tensor]:
        width = self.mixer.attention_hidden_size
        state = [torch.zeros(batch, width, 1, dtype=torch.float32) for _ in range(5)]  # as in RwkvModel.forward
        state[1] = state[1].to(self.mixer.key.weight.dtype)
        state[4] -= 1e30
        return state

    def step(self, x: Tensor, state: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        y, state = self.extend(x[:, None], state)
        return y[:, 0], state

    def extend(self, x: Tensor, state: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        return self.mixer(x, state=[part.clone() for part in state], use_cache=True)


@final
class MambapyBlock(nn.Module):
    """`MambaBlock` of mambapy, with the cache that its model hands to it."""

    def __init__(self, dim: int = 32, pscan: bool = True) -> None:
        super().__init__()
        from mambapy.mamba import MambaBlock, MambaConfig

        self.block = MambaBlock(MambaConfig(d_model=dim, n_layers=1, d_state=8, pscan=pscan))

    def forward(self, x: Tensor) -> Tensor:
        return self.block(x)

    def start(self, batch: int) -> tuple[Tensor | None, Tensor]:
        config, weight = self.block.config, self.block.in_proj.weight
        return None, weight.new_zeros(batch, config.d_inner, config.d_conv - 1)

    def step(self, x: Tensor, state: tuple[Tensor | None, Tensor]) -> tuple[Tensor, tuple[Tensor | None, Tensor]]:
        return self.block.step(x, state)


@final
class XTransformersDecoder(nn.Module):
    """A `Decoder` of x-transformers of one layer with rotary positions, its mask, and the cache that it returns."""

    def __init__(self, dim: int = 32) -> None:
        super().__init__()
        from x_transformers import Decoder

        self.layers = Decoder(dim=dim, depth=1, heads=2, rotary_pos_emb=True)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.layers(x, mask=mask)

    def start(self, batch: int) -> None:
        return None

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        y, state = self.extend(x[:, None], state)
        return y[:, 0], state

    def extend(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        age = x.shape[1]  # with a cache, so many of the last tokens are read
        return self.layers(x, cache=state, cache_age=age, input_not_include_cache=True, return_hiddens=True)
