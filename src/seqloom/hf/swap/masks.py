"""Which positions are tokens, from every form of a mask: a hook that runs before the body of a swapped model.

Attention gets a mask of pairs (B, 1, T, positions), in a form that depends on its implementation, or none where sdpa
needs none. A mixer needs to know which positions are tokens, (B, T). The hook hands this on as `seqloom_keep`, among
the arguments that a body passes to every layer. What a mixer cannot follow is an error that names it.
"""

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.hf.cache import kept_positions

NOT_FOLLOWED = ("cu_seq_lens_q", "head_mask", "encoder_hidden_states")
"""arguments that attention would follow and a mixer does not"""


def hand_on_tokens(body: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """A forward pre-hook of the body: adds `seqloom_keep` to its arguments. ValueError for what cannot be followed."""
    given = inspect.signature(body.forward).bind_partial(*args, **kwargs).arguments
    given = {**given.pop("kwargs", {}), **given}
    for name in NOT_FOLLOWED:
        if given.get(name) is not None:
            raise ValueError(f"{name} cannot be followed where attention is replaced: leave it out")
    config: Any = body.config
    if given.get("output_attentions") or config.output_attentions:
        raise ValueError("output_attentions cannot be had where attention is replaced: its mixers have no such weights")
    inputs = given.get("input_ids") if given.get("input_ids") is not None else given.get("inputs_embeds")
    T = None if inputs is None else inputs.shape[1]
    mask, cache = given.get("attention_mask"), given.get("past_key_values")
    if mask is None:
        if cache is None and given.get("position_ids") is not None:
            _require_one_text(given["position_ids"])
        keep = None
    else:
        tokens = _tokens(mask)
        if inputs is not None:
            tokens = tokens.expand(inputs.shape[0], -1)
        keep = kept_positions(tokens, mask.shape[-1] if T is None else T, padded_right=cache is None)
    return args, {**kwargs, "seqloom_keep": keep}


def _tokens(mask: Tensor) -> Tensor:
    """The tokens (B, positions) of a mask of tokens or of pairs."""
    if not isinstance(mask, Tensor):
        raise ValueError(f"attention_mask of type {type(mask).__name__} cannot be followed where attention is replaced")
    if mask.ndim != 4:
        return mask
    pairs = mask[:, 0] if mask.dtype == torch.bool else mask[:, 0] >= 0
    tokens = pairs[:, -1]
    _require_padding_alone(pairs, tokens)
    return tokens


def _require_padding_alone(pairs: Tensor, tokens: Tensor) -> None:
    """Raises ValueError unless every token sees all tokens, or all up to itself: (B, T, positions), (B, positions)."""
    T, positions = pairs.shape[1:]
    here = tokens[:, -T:, None]
    everywhere = tokens[:, None].expand_as(pairs)
    before = everywhere & torch.ones(T, positions, dtype=torch.bool, device=pairs.device).tril(positions - T)
    for wanted in (before, everywhere):
        if torch.equal(pairs & here, wanted & here):
            return
    raise ValueError(
        "attention_mask hides tokens from each other, which mixers cannot follow: give the mask of tokens (B, T), 0 at "
        "padding"
    )


def _require_one_text(position_ids: Tensor) -> None:
    """Raises ValueError where positions restart within a row, as those of packed texts do."""
    if position_ids.shape[-1] > 1 and bool((position_ids.diff(dim=-1) != 1).any()):
        raise ValueError(
            "position_ids restart within a row: packed texts are not kept apart where attention is replaced; give "
            "each text a row"
        )
