"""The public face: what `import seqloom` offers, each in one call."""

from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

from seqloom.core.config import read
from seqloom.core.device import chosen
from seqloom.core.mixer import Mixer, Traits
from seqloom.data.tokenizer import Tokenizer
from seqloom.generation.decode import generate
from seqloom.mixers import kinds, mixer_config
from seqloom.models.decoder import Decoder, DecoderConfig
from seqloom.runs import model as stored

__all__ = ["decoder", "generate", "list_mixers", "load", "mixer", "save"]


def list_mixers() -> dict[str, Traits]:
    """Every mixer by name, with what it can do."""
    return {name: config.traits for name, config in kinds().items()}


def mixer(kind: str, *, dim: int, context: int | None = None, **settings: Any) -> Mixer:
    """A mixer for `dim` channels that looks back on `context` tokens: an nn.Module, (B, T, D) → (B, T, D).

    `settings` are the mixer's own, such as heads=32 for attention. ValueError, with what was near, for unknown ones.
    """
    _positive(dim=dim, context=context)
    return mixer_config({"kind": kind, **settings}).build(dim, context)


def decoder(
    kind: str | Sequence[dict[str, Any]],
    *,
    vocab: int,
    dim: int = 128,
    depth: int = 18,
    context: int = 128,
    ffn: int | None = None,
    dropout: float = 0.1,
    positions: str = "learned",
    channel: str = "ffn",
    embed_norm: bool = False,
    norm: str = "layer",
    **settings: Any,
) -> Decoder:
    """The paper's Transformer around a mixer, or around a list of mixers that the layers repeat.

    `settings` are the mixer's own. `ffn` is 4 `dim` unless given. Whole RWKV-4: kind "rwkv" with positions="none",
    channel="channel_mix" and embed_norm=True. Whole Mamba: kind "mamba" with positions="none", channel="none" and
    norm="rms".
    """
    mixers = {"kind": kind, **settings} if isinstance(kind, str) else _listed(kind, settings)
    values = {"vocab": vocab, "dim": dim, "depth": depth, "context": context, "ffn": 4 * dim if ffn is None else ffn}
    beside = {"dropout": dropout, "positions": positions, "channel": channel, "embed_norm": embed_norm, "norm": norm}
    return Decoder(read(DecoderConfig, {**values, **beside, "mixer": mixers}))


def save(model: Decoder, folder: str | Path, *, tokenizer: Any = None) -> Path:
    """Saves a model, and the tokenizer if given (or carried as `model.tokenizer`), so that `load` finds it."""
    return stored.save(model, folder, tokenizer=tokenizer or model.tokenizer)


def load(folder: str | Path, *, step: int | None = None, device: str = "cpu") -> Decoder:
    """The model of a run or of `save`, with its tokenizer as `model.tokenizer` (None where the run has none)."""
    model, run = stored.load(folder, step=step, device=chosen(device))
    if run.tokenizer.is_file():
        model.tokenizer = Tokenizer.load(run.tokenizer)
        known, vocab = model.tokenizer.vocab, model.config.vocab
        if known > vocab:
            raise ValueError(f"{run.tokenizer} has {known} tokens, the model {vocab}: put the run's own tokenizer back")
    return model


def _listed(kinds: Any, settings: dict[str, Any]) -> list[dict[str, Any]]:
    if not isinstance(kinds, (list, tuple)) or not all(isinstance(entry, dict) for entry in kinds):
        raise ValueError(f"kind is a mixer's name, or a list such as [{{'kind': 'she'}}], not {kinds!r}")
    if settings:
        raise ValueError(f"in a list, each mixer carries its settings itself: move {', '.join(settings)} into it")
    return list(kinds)


def _positive(**sizes: int | None) -> None:
    for name, size in sizes.items():
        if size is not None and (not isinstance(size, Integral) or size < 1):
            raise ValueError(f"{name} must be a whole number of at least 1, not {size!r}")
