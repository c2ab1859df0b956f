"""Models: `seqloom.decoder`, `seqloom.load`, `seqloom.save` and `seqloom.swap`."""

import sys
from collections.abc import Mapping, Sequence
from inspect import signature
from numbers import Integral
from pathlib import Path
from typing import Any, overload

import torch
from torch import nn

from seqloom.core.arguments import count, describe_value
from seqloom.core.config import read, suggestion
from seqloom.core.device import choose_device
from seqloom.core.feed_forward import OLD_NAMES
from seqloom.core.mixer_config import find
from seqloom.core.model import Model, require_model
from seqloom.core.named_object import object_name
from seqloom.data.given_tokenizer import given_tokenizer
from seqloom.data.tokenizer import Tokenizer
from seqloom.face.build import build_checked
from seqloom.models import swap as swapped
from seqloom.models.decoder import Decoder, DecoderConfig
from seqloom.models.int8 import is_int8
from seqloom.models.take_over import Given, Init
from seqloom.retrieval.lookup import attach
from seqloom.runs import model as stored

MODEL_SETTINGS = (DecoderConfig.model_fields.keys() | OLD_NAMES.keys()) - {"kind", "mixer"}
"""settings of a decoder that are given as keywords, next to those of its mixer"""


def decoder(
    kind: str | type[nn.Module] | Sequence[dict[str, Any]],
    *,
    vocab: int,
    dim: int = 128,
    depth: int = 18,
    context: int = 128,
    ffn: int | dict[str, Any] | list[dict[str, Any]] | None = None,
    dropout: float = 0.1,
    position: str | dict[str, Any] = "learned",
    channel: str | None = None,
    embed_norm: bool = False,
    norm: str = "layer",
    **settings: Any,
) -> Decoder:
    """The paper's Transformer around a mixer, or around a list of mixers that the layers repeat.

    `kind` is a mixer's name, the class of any layer of yours, or its name as "my.py:Layer".
    `settings` are the mixer's own and further ones of the model, as `seqloom settings model` lists them: tie, residual
    and others. `ffn` is the width of the feed-forward network, 4 `dim` unless given, or its settings, such as
    {"activation": "silu", "gated": True}, or a list of such for the layers to repeat; `channel` is its kind. Whole
    RWKV-4: kind "rwkv" with position="none", channel="channel_mix" and embed_norm=True. Whole Mamba: kind "mamba" with
    position="none", channel="none" and norm="rms". Raises ValueError or TypeError for settings that are none or do not
    fit into the memory.
    """
    model_settings = {name: settings.pop(name) for name in MODEL_SETTINGS if name in settings}
    for name, size in {"vocab": vocab, "dim": dim, "depth": depth, "context": context}.items():
        if isinstance(size, bool) or not isinstance(size, Integral):
            raise TypeError(f"{name} must be a whole number, not {describe_value(size)}")
    if isinstance(ffn, bool) or not isinstance(ffn, Integral | dict | list | None):
        raise TypeError(f"ffn must be a whole number, settings or None, not {describe_value(ffn)}")
    if isinstance(kind, type):
        kind = object_name(kind)
    if isinstance(kind, str):
        _require_known(kind, settings)
        mixers: Any = {"kind": kind, **settings}
    else:
        mixers = _mixer_list(kind, settings)
    values: dict[str, Any] = {
        "vocab": vocab,
        "dim": dim,
        "depth": depth,
        "context": context,
        "ffn": 4 * dim if ffn is None else {"width": 4 * dim, **ffn} if isinstance(ffn, dict) else ffn,
    }
    values |= {"dropout": dropout, "position": position, "embed_norm": embed_norm, "norm": norm}
    values |= {} if channel is None else {"channel": channel}
    config: DecoderConfig = read(DecoderConfig, {**values, **model_settings, "mixer": mixers})
    return build_checked(lambda: Decoder(config))


def save(model: Model, folder: str | Path, *, tokenizer: Any = None) -> Path:
    """Saves a model, and the tokenizer if given (or carried as `model.tokenizer`), so that `load` finds it.

    Raises TypeError or ValueError for arguments of another type, and for a folder of another model.
    """
    require_model(model)
    if is_int8(model):
        raise ValueError("a model in int8 is not saved: save the model that it was made of, and quantize after loading")
    tokenizer = model.tokenizer if tokenizer is None else tokenizer
    if tokenizer is not None and not isinstance(getattr(tokenizer, "json", None), str):
        raise TypeError(
            f"tokenizer has its file's text as `json`, as seqloom's own has, not {describe_value(tokenizer)}"
        )
    return stored.save(model, _folder_path(folder), tokenizer=tokenizer)


def load(folder: str | Path, *, step: int | None = None, device: str = "cpu") -> Model:
    """The model of a run or of `save`, with its tokenizer as `model.tokenizer` (None where the run has none).

    A folder of transformers is read too (docs/hf.md says which), without transformers, in the dtype of its weights.
    Raises FileNotFoundError where there is no run or no such step, and TypeError or ValueError for what does not fit.
    """
    if step is not None:
        count("step", step)
    if not isinstance(device, str | torch.device):
        raise TypeError(f"device is a name such as 'cpu' or 'cuda', not {describe_value(device)}")
    model, run = stored.load(_folder_path(folder), step=step, device=choose_device(device))
    if model.config.looks_up:
        attach(model)
    if run.has_tokenizer():
        model.tokenizer = given_tokenizer(run.folder) if run.is_foreign else Tokenizer.load(run.tokenizer)
        tokens = model.tokenizer.vocab
        vocab = model.config.vocab
        if tokens > vocab:
            raise ValueError(
                f"{run.tokenizer} has {tokens} tokens, the model {vocab}: put the run's own tokenizer back"
            )
    return model


def _mixer_list(kinds: Any, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """The list of the mixers' settings; ValueError unless it is one and there are no `settings` next to it."""
    if not isinstance(kinds, (list, tuple)) or not all(isinstance(values, dict) for values in kinds):
        raise ValueError(f"kind is a mixer's name, or a list such as [{{'kind': 'she'}}], not {kinds!r}")
    if settings:
        raise ValueError(f"in a list, each mixer carries its settings itself: move {', '.join(settings)} into it")
    return list(kinds)


def _require_known(kind: str, settings: dict[str, Any]) -> None:
    """Raises ValueError for settings that are neither the mixer's nor, misspelled, close to one of the decoder's."""
    config = find(kind)
    if config is None:
        return  # the constructor's error names a similar kind
    fields = config.model_fields
    unknown = next((name for name in settings if name not in fields), None)
    if unknown is not None:
        known_names = {*fields, *MODEL_SETTINGS, *signature(decoder).parameters} - {"settings"}
        raise ValueError(f"unknown setting {unknown!r}; {suggestion(unknown, known_names)}")


def _folder_path(folder: Any) -> Path:
    """The folder as a path; TypeError or ValueError where it is none."""
    if not isinstance(folder, str | Path):
        raise TypeError(f"folder is a path, not {describe_value(folder)}")
    if not str(folder).strip():
        raise ValueError("folder is empty: give the path of a run")
    return Path(folder)


@overload
def swap(model: Model, layers: Mapping[int, Given], *, init: Init = "projections") -> Model: ...
@overload
def swap(model: Any, layers: Mapping[int, Given], *, init: Init = "projections") -> Any: ...
def swap(model: Any, layers: Mapping[int, Given], *, init: Init = "projections") -> Any:
    """A copy of the model with other mixers in place of attention, by the number of the layer, from 0.

    `model` is one of seqloom, or one of transformers (docs/swap.md says which). A mixer is a kind or its settings. With
    init="projections" it takes over the matrices of queries, keys, values and outputs where the shapes agree. Without
    training the result writes noise. Raises TypeError for another model, ValueError for layers without attention and
    mixers that do not fit.
    """
    if not isinstance(layers, Mapping) or not all(isinstance(number, int) for number in layers):
        raise TypeError(f"layers gives layers their mixer, such as {{0: 'gated_delta'}}, not {describe_value(layers)}")
    if init not in ("projections", "fresh"):
        raise ValueError(f"init is 'projections' or 'fresh', not {init!r}")
    if isinstance(model, nn.Module) and not isinstance(model, Model) and "transformers" in sys.modules:
        from seqloom.hf.swap.model import swap as swap_theirs

        return swap_theirs(model, layers, init=init)
    require_model(model)
    other, _ = swapped.swap(model, layers, init=init)
    other.tokenizer = model.tokenizer
    return other
