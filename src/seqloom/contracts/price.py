"""Promise 10: the price is what the forward executes, and adds up, token by token, with parameters and state."""

from typing import Any

import torch
from torch import nn

from seqloom.contracts.finding import Broken, NotApplicable, promise
from seqloom.contracts.subject import Subject, forward, streams
from seqloom.core.cost import NAMES, Cost
from seqloom.core.mixer import Mixer
from seqloom.counting.count import Executed, Unpriced, count
from seqloom.ops.backends import known_backends, use

OPERATIONS = ("mul", "add", "div", "exp", "other")
COUNTED = (1, 2, 5, 6, 9)
"""lengths whose operations are counted: up to the context, at it and beyond it"""


@promise("price")
def price(subject: Subject) -> str:
    """`cost(T)` equals the operations counted on the forward, with each op by its reference."""
    module = subject.module()
    cost: Any = getattr(module, "cost", None)
    if not callable(cost):
        raise NotApplicable("it has no cost(T)")
    if not isinstance(cost(1), Cost):
        raise NotApplicable(f"its cost(T) is {type(cost(1)).__name__}, not seqloom.core.cost.Cost")
    prices: dict[int, Cost] = {T: cost(T) for T in range(1, subject.fits(module, 9) + 1)}
    for T, value in prices.items():
        _check_form(module, T, value)
    for T in (T for T in COUNTED if T in prices):
        _check_count(subject, module, T, prices[T])
    if isinstance(module, Mixer) and streams(module):
        for T in prices:
            _check_token(subject, module, T, prices)
    total = prices[max(prices)].total
    return f"exactly: {total:,} operations for {max(prices)} tokens, counted"


def _check_form(module: nn.Module, T: int, cost: Cost) -> None:
    """Broken unless the counts are whole numbers, and the parameters those of the module; of a mixer also the path."""
    for name in NAMES:
        value = getattr(cost, name, None)
        if type(value) is not int or value < 0:
            raise Broken(f"{name} of {T} tokens is {value!r}, not a whole number of 0 or more")
    in_module = sum(parameter.numel() for parameter in module.parameters())
    if cost.params != in_module:
        raise Broken(
            f"the price says {cost.params} parameters, the module has {in_module}", abs(cost.params - in_module)
        )
    if not isinstance(module, Mixer):
        return
    if not cost.path:
        raise Broken("the price has no critical path")
    if cost != module.cost(T, per="sequence"):
        raise Broken(f"cost({T}) is not that per sequence")


def _check_count(subject: Subject, module: nn.Module, T: int, cost: Cost) -> None:
    """Broken unless the price has as many operations of each kind as the forward executes."""
    executed = _count_executed(subject, module, T)
    for name in OPERATIONS:
        priced, ran = getattr(cost, name), getattr(executed, name)
        if priced != ran:
            raise Broken(
                f"the price of {T} tokens says {name} {priced}, the reference executes {ran}", abs(priced - ran)
            )


def _count_executed(subject: Subject, module: nn.Module, T: int) -> Executed:
    """The operations that the forward executes on one row of T tokens, with each op by its reference."""
    x = subject.draw(1, T, subject.dim)
    reference = {op: "reference" for op, names in known_backends().items() if "reference" in names}
    with torch.no_grad(), use(**reference):
        try:
            return count(lambda: forward(module, x))
        except Unpriced as error:
            raise NotApplicable(f"its forward cannot be counted: {', '.join(error.ops)} have no price here") from None


def _check_token(subject: Subject, mixer: Mixer, T: int, prices: dict[int, Cost]) -> None:
    """The tokens' prices sum to the sequence's, and the state has the size in the price."""
    token = mixer.cost(T, per="token")
    sequence = prices[T]
    if (token.params, token.state) != (sequence.params, sequence.state):
        raise Broken(f"parameters and state of token {T} are not those of {T} tokens")
    for name in OPERATIONS:
        before = getattr(prices[T - 1], name) if T > 1 else 0
        difference = getattr(sequence, name) - before
        if difference != getattr(token, name):
            raise Broken(
                f"{name} of {T} tokens exceeds that of {T - 1} by {difference}, token {T} is said to cost "
                f"{getattr(token, name)}",
                abs(difference - getattr(token, name)),
            )
    with torch.no_grad():
        for batch in (1, 3):
            _, state = mixer.extend(subject.draw(batch, T, subject.dim), mixer.start(batch))
            numbers = sum(tensor.numel() for name, tensor in mixer.trim(state).items() if name != "length")
            if numbers != batch * sequence.state:
                raise Broken(f"a row holds {numbers / batch} after {T}, priced {sequence.state}")
