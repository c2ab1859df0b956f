"""Which layers keep attention when it is replaced: numbers as `3,7`, a share as `25%`, or `none`."""

import re

from seqloom.models.config import TransformerConfig


def layers_to_replace(config: TransformerConfig, keep: str) -> list[int]:
    """The layers whose attention goes. ValueError for what is neither numbers nor a share."""
    attention = attention_layers(config)
    kept = _layers_to_keep(attention, keep)
    unknown = sorted(kept - set(attention))
    if unknown:
        raise ValueError(f"--keep-attention names layer {unknown[0]}, which has no attention")
    layers = [number for number in attention if number not in kept]
    if not layers:
        raise ValueError(f"--keep-attention {keep} keeps attention in all layers: nothing would be replaced")
    return layers


def attention_layers(config: TransformerConfig) -> list[int]:
    """The layers with attention. ValueError where there is none."""
    attention = [number for number, mixer in enumerate(config.mixers) if mixer.kind == "attention"]
    if not attention:
        raise ValueError("no layer of the model has attention")
    return attention


def count_kept(layers: int, keep: str) -> int | None:
    """How many of so many layers a share such as 25% keeps; None where it is no share."""
    share = re.fullmatch(r"(\d{1,3})\s*%", keep)
    if share is None or int(share[1]) > 100:
        return None
    return round(layers * int(share[1]) / 100)


def _layers_to_keep(attention: list[int], keep: str) -> set[int]:
    """The layers that keep attention; a share of them is spread evenly, with the last layer among them."""
    count = count_kept(len(attention), keep)
    if count is not None:
        return {attention[(number + 1) * len(attention) // count - 1] for number in range(count)}
    if re.fullmatch(r"\d{1,6}(,\d{1,6})*", keep):
        return {int(number) for number in keep.split(",")}
    if keep == "none":
        return set()
    raise ValueError(f"--keep-attention is numbers as 3,7, a share as 25%, or none; not {keep!r}")
