"""Depth-Adaptive's oracles, number by number, and the kernel whose sign seed 002 leaves out."""

import math

import pytest
import torch
from torch import Tensor

from seqloom.depth.oracles import kernel, sequence_oracle, token_oracle

LIKELIHOODS = [[[-2.0, -1.5, -0.1], [-0.5, -0.4, -0.4], [-3.0, -0.2, -0.15]]]
"""ln p of three tokens after three layers"""


def values(rows: list[list[list[float]]] = LIKELIHOODS) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize(
    ("penalty", "expected"),
    [
        (0.0, 3),  # sums -5.5, -2.1, -0.65
        (1.0, 3),  # less 1, 2, 3: -6.5, -4.1, -3.65
        (2.0, 2),  # less 2, 4, 6: -7.5, -6.1, -6.65
        (4.0, 1),  # less 4, 8, 12: -9.5, -10.1, -12.65
    ],
)
def test_of_a_sequence(penalty: float, expected: int) -> None:
    assert sequence_oracle(values(), penalty).tolist() == [expected]


def test_of_tokens_alone() -> None:
    """With a narrow kernel each token is scored independently; of equal layers the first is chosen."""
    assert token_oracle(values(), 0.0, 1e-3).tolist() == [[3, 2, 3]]
    assert token_oracle(values(), 0.1, 1e-3).tolist() == [[3, 1, 2]]  # -2.1 -1.7 -0.4; -0.6 -0.6 -0.7; -3.1 -0.4 -0.45
    assert token_oracle(values(), 3.0, 1e-3).tolist() == [[1, 1, 1]]


def test_with_a_wide_kernel_all_tokens_are_the_sequence() -> None:
    for penalty in (0.0, 1.0, 2.0, 4.0):
        expected = sequence_oracle(values(), penalty).expand(3)
        assert torch.equal(token_oracle(values(), penalty, 1e12)[0], expected)


@pytest.mark.parametrize("width", [0.5, 1.0, 7.0])
def test_the_kernel_number_by_number(width: float) -> None:
    for t in range(5):
        for other in range(5):
            assert float(kernel(5, width)[t, other]) == pytest.approx(math.exp(-((t - other) ** 2) / width), abs=1e-15)


def test_smoothed_by_hand() -> None:
    """σ = 2, so that κ is 1, e^-1/2 and e^-2 at distances 0, 1 and 2; λ = 0.3."""
    near, far = math.exp(-0.5), math.exp(-2)
    weights = [[1, near, far], [near, 1, near], [far, near, 1]]
    expected = []
    for row in weights:
        scores = [
            sum(weight * token[n] for weight, token in zip(row, LIKELIHOODS[0], strict=True)) - 0.3 * (n + 1)
            for n in range(3)
        ]
        expected.append(scores.index(max(scores)) + 1)
    assert expected == [3, 3, 2]
    assert token_oracle(values(), 0.3, 2.0).tolist() == [expected]


def test_of_correctness() -> None:
    right = values([[[0, 1, 1], [0, 0, 0], [1, 0, 1]]])
    assert sequence_oracle(right, 0.0).tolist() == [3], "1, 1 and 2 right ones"
    assert sequence_oracle(right, 0.6).tolist() == [1], "0.4, -0.2, 0.2"
    assert token_oracle(right, 0.0, 1e-3).tolist() == [[2, 1, 1]]


def test_rows_do_not_see_each_other() -> None:
    two = torch.randn(2, 6, 4, dtype=torch.float64)
    both = token_oracle(two, 0.1, 3.0)
    assert torch.equal(both[:1], token_oracle(two[:1], 0.1, 3.0))
    assert torch.equal(both[1:], token_oracle(two[1:], 0.1, 3.0))


def test_seed_002_has_a_kernel_that_grows() -> None:
    """Printed: e^{+|t-t'|²/σ}. A token would be judged by the one that is farthest away, and long texts overflow."""
    rows = values([[[0.0, -1.0]] + [[0.0, 0.0]] * 4 + [[-1.0, 0.0]]])
    assert token_oracle(rows, 0.0, 1.0)[0, 0] == 1, "the first layer is best for the first token"
    printed = 1 / kernel(6, 1.0)
    assert int((printed @ rows).argmax(-1)[0, 0]) + 1 == 2, "as the last token, five places on, would have it"
    assert kernel(64, 1.0).sum(1).max() < 3
    assert torch.isinf(torch.exp(torch.tensor(63.0**2)))
