"""The price equals the operations of the reference, and adds up: per token, with parameters and state."""

from seqloom.contracts.price import price
from tests.contract.cases import Make, every_mixer, holds, refused, streams


def check_cost(make: Make) -> None:
    """Promise 10: what the reference executes; the tokens' prices sum to the sequence's; parameters and state."""
    holds(price, make)
    if not streams(make):
        refused(lambda: make().cost(3, per="token"))


@every_mixer
def test_the_price_adds_up(make: Make) -> None:
    check_cost(make)
