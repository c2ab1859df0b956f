"""Calls that a user may make by mistake, each for a few mixers; `make sanitize` makes many more."""

import random

import pytest
import torch

from tests.contract.cases import CASES, DIM, draw
from tests.sanitize import call_cases

LINES = [case for case in CASES if case.first and case.causal and case().traits.streams]


@pytest.mark.parametrize("name", sorted({**call_cases.ANY, **call_cases.STREAMING}.keys() - {"compiled"}))
def test_each_way_ends_well(name: str) -> None:
    way = {**call_cases.ANY, **call_cases.STREAMING}[name]
    chance = random.Random(name)
    for make in chance.sample(LINES, 6):
        call, must = way(make(), draw(2, 3, DIM), chance)
        assert call_cases.fault(call, must) == "", str(make)


def test_a_text_of_torch_is_a_fault() -> None:
    assert call_cases.fault(lambda: torch.tensor("x"), False).startswith("not a clear line: TypeError")
    assert call_cases.fault(lambda: torch.zeros(2) @ torch.zeros(3), False).startswith("RuntimeError")
    assert call_cases.fault(lambda: None, True) == "no error"
