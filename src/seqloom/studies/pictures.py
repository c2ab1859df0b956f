"""Samples and views of a trained model: texts with the probability of every token, and its mixers' views."""

from dataclasses import replace
from typing import Any

import torch

from seqloom.analysis import reach
from seqloom.analysis.reading import reading_of
from seqloom.core.layered import LayeredConfig, require_layers
from seqloom.core.mixer_config import MixerConfig
from seqloom.core.model import Model
from seqloom.core.model_config import ModelConfig
from seqloom.core.view import View
from seqloom.data.tokenizer import Tokenizer
from seqloom.generation.draws import tokens
from seqloom.generation.modes import default_mode
from seqloom.generation.sample import Sampling
from seqloom.mixers.cross_layer import CrossLayer

TOKENS = 120
TOP_P = 0.6
VIEWS = 4
"""the most views of one mixer, such as a mean and three heads of 32"""
LONGEST = 128
"""the most tokens in a view"""
FILLED = 2048
"""the most tokens of a text that fills the memories of a mixer"""


def sample(model: Model, tokenizer: Tokenizer, prompt: str, seed: int) -> dict[str, Any]:
    """A text generated from a prompt: of each token its text and its probability before top-p cuts.

    A token that ends in the middle of a character has an empty text. The mode is the model's default one; in `slide` a
    full window drops its oldest quarter at once.
    """
    ids = tokenizer.encode(prompt)
    prompts = torch.tensor([ids])
    mode = default_mode(model)
    hop = max(1, model.config.context // 4) if mode == "slide" else 1
    reading: dict[str, Any] = {"mode": mode, "hop": hop}
    written: list[list[Any]] = []
    stream = tokenizer.stream(ids)
    for drawn in tokens(model, prompts, max_tokens=TOKENS, **reading, sampling=Sampling(top_p=TOP_P, seed=seed)):
        id = int(drawn.ids[0])
        if id == tokenizer.eos:
            break
        written.append([stream.push(id), round(float(drawn.logits[0].float().softmax(0)[id]), 4)])
    tail = stream.finish()
    if written and tail:
        written[-1][0] += tail
    return {"prompt": prompt, "seed": seed, "top_p": TOP_P, "tokens": written}


def tokens_of_views(config: ModelConfig) -> int:
    """The most tokens that views need: a context, or as many as fill the memories of a mixer with long views."""
    usual = min(config.context, LONGEST)
    if not isinstance(config, LayeredConfig):
        return usual
    return max([usual, *(_context_to_fill(mixer, config.context) for mixer in config.pattern)])


def _context_to_fill(mixer: MixerConfig, context: int) -> int:
    """The tokens that fill the memories of a mixer with long views; 0 for other mixers."""
    return min(context + (mixer.tokens_back or 0), FILLED) if mixer.long_views else 0


def plot_model(model: Model, tokenizer: Tokenizer, ids: list[int]) -> list[dict[str, Any]]:
    """The views of the mixers of the first, middle and last layer when the model reads `ids`, and the model's reach.

    [] for a model without layers of mixers.
    """
    if not model.mixers:
        return []
    views_as_json = []
    config = require_layers(model.config)
    last = config.depth - 1
    model_reach = reach.tokens_back(config)
    for layer in dict.fromkeys((0, last // 2, last)):
        mixer = model.mixers[layer]
        tokens = max(min(config.context, LONGEST), _context_to_fill(config.mixers[layer], config.context))
        if model.traits.longest is not None:
            tokens = min(tokens, model.traits.longest)
        text = torch.tensor([ids[:tokens]], device=model.device)
        with torch.no_grad():
            reading = reading_of(model, layer, text)
            # what is handed over is of all tokens that were read, so that a shorter text is read anew
            shown = reading_of(model, layer, text[:, : reach.SHOWN]) if isinstance(mixer, CrossLayer) else reading
            in_words = reach.in_words(config.mixers[layer].tokens_back, model_reach, config.depth)
            views_of_layer = [*mixer.plots(reading.x)[:VIEWS], reach.view(shown, shown.x, in_words)]
        views_as_json += [_as_json(view, layer, tokenizer, text[0].tolist()) for view in views_of_layer]
    return views_as_json


def plot_layer(model: Model, tokenizer: Tokenizer, ids: list[int], layer: int) -> dict[str, Any]:
    """The mixer's own views of one layer when the model reads the end of `ids`, and the texts of the tokens it reads.

    ValueError for a model without such a layer.
    """
    if not 0 <= layer < len(model.mixers):
        raise ValueError(f"layer {layer} is none of the model's: it has {len(model.mixers)} layers of mixers, from 0")
    tokens = min(model.config.context, model.traits.longest or LONGEST, LONGEST)
    text = torch.tensor([ids[-tokens:]], device=model.device)
    reading = reading_of(model, layer, text)
    views = reading.mixer.plots(reading.x)[:VIEWS]
    shown = text[0].tolist()
    return {
        "tokens": _words(tokenizer, shown),
        "views": [_as_json(_cut(view), layer, tokenizer, shown) for view in views],
    }


def _cut(view: View) -> View:
    """A view of the first `LONGEST` values along each axis, such as those of the nearest lags."""
    return replace(view, values=view.values[(slice(LONGEST),) * view.values.ndim])


def _as_json(view: View, layer: int, tokenizer: Tokenizer, ids: list[int]) -> dict[str, Any]:
    """A view as it is stored; `labels` has the texts of its tokens if both axes are tokens."""
    values = view.values.detach().cpu().double()
    axes_are_tokens = set(view.axes) <= {"query", "key"}
    return {
        "layer": layer,
        "name": view.name,
        "meaning": view.meaning,
        "axes": list(view.axes),
        "values": _round_values(values.tolist()),
        "signed": bool((values < 0).any()),
        "labels": _words(tokenizer, ids[: len(values)]) if axes_are_tokens else None,
    }


def _words(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    """The text of each token, empty for one that ends in the middle of a character."""
    stream = tokenizer.stream()
    return ["<eos>" if id == tokenizer.eos else stream.push(id) for id in ids]


def _round_values(values: Any) -> Any:
    return [_round_values(value) for value in values] if isinstance(values, list) else float(f"{values:.4g}")
