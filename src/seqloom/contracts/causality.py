"""Promise 1: no output depends on a later input, by gradient and by perturbation."""

import math
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from seqloom.contracts.finding import Broken, Largest, NotApplicable, largest, promise
from seqloom.contracts.subject import Subject, draw
from seqloom.core.mixer import Mixer
from seqloom.ops import backends
from seqloom.ops.bucketing import choices

CHANGES = (1.0, 100.0)
"""changes of later inputs: within the usual range, and far out of it"""
FAR = (1e6,)
"""the same for a mixer, which must tolerate more"""


@promise("causality")
def causality(subject: Subject) -> Largest | str:
    """An output depends on its own input and on no later one; a mixer that is never causal does look ahead."""
    module = subject.module()
    if isinstance(module, Mixer) and module.traits.causal == "never":
        return _looks_ahead(subject, module)
    ahead = isinstance(module, Mixer) and module.traits.causal != "always"
    if ahead or not subject.causal:
        raise NotApplicable("it may look ahead")
    x = subject.draw(2, subject.fits(module, (subject.contexts[0] or 16) + 4), subject.dim)
    worst = Largest(subject.scale)
    exactly = subject.exact and _sums_lags(module, x)  # a mixer without it has one forward, whatever is forced
    for forced in ({"lag_sum": "direct"}, {"lag_sum": "reference"}) if exactly else ({},):
        with backends.use(**forced):
            worst = _larger(worst, _read(subject, module, x, 0.0 if subject.exact else _share(subject, module, x)))
    if len(subject.contexts) == 1:
        return worst
    wide = subject.module(subject.contexts[-1])
    x = subject.draw(4, subject.fits(wide, (subject.contexts[-1] or 16) + 5), subject.dim)
    choices = ({}, {"lag_sum": "fft"}) if _sums_lags(wide, x) else ({},)
    for forced in choices:
        with backends.use(**forced):
            worst = _larger(worst, _read(subject, wide, x, _share(subject, wide, x)))
    return worst


def _sums_lags(module: nn.Module, x: Tensor) -> bool:
    with torch.no_grad(), backends.recorded() as ran:
        module(x)
    return "lag_sum" in ran


def _looks_ahead(subject: Subject, module: nn.Module) -> str:
    few = 16 if isinstance(module, Mixer) and module.traits.selects_ahead else 2  # not all tokens share a bucket
    x = subject.draw(1, subject.fits(module, few), subject.dim)
    last = x.shape[1] - 1
    output = "output 0" if last == 1 else f"some output before {last}"
    with torch.no_grad():
        moved = (module(torch.cat([x[:, :last], x[:, last:] + 1.0], 1)) - module(x))[0, :last].abs().max()
    if float(moved) == 0:
        raise Broken(f"its traits say that it is bidirectional, and {output} does not depend on input {last}")
    return f"it is bidirectional: {output} depends on input {last}"


def leak(module: nn.Module, T: int, change: float, eps: float = torch.finfo(torch.float64).eps) -> float:
    """The bound on what the FFT carries back of a change: 8 eps · change · Σ|w| · log2(2T), through the projections."""
    return 8 * eps * change * gain(module) * math.log2(2 * T)


def gain(module: nn.Module) -> float:
    """A bound on how much projections and taps enlarge a number: the product of their largest sums."""
    product = 1.0
    for parameter in module.parameters():
        size = parameter.detach().abs().double().flatten(1) if parameter.ndim > 1 else parameter.detach().abs()[None]
        columns = parameter.detach().abs().flatten(0, -2).sum(0).max() if parameter.ndim > 1 else size.sum()
        product *= max(1.0, float(size.sum(1).max()), float(columns))
    return product


def _share(subject: Subject, module: nn.Module, x: Tensor) -> float:
    """The bound on what rounding carries back, as a share of a change; too small to hide a leak."""
    return min(10 * subject.rounding * subject.scale, leak(module, x.shape[1], 1.0, subject.eps))


def _read(subject: Subject, module: nn.Module, x: Tensor, share: float) -> Largest:
    """The largest influence of a later token on an output, by perturbing inputs and by gradients."""
    with largest(subject.scale) as by_perturbation:
        _perturb(module, x, share, by_perturbation)
    with largest(subject.scale) as by_gradient:
        _differentiate(module, x, share, by_gradient)
    return _larger(by_perturbation, by_gradient)


@choices.soft_too()
def _perturb(module: nn.Module, x: Tensor, share: float, worst: Largest) -> None:
    """What a mixer chooses by later tokens (`selects_ahead`) is held fixed: only what it reads must be earlier."""
    ahead = isinstance(module, Mixer) and module.traits.selects_ahead
    with torch.no_grad():
        with choices.recorded() as made:
            y = module(x)
        for change in FAR if isinstance(module, Mixer) else CHANGES:
            for position in range(1, x.shape[1]):
                later = draw(*x[:, position:].shape, seed=position, dtype=x.dtype).sign()
                changed = torch.cat([x[:, :position], x[:, position:] + change * later], 1)
                with choices.fixed(made) if ahead else nullcontext():
                    gaps = (module(changed) - y)[:, :position].abs().amax((0, 2))
                first = int((gaps > share * change).int().argmax())
                where = f"output {first} moved by" if gaps[first] > share * change else "earlier outputs moved by"
                moved = f"with inputs from {position} on moved by {change:g}, {where}"
                worst.note(float(gaps.max()), share * change, moved)


def _differentiate(module: nn.Module, x: Tensor, share: float, worst: Largest) -> None:
    """Compares gradients; choices, also those by weights, are held fixed and have no gradients."""
    x = x.clone().requires_grad_()
    with choices.soft_too():
        with torch.no_grad(), choices.recorded() as made:
            module(x)
        with choices.fixed(made):
            y = module(x)
    for position in range(x.shape[1]):
        out = draw(len(x), x.shape[2], seed=position, dtype=x.dtype)
        (slope,) = torch.autograd.grad(y[:, position], x, out, retain_graph=True)
        allowed = share * max(1.0, float(out.abs().max()))
        later = slope[:, position + 1 :].abs()
        if later.numel():
            worst.note(float(later.max()), allowed, f"output {position} has a gradient to later inputs of")
        if float(slope[:, position].abs().max()) == 0:
            worst.note(torch.inf, 0.0, f"output {position} does not depend on its own input: difference")


def _larger(first: Largest, other: Largest) -> Largest:
    return other if other.difference > first.difference else first
