"""The fastest products of matrices that were measured on a card, in operations a second, by the card's name.

A share of such a peak says how much of what a card can do a program uses. A card or a precision that is not here was
not measured: nothing is taken from a data sheet.

Source: a product of matrices in torch 2.11, 2026-11-26, on the card of results/gpu.jsonl; its sizes were not kept.
"""

PEAKS = {"NVIDIA H100 80GB HBM3": {"bf16": 798e12}}


def peak_of(card: str, precision: str) -> float | None:
    """Operations a second of the fastest product on a card in `training.precision`; None where it was not measured."""
    return PEAKS.get(card, {}).get(precision)
