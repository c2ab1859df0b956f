"""What a new mixer is compared with in the place of attention: nothing, or a window over the latest tokens.

    removed     the layer without its mixer
    windowed    attention to the latest W tokens and to the first 4 (sinks), untrained

Both are made of attention's own weights. A layer that loses little by the window needs no memory of what is far.

Source: Xiao et al., StreamingLLM, arXiv:2309.17453 (sinks).
"""

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

import torch

from seqloom.core.mixer import Mixer
from seqloom.core.model import Model
from seqloom.mixers.attention.attention import Attention, AttentionConfig
from seqloom.models.config import TransformerConfig
from seqloom.models.swap import projections_of, swapped_settings
from seqloom.models.switched import SwitchedMixers
from seqloom.models.take_over import take_over

SINKS = 4
"""the first tokens of a text that stay visible"""


@torch.no_grad()
def mixers_of_zeros(model: Model, layers: Iterable[int]) -> SwitchedMixers:
    """Mixers whose output is 0."""
    nothing = {}
    for number in layers:
        mixer = deepcopy(model.mixers[number])
        assert isinstance(mixer, Attention)
        for parameter in mixer.w_out.parameters():
            parameter.zero_()
        nothing[number] = mixer
    return SwitchedMixers(nothing)


def attention_in_windows(model: Model, layers: Iterable[int], window: int) -> SwitchedMixers:
    """Attention to the latest `window` tokens, about: whole blocks of 4; with the first 4, where `has_sinks`."""
    config = model.config
    assert isinstance(config, TransformerConfig)
    numbers = list(layers)
    settings = swapped_settings(config, {number: _settings(config, number, window) for number in numbers})
    mixers: dict[int, Mixer] = {}
    for number in numbers:
        old = model.mixers[number]
        assert isinstance(old, Attention)
        mixers[number] = settings.mixer_of(number, old.shared).to(model.device, model.dtype)
        if isinstance(settings.mixers[number], AttentionConfig):
            mixers[number].load_state_dict(old.state_dict())
        else:
            take_over(projections_of(old), mixers[number])
    return SwitchedMixers(mixers)


def has_sinks(config: TransformerConfig, number: int) -> bool:
    """Whether the window of a layer has sinks: there are none where attention has biases, norms or other options."""
    attention = config.mixers[number]
    assert isinstance(attention, AttentionConfig)
    plain = AttentionConfig(heads=attention.heads, kv_heads=attention.kv_heads, bias="none")
    return attention == plain


def _settings(config: TransformerConfig, number: int, window: int) -> dict[str, Any]:
    attention = config.mixers[number]
    assert isinstance(attention, AttentionConfig)
    if not has_sinks(config, number):
        return {**attention.model_dump(mode="json"), "window": window}
    blocks = 2 * max(1, window // SINKS) - 1
    return {
        "kind": "bigbird",
        "heads": attention.heads,
        "block": SINKS,
        "window": blocks,
        "random": 0,
        "global_blocks": 1,
    }
