"""The states of layers, sent from a process to the next one, and their gradients, sent back.

    forward    process r sends h, process r + 1 goes on from it         backward    process r + 1 sends ∂loss/∂h back

Both are steps of the graph of gradients, on the path of the stream x. So each message has its answer, also where
nothing was computed from what came, and the backward sends in the opposite order. A state is one message of bytes.

Source: none; a pipeline along the tokens, as `training.stretches` says.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, final

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import ProcessGroup, Work

from seqloom.training.group import Group


@final
class Relay:
    """The messages of this process to and from those that read the stretches before and after its own.

    A process and the next one are a group of two: torch's messages to all can be waited for with an eye on the others.
    """

    def __init__(self, group: Group, device: torch.device) -> None:
        self._group = group
        self._device = device
        self._sent: list[tuple[Work, Tensor]] = []
        self._before: ProcessGroup | None = None
        self._after: ProcessGroup | None = None
        self.bytes = 0
        """that were sent so far"""
        rank, stretches = group.mesh.rank, group.mesh.stretches
        for first in range(group.size - 1):
            if (first + 1) % stretches:
                pair = dist.new_group([first, first + 1], timeout=timedelta(seconds=group.timeout))
                self._before = pair if rank == first + 1 else self._before
                self._after = pair if rank == first else self._after

    def give(self, tensors: Sequence[Tensor]) -> None:
        """Sends tensors to the next process."""
        self._send(tensors, self._after)

    def take(self, like: Sequence[Tensor]) -> list[Tensor]:
        """What the process before gave, of the shapes and dtypes of `like`."""
        return self._receive(like, self._group.rank - 1, self._before)

    def give_back(self, gradients: Sequence[Tensor]) -> None:
        """Sends the gradients of what was taken."""
        self._send(gradients, self._before)

    def take_back(self, like: Sequence[Tensor]) -> list[Tensor]:
        """The gradients of what was given, of the shapes and dtypes of `like`."""
        return self._receive(like, self._group.rank + 1, self._after)

    def _send(self, tensors: Sequence[Tensor], pair: ProcessGroup | None) -> None:
        message = _pack(tensors, self._device)
        if not len(message):
            return
        self._sent = [sent for sent in self._sent if not sent[0].is_completed()]
        work = dist.broadcast(message, self._group.rank, group=pair, async_op=True)
        assert work is not None
        self._sent.append((work, message))  # the message must live until it has arrived
        self.bytes += len(message)

    def _receive(self, like: Sequence[Tensor], sender: int, pair: ProcessGroup | None) -> list[Tensor]:
        message = torch.empty(sum(tensor.nbytes for tensor in like), dtype=torch.uint8, device=self._device)
        if len(message):
            self._group.wait(dist.broadcast(message, sender, group=pair, async_op=True))
        return _unpack(message, like)


def _pack(tensors: Sequence[Tensor], device: torch.device) -> Tensor:
    """The bytes of tensors, wide numbers first, so that each begins at a multiple of its size."""
    parts = [tensors[number].contiguous().view(-1).view(torch.uint8) for number in _by_width(tensors)]
    return torch.cat([torch.empty(0, dtype=torch.uint8, device=device), *parts])


def _unpack(message: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """The inverse of `_pack`, given tensors of the same shapes and dtypes."""
    order = _by_width(like)
    parts = message.split([like[number].nbytes for number in order])
    unpacked = {number: part.view(like[number].dtype) for number, part in zip(order, parts, strict=True)}
    return [unpacked[number].view(tensor.shape) for number, tensor in enumerate(like)]


def _by_width(tensors: Sequence[Tensor]) -> list[int]:
    """The numbers of the tensors, those of wide dtypes first."""
    return sorted(range(len(tensors)), key=lambda number: -tensors[number].itemsize)


def receive(relay: Relay, x: Tensor, like: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """x, and what the process before gives, of the shapes and dtypes of `like`; the backward sends its gradients."""
    x, *tensors = _Receive.apply(relay, _anchor(x), x, *like)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return x, tensors


def send(relay: Relay, x: Tensor, tensors: Sequence[Tensor]) -> Tensor:
    """x, while `tensors` go to the next process; the backward takes their gradients from there."""
    (x,) = _Send.apply(relay, _anchor(x), x, *tensors)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return x


def _anchor(x: Tensor) -> Tensor:
    """A number that requires gradients: what it goes through is a step of every backward, whatever else learns."""
    return torch.zeros((), device=x.device, requires_grad=True)


class _Receive(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, relay: Relay, anchor: Tensor, x: Tensor, *like: Tensor) -> tuple[Tensor, ...]:
        ctx.relay = relay
        ctx.floats = [tensor.is_floating_point() for tensor in like]
        received = relay.take(like)
        ctx.mark_non_differentiable(*(tensor for tensor in received if not tensor.is_floating_point()))
        return x.view_as(x), *received

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, *of_states = gradients
        ctx.relay.give_back([part for part, is_float in zip(of_states, ctx.floats, strict=True) if is_float])
        return None, None, x, *(None for _ in of_states)


class _Send(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, relay: Relay, anchor: Tensor, x: Tensor, *tensors: Tensor) -> tuple[Tensor]:
        ctx.relay = relay
        ctx.like = [torch.empty_like(tensor, device="meta") for tensor in tensors]
        relay.give(tensors)
        return (x.view_as(x),)

    @staticmethod
    def backward(ctx: Any, x: Tensor) -> tuple[Tensor | None, ...]:
        floats = [number for number, tensor in enumerate(ctx.like) if tensor.is_floating_point()]
        taken = ctx.relay.take_back([ctx.like[number] for number in floats])
        gradients = dict(zip(floats, taken, strict=True))
        return None, None, x, *(gradients.get(number) for number in range(len(ctx.like)))
