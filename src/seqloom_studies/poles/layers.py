"""Distills one layer: replaces an Extractor's taps by fitted poles, and computes the error of the fit."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from seqloom.core.mixer import Mixer
from seqloom.mixers.extractors.extractors import Extractor
from seqloom.mixers.extractors.modal_extractor import ModalExtractor, ModalExtractorConfig
from seqloom.ops.state_space.pole_fit import Poles, bound, response


@final
@dataclass(frozen=True)
class Layer:
    """The error of a layer's stored poles; sums are over the lags of the worst channel.

    For any inputs between -1 and 1 the error of the extraction is at most `inside` + `beyond`.
    """

    number: int
    kind: str
    error: float
    """relative error of the taps w by the poles' taps ŵ, in the 2-norm"""
    inside: float
    """Σ |w - ŵ| within the context"""
    beyond: float
    """Σ |ŵ| beyond the context, where w is 0"""
    taps: float
    """Σ |w|, the largest value that the extraction can have"""
    state: tuple[int, ...]
    """bytes of a row's state, before and after"""


def unsuitable_reason(mixer: Mixer, kind: str) -> str | None:
    """The reason why poles cannot be fitted to a mixer; None where they can."""
    if not isinstance(mixer, Extractor):
        return f"{kind} is no Extractor"
    return f"{kind}'s taps are matrices, which are not fitted" if mixer.w_ext.ndim > 2 else None


def modal(mixer: Extractor, order: int) -> ModalExtractorConfig:
    """The settings of the mixer that replaces it."""
    return ModalExtractorConfig(
        order=order,
        taps="shared" if mixer.w_ext.ndim == 1 else "channel",
        in_proj=mixer.w_in is not None,
        adjust=mixer.w_adj is not None,
        out_proj=mixer.w_out is not None,
    )


@torch.no_grad()
def set_poles(poles: Poles, old: Extractor, new: ModalExtractor) -> None:
    """Sets the poles of a new mixer, and copies the weights that it shares with the old one."""
    shared = {name: tensor for name, tensor in old.state_dict().items() if name != "w_ext"}
    new.load_state_dict({**new.state_dict(), **shared})
    new.log_rate.copy_(torch.log(-poles.rates.real))
    new.frequency.copy_(poles.rates.imag)
    new.c.copy_(torch.view_as_real(poles.weights))
    new.d.copy_(taps(old)[0] - 2 * new.c[..., 0].double().sum(1))  # from the rounded c, so that lag 0 is exact


def fit_of(number: int, kind: str, old: Extractor, new: ModalExtractor) -> Layer:
    """The errors of a layer's stored poles."""
    w = taps(old)
    rates = torch.complex(-new.log_rate.double().exp(), new.frequency.double()).detach()
    poles = Poles(rates, torch.view_as_complex(new.c.detach().double()), new.d.detach().double())
    error = (response(poles, len(w)) - w).norm()
    norm = w.norm()
    inside, beyond = bound(w, poles)
    worst = (inside + beyond).argmax()
    return Layer(
        number,
        kind,
        float(error / norm) if norm else float(error),
        float(inside[worst]),
        float(beyond[worst]),
        float(w.abs().sum(0).max()),
        tuple(mixer.cost(len(w), "token").state * mixer.dtype.itemsize for mixer in (old, new)),
    )


def taps(mixer: Extractor) -> Tensor:
    """The taps (L, D) in float64, or (L, 1) where all channels share them."""
    w = mixer.w_ext.detach().double()
    return w[:, None] if w.ndim == 1 else w
