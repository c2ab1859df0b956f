"""What a layer of any package does, found by reading a few tokens with it: whether it can stand where a mixer stands.

An error names a layer that changes the shape, ignores the dtype, keeps state on itself, or streams other outputs than
it reads at once. What it merely cannot do is in `Findings`. Nothing is drawn from the program's random numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from seqloom.core.arguments import describe_value
from seqloom.core.error_text import first_line
from seqloom.core.named_object import one_line
from seqloom.core.shapes import Stream
from seqloom.core.state_spec import StateEntry, StateSpec

TOKENS = 8
SEED = 7
CLOSE = 1e-4
"""the largest difference of equal outputs in float32, as a part of the largest output"""
OTHERS = (torch.float64, torch.bfloat16)
"""dtypes that are tried besides float32"""


@final
@dataclass(frozen=True)
class Findings:
    """What a layer does."""

    causal: bool
    """whether no output depends on a later token"""
    tree: TreeSpec | None = None
    """the structure of its state; None where it does not stream"""
    state_spec: StateSpec | None = None
    """the tensors of its state, in order; None where it does not stream"""
    limitations: tuple[str, ...] = ()
    """phrases that follow "it cannot" """

    def __deepcopy__(self, memo: dict[int, Any]) -> "Findings":
        return self  # nothing of it changes


class NoState(Exception):
    """The state of a layer is no tree of tensors of a fixed size; the message says what it is."""


def probe_layer(name: str, build: Callable[[], nn.Module], dim: int, context: int | None) -> Findings:
    """What the layer that `build` makes does with rows of `dim` channels. ValueError, which names it, as above."""
    T = min(TOKENS, context or TOKENS)
    with torch.device("cpu"), torch.random.fork_rng(devices=[]), torch.no_grad():
        x = torch.randn(2, T, dim, generator=torch.Generator().manual_seed(SEED))
        device = _device_of(name, build, x)
        x = x.to(device)
        layer = _make(build, torch.float32, device)
        y = _read(name, layer, x)
        _require_no_memory(name, layer, _make(build, torch.float32, device), x, y)
        limitations = [limit for dtype in OTHERS if (limit := _try_dtype(name, build, x.to(dtype)))]
        causal = _is_causal(layer, x, y)
        if not causal or not (callable(getattr(layer, "start", None)) and callable(getattr(layer, "step", None))):
            return Findings(causal, limitations=tuple(limitations))
        try:
            tree, state_spec = _state_of(name, layer, _make(build, torch.bfloat16, device))
            _require_steps(name, layer, tree, state_spec, x, y)
        except NoState as why:
            limitations.append(f"be read on from its own state in a model: {why}")
            return Findings(causal, limitations=tuple(limitations))
        return Findings(causal, tree, state_spec, tuple(limitations))


def layer_output(y: Any) -> Any:
    """The outputs of a layer that returns them alone, or first of several things, as layers with a cache do."""
    return y[0] if isinstance(y, tuple) and y else y


def require_output(name: str, y: Any, x: Stream) -> Stream:
    """The outputs; ValueError, which names the layer, unless they have the shape and the dtype of x."""
    y = layer_output(y)
    if not isinstance(y, Tensor) or y.shape != x.shape:
        raise ValueError(
            f"{name} changes the shape: of {tuple(x.shape)} it makes {describe_value(y)}; a mixer keeps (B, T, D)"
        )
    if y.dtype != x.dtype and not torch.is_autocast_enabled(x.device.type):
        made, given = (str(tensor.dtype).removeprefix("torch.") for tensor in (y, x))
        raise ValueError(f"{name} ignores the dtype: of {given} it makes {made}")
    return y


def _make(build: Callable[[], nn.Module], dtype: torch.dtype, device: torch.device) -> nn.Module:
    torch.manual_seed(SEED)
    return build().to(device, dtype).eval()


def _read(name: str, layer: nn.Module, x: Stream) -> Stream:
    """The outputs at x, of random numbers that are the same each time."""
    torch.manual_seed(SEED)
    with one_line(f"{name} cannot read {tuple(x.shape)}"):
        y = layer(x)
    return require_output(name, y, x)


def _device_of(name: str, build: Callable[[], nn.Module], x: Stream) -> torch.device:
    """The CPU, or the GPU for a layer that computes there alone."""
    cpu = torch.device("cpu")
    if not torch.cuda.is_available():
        return cpu
    try:
        _read(name, _make(build, torch.float32, cpu), x)
    except ValueError:
        return torch.device("cuda")
    return cpu


def _require_no_memory(name: str, layer: nn.Module, other: nn.Module, x: Stream, y: Stream) -> None:
    """ValueError where what a layer read before changes what it reads next, or a training pass changes its tensors."""
    _read(name, other, torch.randn(3, max(1, x.shape[1] - 3), x.shape[2]).to(x))
    if not _are_close(_read(name, other, x), y):
        raise ValueError(f"{name} keeps state on itself: the same tokens give other outputs after others were read")
    before = {key: tensor.clone() for key, tensor in other.state_dict().items()}
    _read(name, other.train(), x)
    changed = [key for key, tensor in other.state_dict().items() if not torch.equal(tensor, before[key])]
    if changed:
        raise ValueError(f"{name} keeps state on itself: reading changes its {changed[0]}")


def _try_dtype(name: str, build: Callable[[], nn.Module], x: Stream) -> str | None:
    """What the layer cannot do in the dtype of x, if anything; ValueError where it ignores the dtype."""
    try:
        y = _make(build, x.dtype, x.device)(x)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a layer of a user raises
        return f"compute in {str(x.dtype).removeprefix('torch.')} ({type(error).__name__}: {first_line(error)[:80]})"
    require_output(name, y, x)
    return None


def _is_causal(layer: nn.Module, x: Stream, y: Stream) -> bool:
    """Whether outputs before the middle stay where later tokens are others; True for a single token."""
    middle = x.shape[1] // 2
    other = torch.cat([x[:, :middle], 1 - 2 * x[:, middle:]], 1)
    return _are_close(_read("the layer", layer, other)[:, :middle], y[:, :middle])


def _are_close(result: Tensor, expected: Tensor) -> bool:
    if not result.numel():
        return True
    return bool((result - expected).abs().max() <= CLOSE * max(float(expected.abs().max()), 1e-6))


def _state_of(name: str, layer: Any, narrow: Any) -> tuple[TreeSpec, StateSpec]:
    """The structure and the tensors of the state; `narrow` is the same layer in bfloat16. Raises NoState."""
    with one_line(f"{name} cannot start"):
        one, two, narrow_one = layer.start(1), layer.start(2), narrow.start(1)
    leaves, tree = tree_flatten(one)
    more_leaves, _ = tree_flatten(two)
    narrow_leaves, _ = tree_flatten(narrow_one)
    state_spec = {}
    for number, (leaf, more, less) in enumerate(zip(leaves, more_leaves, narrow_leaves, strict=True)):
        if not isinstance(leaf, Tensor) or leaf.ndim == 0 or (more.shape != (2, *leaf.shape[1:])) or len(leaf) != 1:
            raise NoState(f"it holds {describe_value(leaf)}, where tensors have the rows first")
        if not leaf.is_floating_point() and leaf.dtype != torch.long:
            raise NoState(f"it holds {describe_value(leaf)}, where whole numbers are in int64")
        is_wide = less.dtype == leaf.dtype
        kind: Any = "count" if leaf.dtype == torch.long else "wide" if is_wide else "parameters"
        state_spec[f"s{number}"] = StateEntry(tuple(leaf.shape[1:]), kind)
    return tree, state_spec


def _require_steps(name: str, layer: Any, tree: TreeSpec, state_spec: StateSpec, x: Stream, y: Stream) -> None:
    """ValueError where the outputs token by token are not those at once. NoState where the state changes its size."""
    state = layer.start(len(x))
    for position in range(x.shape[1]):
        with one_line(f"{name} cannot step"):
            output, state = layer.step(x[:, position], state)
        leaves, found = tree_flatten(state)
        sizes = [tuple(leaf.shape[1:]) if isinstance(leaf, Tensor) else None for leaf in leaves]
        if found != tree or sizes != [entry.shape for entry in state_spec.values()]:
            raise NoState("its size changes from token to token")
        if not isinstance(output, Tensor) or output.shape != x[:, 0].shape:
            raise ValueError(f"{name}.step makes {describe_value(output)} of a token {tuple(x[:, 0].shape)}")
        if not _are_close(output, y[:, position]):
            raise ValueError(
                f"{name} streams something else than it reads at once, from token {position} on: mend its step, or "
                f"remove it; `seqloom verify {name}` has more"
            )


def flatten_state(findings: Findings, state: Any) -> dict[str, Tensor]:
    """The tensors of a layer's own state by the names of `state_spec`."""
    assert findings.state_spec is not None
    leaves, found = tree_flatten(state)
    if found != findings.tree:
        raise ValueError("the layer's step returns a state of another structure than its start")
    return dict(zip(findings.state_spec, leaves, strict=True))


def unflatten_state(findings: Findings, entries: dict[str, Tensor]) -> Any:
    """The layer's own state from the tensors by name."""
    assert findings.tree is not None
    assert findings.state_spec is not None
    return tree_unflatten([entries[name] for name in findings.state_spec], findings.tree)
