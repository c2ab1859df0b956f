"""The subject that a user names: `package.module:Thing`, `file.py:Thing`, or a registered mixer.

Parameters that begin constant (zeros, ones) are moved a little, so that a zero does not hide errors in later layers.
"""

from typing import Any

import torch
from torch import Tensor, nn

from seqloom.contracts.maker import Make, describe_value, maker, resolve, takes
from seqloom.contracts.subject import CPU, Build, Subject, working_dtype
from seqloom.core.config import suggestion
from seqloom.core.mixer import Mixer
from seqloom.core.named_object import one_line
from seqloom.mixers.layer_probe import layer_output

WIDEST = 16
"""the context where none is given"""
SMALLEST = 5
NOISE = 0.1
"""standard deviation of the noise added to a constant parameter"""
SEED = 7


def subject_of(
    target: str,
    *,
    dim: int,
    context: int | None = None,
    settings: dict[str, Any] | None = None,
    causal: bool = True,
    dtype: torch.dtype | None = None,
    device: torch.device = CPU,
    reference: str | None = None,
) -> Subject:
    """The subject behind a name, in its causal form unless `causal` is False.

    dtype       the dtype of parameters and inputs; None for float64, or float32 where the layer cannot have that
    device      where parameters and inputs are
    reference   the name of the same layer, written plainly: its parameters have the same names and shapes

    Raises ValueError, in one line, for what cannot be imported or built, or is no module.
    """
    make, bounded = maker(target, resolve(target), dim, settings or {}, causal)
    widest = context or WIDEST

    def build(size: int | None, dtype: torch.dtype, /) -> nn.Module:
        return _make_seeded(make, size or widest, dtype, device)

    first_dtype = dtype or torch.float32
    with one_line(f"{target} cannot be built"):
        sample, again = build(widest, first_dtype), build(widest, first_dtype)
        mixer = isinstance(sample, Mixer)
        if mixer:
            build(min(SMALLEST, widest), first_dtype)
    _require_same(target, sample, again)
    scale = _largest_output(target, sample, _sample(first_dtype, dim, device))
    dtype, working = _dtypes(target, build, widest, dim, device) if dtype is None else (
        dtype, working_dtype(sample, _sample(dtype, dim, device))
    )  # fmt: skip
    plain = None if reference is None else reference_of(reference, sample, dim, widest, settings or {}, causal)
    return Subject(
        target,
        dim,
        build,
        contexts=(min(SMALLEST, widest), widest) if mixer else (widest,),
        dtype=dtype,
        working=working,
        scale=scale,
        causal=causal,
        longest=widest if bounded or context else None,
        device=device,
        free=context is None,
        reference=plain,
    )


def reference_of(
    target: str, sample: nn.Module, dim: int, context: int, settings: dict[str, Any], causal: bool
) -> Build:
    """Builds the module of this name on the CPU, of the settings that it takes.

    Raises ValueError, in one line, unless its parameters are those of `sample` by name and shape.
    """
    thing = resolve(target)
    given = {name: value for name, value in settings.items() if takes(thing, name)}
    make, _ = maker(target, thing, dim, given, causal)

    def build(size: int | None, dtype: torch.dtype, /) -> nn.Module:
        return _make_seeded(make, size or context, dtype, CPU)

    with one_line(f"{target} cannot be built"):
        plain = build(context, torch.float64)
    shapes, expected = (
        {name: tuple(weight.shape) for name, weight in module.named_parameters()} for module in (plain, sample)
    )
    for name, shape in expected.items():
        if name not in shapes:
            raise ValueError(f"{target} has no parameter {name!r}, which the layer has; {suggestion(name, shapes)}")
        if shapes[name] != shape:
            raise ValueError(f"{target} has {name!r} of shape {shapes[name]}, the layer of {shape}")
    for name in shapes:
        if name not in expected:
            raise ValueError(f"{target} has a parameter {name!r}, which the layer lacks; {suggestion(name, expected)}")
    return build


def _make_seeded(make: Make, context: int, dtype: torch.dtype, device: torch.device) -> nn.Module:
    """The module of this context with the same parameters at every call, in evaluation mode."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        module = make(context)
    if not isinstance(module, Mixer):
        module.register_forward_hook(_take_outputs)
    return _with_noise(module).to(device, dtype).eval()


def _take_outputs(module: nn.Module, arguments: Any, y: Any) -> Any:
    """A hook: the outputs of a layer that returns them first of several things."""
    return layer_output(y)


def _with_noise(module: nn.Module) -> nn.Module:
    """The module, after noise was added to its trainable parameters that are constant."""
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for parameter in module.parameters():
            if not (parameter.requires_grad and parameter.is_floating_point() and parameter.numel()):
                continue
            if bool((parameter == parameter.flatten()[0]).all()):
                noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.add_((NOISE * noise).to(parameter.device, parameter.dtype))
    return module


def _require_same(target: str, first: nn.Module, second: nn.Module) -> None:
    """ValueError where two modules of one seed differ."""
    second_state = second.state_dict()
    for name, tensor in first.state_dict().items():
        if not torch.equal(tensor, second_state[name]):
            raise ValueError(
                f"{target} is another module each time: {name} differs under the same seed (was it ever initialized?)"
            )


def _dtypes(target: str, build: Build, context: int, dim: int, device: torch.device) -> tuple[torch.dtype, torch.dtype]:
    """The dtype of comparisons, float64 if the module takes it, and the narrowest dtype that it computes in."""
    try:
        x = _sample(torch.float64, dim, device)
        with one_line(f"{target} cannot be built"):
            wide = build(context, torch.float64)
        _largest_output(target, wide, x)
    except (ValueError, TypeError):  # TypeError: a device without float64
        return torch.float32, torch.float32
    return torch.float64, working_dtype(wide, x)


def _sample(dtype: torch.dtype, dim: int, device: torch.device) -> Tensor:
    """Two rows of four tokens (2, 4, D)."""
    return torch.randn(2, 4, dim, generator=torch.Generator().manual_seed(SEED)).to(device, dtype)


def _largest_output(target: str, module: nn.Module, x: Tensor) -> float:
    """The largest output. Raises ValueError unless all are finite numbers of the input's shape and dtype."""
    dtype, dim = x.dtype, x.shape[-1]
    with torch.no_grad(), one_line(f"{target} cannot read {tuple(x.shape)}, dim {dim}"):
        y = module(x)
    if not isinstance(y, Tensor) or y.shape != x.shape:
        raise ValueError(
            f"{target} makes {describe_value(y)} of {tuple(x.shape)}: wrap it in a module that keeps the shape"
        )
    if y.dtype != dtype or not bool(y.isfinite().all()):
        raise ValueError(
            f"{target} makes {describe_value(y)} of {dtype} inputs: its outputs must be finite and of the same dtype"
        )
    return float(y.abs().max()) or 1.0
