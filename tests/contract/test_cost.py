"""The price is what the reference executes, and adds up: token by token, with the parameters and with the state."""

import torch

from seqloom.analysis.count import count
from seqloom.core.cost import NAMES
from seqloom.ops.backends import known, use
from tests.contract.cases import DIM, Make, draw, every_example, fits, refused, streams

OPERATIONS = ("mul", "add", "div", "exp", "other")
REFERENCE = {op: "reference" for op, backends in known().items() if "reference" in backends}
COUNTED = (1, 2, 5, 6, 9)
"""lengths whose operations are counted: up to the context, at it and beyond it"""


def check_cost(make: Make) -> None:
    """Promise 10: what the reference executes; the tokens' prices sum to the sequence's; parameters and state."""
    mixer = make()
    prices = {T: mixer.cost(T) for T in range(1, fits(mixer, 9) + 1)}
    held = sum(parameter.numel() for parameter in mixer.parameters())
    for T, price in prices.items():
        assert all(type(getattr(price, name)) is int and getattr(price, name) >= 0 for name in NAMES)
        assert price.params == held, f"the price says {price.params} parameters, the module has {held}"
        assert price.path, "the price has no critical path"
        assert price == mixer.cost(T, per="sequence")
    for T in (T for T in COUNTED if T in prices):
        x = draw(1, T, DIM)
        with torch.no_grad(), use(**REFERENCE):
            executed = count(lambda: mixer(x))  # noqa: B023  it runs here
        for name in OPERATIONS:
            said, ran = getattr(prices[T], name), getattr(executed, name)
            assert said == ran, f"the price of {T} tokens says {name} {said}, the reference executes {ran}"
    if not streams(make):
        refused(lambda: mixer.cost(3, per="token"))
        return
    for T, price in prices.items():
        token = mixer.cost(T, per="token")
        assert token.params == held
        assert token.state == price.state
        for name in OPERATIONS:
            before = getattr(prices[T - 1], name) if T > 1 else 0
            difference = getattr(price, name) - before
            assert difference == getattr(token, name), (
                f"{name} of {T} tokens exceeds that of {T - 1} by {difference}, token {T} is said to cost "
                f"{getattr(token, name)}"
            )
        with torch.no_grad():
            for batch in (1, 3):
                state = mixer.trim(mixer.extend(draw(batch, T, DIM), mixer.start(batch))[1])
                numbers = sum(tensor.numel() for name, tensor in state.items() if name != "seen")
                assert numbers == batch * price.state, f"a row holds {numbers / batch} after {T}, priced {price.state}"


@every_example
def test_the_price_adds_up(make: Make) -> None:
    check_cost(make)
