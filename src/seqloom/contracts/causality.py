"""Promise 1: no output depends on a later input, by gradient and by perturbation."""

import math
from collections.abc import Iterable
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
    may_look_ahead = isinstance(module, Mixer) and module.traits.causal != "always"
    if may_look_ahead or not subject.causal:
        raise NotApplicable("it may look ahead")
    x = subject.draw_with_repeats(2, subject.fits(module, (subject.contexts[0] or 16) + 4))
    worst = Largest(subject.scale)
    forced_backends: list[dict[str, str]] = [{}]
    if subject.exact and _uses_lag_sum(module, x):
        forced_backends = [{"lag_sum": "direct"}, {"lag_sum": "reference"}]
    for forced in forced_backends:
        with backends.use(**forced):
            share = 0.0 if subject.exact else _rounding_share(subject, module, x)
            worst = _larger(worst, _influence(subject, module, x, share))
    if len(subject.contexts) > 1:
        worst = _larger(worst, _in_wide_context(subject))
    lengths = [x.shape[1]]
    worst = _larger(worst, _at_lengths(subject, lengths))
    worst.tried = f"at lengths of {_format_lengths(lengths)}"
    return worst


def _in_wide_context(subject: Subject) -> Largest:
    """The largest influence in the last context, by the FFT too where lags are summed."""
    worst = Largest(subject.scale)
    wide = subject.module(subject.contexts[-1])
    x = subject.draw_with_repeats(4, subject.fits(wide, (subject.contexts[-1] or 16) + 5))
    forced_backends: list[dict[str, str]] = [{}, {"lag_sum": "fft"}] if _uses_lag_sum(wide, x) else [{}]
    for forced in forced_backends:
        with backends.use(**forced):
            worst = _larger(worst, _influence(subject, wide, x, _rounding_share(subject, wide, x)))
    return worst


def _at_lengths(subject: Subject, tried: list[int]) -> Largest:
    """The largest influence in long sequences, at few positions; the lengths that were tried are added to `tried`.

    Where the direct forms must be exact they are tested: taps that grow with the lag leave the FFT's bound no meaning.
    """
    context, most = subject.far(max(subject.lengths, default=0))
    module = subject.module(context)
    lengths = sorted({min(length, most) for length in subject.lengths} - {*tried})
    forced = {"lag_sum": "direct"} if subject.exact else {}
    with largest(subject.scale) as worst, backends.use(**forced):
        for T in lengths:
            x = subject.draw(1, T, subject.dim)
            share = 0.0 if subject.exact else _rounding_share(subject, module, x)
            positions = {T // 2, T - 1}
            if lengths[-1] == T:  # over the borders of all blocks
                positions |= {2**n + 1 for n in range(1, T.bit_length()) if 2**n + 1 < T}
            _perturb(module, x, share, worst, sorted(positions), CHANGES[-1:])
            _differentiate_sums(module, x, share, worst, sorted(positions))
            tried.append(T)
    return worst


def _format_lengths(lengths: list[int]) -> str:
    """The lengths as text, with ranges: 21, 31-33, 100."""
    ranges: list[list[int]] = []
    for length in sorted(lengths):
        if ranges and ranges[-1][-1] == length - 1:
            ranges[-1].append(length)
        else:
            ranges.append([length])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in ranges)


def _uses_lag_sum(module: nn.Module, x: Tensor) -> bool:
    """Whether the forward calls the lag sum, whose backend can then be forced."""
    with torch.no_grad(), backends.record_backends() as ran:
        module(x)
    return "lag_sum" in ran


def _looks_ahead(subject: Subject, module: nn.Module) -> str:
    """Broken unless a change of the last input changes an earlier output."""
    selects = isinstance(module, Mixer) and module.traits.selects_ahead
    missing = []
    for tokens in (16,) if selects else (2, 16):  # among 16 are tokens of one bucket, and of a dilated kernel
        x = subject.draw(1, subject.fits(module, tokens), subject.dim)
        last = x.shape[1] - 1
        output = "output 0" if last == 1 else f"some output before {last}"
        with torch.no_grad():
            changed = torch.cat([x[:, :last], x[:, last:] + 1.0], 1)
            difference = (module(changed) - module(x))[0, :last].abs().max()
        if float(difference) != 0:
            return f"it is bidirectional: {output} depends on input {last}"
        missing.append(f"{output} does not depend on input {last}")
    raise Broken(f"its traits say that it is bidirectional, and {missing[0]}")


def leak(module: nn.Module, T: int, change: float, eps: float = torch.finfo(torch.float64).eps) -> float:
    """A bound on the rounding error of the FFT in earlier outputs after a change of an input: 8 eps · change · gain ·
    log2(2T)."""
    return 8 * eps * change * gain(module) * math.log2(2 * T)


def gain(module: nn.Module) -> float:
    """A bound on how much projections and taps enlarge a number: the product of their largest sums of |weights|."""
    product = 1.0
    for parameter in module.parameters():
        sizes = parameter.detach().abs()
        if parameter.ndim > 1:
            largest_row = sizes.double().flatten(1).sum(1).max()
            largest_column = sizes.flatten(0, -2).sum(0).max()
        else:
            largest_row = largest_column = sizes.sum()
        product *= max(1.0, float(largest_row), float(largest_column))
    return product


def _rounding_share(subject: Subject, module: nn.Module, x: Tensor) -> float:
    """A bound on the rounding error in earlier outputs, as a share of an input's change; too small to hide a leak."""
    return min(10 * subject.rounding * subject.scale, leak(module, x.shape[1], 1.0, subject.eps))


def _influence(subject: Subject, module: nn.Module, x: Tensor, share: float) -> Largest:
    """The largest influence of a later token on an output, by perturbing inputs and by gradients."""
    changes = FAR if isinstance(module, Mixer) else CHANGES
    with largest(subject.scale) as by_perturbation:
        _perturb(module, x, share, by_perturbation, range(1, x.shape[1]), changes)
    with largest(subject.scale) as by_gradient:
        _differentiate(module, x, share, by_gradient)
    return _larger(by_perturbation, by_gradient)


@choices.soft_too()
def _perturb(
    module: nn.Module,
    x: Tensor,
    share: float,
    worst: Largest,
    positions: Iterable[int],
    changes: Iterable[float],
) -> None:
    """Makes each change to the inputs from each of the positions on, and notes the change of earlier outputs.

    What a mixer chooses by later tokens (`selects_ahead`) is held fixed: only what it reads must be earlier.
    """
    selects_ahead = isinstance(module, Mixer) and module.traits.selects_ahead
    with torch.no_grad():
        with choices.record_choices() as recorded:
            y = module(x)
        for change in changes:
            for position in positions:
                signs = draw(*x[:, position:].shape, seed=position, dtype=x.dtype, device=x.device).sign()
                changed = torch.cat([x[:, :position], x[:, position:] + change * signs], 1)
                with choices.fix_choices(recorded) if selects_ahead else nullcontext():
                    differences = (module(changed) - y)[:, :position].abs().amax((0, 2))
                allowed = share * change
                first = int((differences > allowed).int().argmax())
                where = f"output {first} moved by" if differences[first] > allowed else "earlier outputs moved by"
                message = f"with inputs from {position} of {x.shape[1]} on moved by {change:g}, {where}"
                worst.note(float(differences.max()), allowed, message)


def _with_fixed_choices(module: nn.Module, x: Tensor) -> Tensor:
    """The outputs, with gradients; choices, also those by weights, are fixed constants."""
    with choices.soft_too():
        with torch.no_grad(), choices.record_choices() as recorded:
            module(x)
        with choices.fix_choices(recorded):
            y: Tensor = module(x)
    return y


def _differentiate_sums(module: nn.Module, x: Tensor, share: float, worst: Largest, positions: Iterable[int]) -> None:
    """Notes the gradients to the inputs from each of the positions on, of a weighted sum of all outputs before it."""
    x = x.clone().requires_grad_()
    y = _with_fixed_choices(module, x)
    for position in positions:
        dy = draw(*y[:, :position].shape, seed=position, dtype=x.dtype, device=x.device)
        (dx,) = torch.autograd.grad(y[:, :position], x, dy, retain_graph=True)
        allowed = share * max(1.0, float(dy.abs().max()))
        message = f"outputs before {position} of {x.shape[1]} have a gradient to later inputs of"
        worst.note(float(dx[:, position:].abs().max()), allowed, message)


def _differentiate(module: nn.Module, x: Tensor, share: float, worst: Largest) -> None:
    """Notes the gradients of each output to later inputs; choices, also those by weights, are fixed constants."""
    x = x.clone().requires_grad_()
    y = _with_fixed_choices(module, x)
    for position in range(x.shape[1]):
        dy = draw(len(x), x.shape[2], seed=position, dtype=x.dtype, device=x.device)
        (dx,) = torch.autograd.grad(y[:, position], x, dy, retain_graph=True)
        allowed = share * max(1.0, float(dy.abs().max()))
        later = dx[:, position + 1 :].abs()
        if later.numel():
            worst.note(float(later.max()), allowed, f"output {position} has a gradient to later inputs of")
        if float(dx[:, position].abs().max()) == 0:
            worst.note(torch.inf, 0.0, f"output {position} does not depend on its own input: difference")


def _larger(first: Largest, other: Largest) -> Largest:
    return other if other.difference > first.difference else first
