"""The bytes that a step needs beyond weights and optimizer, counted by running it on tensors without values.

    activations + logits = max over the operations of forward and backward of the bytes of all tensors that are held

torch's FakeTensorMode runs the program of the step, of any model and objective, with shapes alone: a model of 350
million parameters is counted in seconds, in the memory of its names. What is held is what the program on a CPU holds;
the kernels of a GPU keep about as much, and a larger piece of the logits (`ops.fused.cross_entropy`).
"""

import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from typing_extensions import override

from seqloom.core.model_config import weightless
from seqloom.core.row_draws import RowDraws
from seqloom.training.config import RunConfig
from seqloom.training.preparation import new_learner


@final
@dataclass(frozen=True)
class PassBytes:
    """The most bytes of one forward and backward at once, next to the weights."""

    without_gradients: int
    """activations and logits, where the gradients of the weights are there before, or are counted elsewhere"""
    with_gradients: int
    """those and the gradients, which come while the activations go"""


@final
class LiveBytes(TorchDispatchMode):
    """Counts the bytes of what operations inside the block have made and is still held."""

    def __init__(self, known: Iterable[Tensor]) -> None:
        """`known` tensors are counted elsewhere, and so are views of them."""
        super().__init__()  # type: ignore[no-untyped-call]  # not typed by torch
        self.now = 0
        self.gradients = 0
        """those of `now` that are gradients of weights"""
        self.most = self.most_without_gradients = 0
        self._held = {tensor.untyped_storage()._cdata for tensor in known}

    @override
    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                self._hold(tensor)
        return out

    def settle(self, parameter: Tensor) -> None:
        """Counts the gradient of a weight as one; a hook of the backward."""
        assert parameter.grad is not None
        self.gradients += parameter.grad.nbytes

    def _hold(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        place = storage._cdata
        if place in self._held:
            return
        self._held.add(place)
        self.now += storage.nbytes()
        self.most = max(self.most, self.now)
        self.most_without_gradients = max(self.most_without_gradients, self.now - self.gradients)
        weakref.finalize(storage, self._release, place, storage.nbytes())

    def _release(self, place: int, size: int) -> None:
        self._held.discard(place)
        self.now -= size


def count_pass(config: RunConfig, rows: int, ranks: int = 1) -> PassBytes:
    """The bytes of a forward and backward of `rows` rows, one of `ranks` processes with as many.

    ValueError, which says why, where the objective has no rows before it plays, or its program depends on values.
    """
    training = config.training
    objective = training.objective.build_on_random(config.model, rows)
    batch = objective.batch(0, 0, weightless(config.model))
    width = torch.bfloat16 if training.policy == "weights" else training.dtype
    with _new_in(width), FakeTensorMode(allow_non_fake_inputs=True) as fake:
        model: Any = config.model.build().train()
        if training.recompute == "layer":
            model.recompute_layers()
        for module in model.modules():
            if isinstance(module, RowDraws):
                module.ranks = ranks
        learner = new_learner(model, objective, training)
        without_values = {
            name: fake.from_tensor(value) if isinstance(value, Tensor) else value for name, value in batch.items()
        }
        live = LiveBytes([*learner.parameters(), *learner.buffers()])
        for parameter in learner.parameters():
            parameter.register_post_accumulate_grad_hook(live.settle)
        try:
            _pass(learner, without_values, config, live)
        except RuntimeError as error:
            reason = str(error).strip().partition("\n")[0]
            raise ValueError(f"the memory of this model depends on its data and is not counted: {reason}") from None
    return PassBytes(live.most_without_gradients, live.most)


def _pass(learner: nn.Module, batch: dict[str, Any], config: RunConfig, live: LiveBytes) -> None:
    """One micro-batch, forward and backward."""
    with live:
        with config.training.autocast(torch.device("cpu")):
            result = learner(batch, {})
        losses = [*result.losses.values(), *result.extras.losses.values()]
        sum(losses[1:], losses[0]).backward()


@contextmanager
def _new_in(dtype: torch.dtype) -> Iterator[None]:
    """Inside the block, weights are made in a dtype, since those without values cannot be converted."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that a kernel of the CPU is a slower one
            yield
    finally:
        torch.set_default_dtype(before)
