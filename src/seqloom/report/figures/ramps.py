"""Colours of the cells of a heat map, interpolated in OKLab, where equal steps look equal.

Source: Ottosson, A perceptual color space for image processing, 2020 (the matrices of OKLab).
"""

from itertools import pairwise

STEPS = 48  # colours of a ramp; a difference of one is at the limit of what is seen

# Pale to deep: lightness falls all the way, so the order holds in grey and with any colour vision.
_SEQUENTIAL = ("#f6f3e4", "#bfdcc5", "#62b3b4", "#2a7aa8", "#2b4585", "#1d1a4b")
# Blue and orange-red stay apart with all three colour-vision deficiencies; both ends are equally dark.
_BELOW = ("#f4f2ee", "#a3c6e4", "#4b87c4", "#173f86")
_ABOVE = ("#f4f2ee", "#f3bf91", "#cf6a35", "#7f2109")


def sequential(share: float) -> int:
    """The step 0 … STEPS of a share 0 … 1 of the largest value."""
    return round(min(max(share, 0.0), 1.0) * STEPS)


def diverging(share: float) -> int:
    """The step -STEPS/2 … STEPS/2 of a share -1 … 1 of the largest size."""
    return round(min(max(share, -1.0), 1.0) * (STEPS // 2))


def fill(step: int, signed: bool) -> str:
    """The colour #rrggbb of a step of the sequential or of the diverging ramp."""
    if not signed:
        return _between(_SEQUENTIAL, step / STEPS)
    return _between(_BELOW if step < 0 else _ABOVE, abs(step) / (STEPS // 2))


def _between(anchors: tuple[str, ...], share: float) -> str:
    cuts = list(pairwise(anchors))
    index = min(int(share * len(cuts)), len(cuts) - 1)
    part = share * len(cuts) - index
    low, high = (_oklab(colour) for colour in cuts[index])
    return _hex(tuple(a + part * (b - a) for a, b in zip(low, high, strict=True)))


def _oklab(colour: str) -> tuple[float, ...]:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    r, g, b = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    long = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
    medium = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    short = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
    )


def _hex(lab: tuple[float, ...]) -> str:
    lightness, a, b = lab
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    encoded = (12.92 * c if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055 for c in linear)
    return "#" + "".join(f"{round(min(max(c, 0.0), 1.0) * 255):02x}" for c in encoded)
