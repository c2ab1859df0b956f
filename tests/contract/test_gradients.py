"""The gradients of the input and of every parameter, at more tokens than any block of an op, and through the state."""

import pytest

from seqloom.contracts.gradients import gradients
from tests.contract.cases import Make, every_kind, holds, other_examples


def check_gradients(make: Make) -> None:
    """Promise 8, of first derivatives, for each input alone and with the backends that are chosen at these lengths."""
    holds(gradients, make)


@every_kind
def test_gradients_of_long_sequences(make: Make) -> None:
    check_gradients(make)


@pytest.mark.slow
@other_examples
def test_gradients_of_other_examples(make: Make) -> None:
    check_gradients(make)
