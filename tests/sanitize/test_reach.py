"""The random calls reach all the C: an entry that no case calls is checked by no sanitizer."""

import sys
from collections import Counter

import pytest
import torch
from torch import Tensor

from seqloom.ops.native import NativeFunction
from tests.ops.needing import needs_native
from tests.sanitize import op_cases

pytestmark = needs_native
CASES = 1000
"""of ops among the 2,000 that `make sanitize` draws"""


@pytest.mark.slow
def test_every_entry_is_called_and_every_case_ends_well(monkeypatch: pytest.MonkeyPatch) -> None:
    called: Counter[int] = Counter()
    run = NativeFunction.__call__

    def counting(entry: NativeFunction, *tensors: Tensor | None, **numbers: int) -> int:
        status = run(entry, *tensors, **numbers)
        called[id(entry)] += 1
        return status

    monkeypatch.setattr(NativeFunction, "__call__", counting)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        bad = [failure for seed in range(1, 2 * CASES, 2) if (failure := op_cases.check(seed))]
    finally:
        torch.set_num_threads(before)
    assert not bad
    names = {entry: (entry._source.name, entry.name) for entry in _entries()}
    missing = {*names.values()} - {name for entry, name in names.items() if called[id(entry)]}
    assert len({*names.values()}) > 20
    assert not missing, f"no case of tests/sanitize/op_cases.py calls {missing}"


def _entries() -> list[NativeFunction]:
    """Those of all ops: values of modules, or of tables in modules."""
    modules = [module for name, module in sys.modules.items() if name.startswith("seqloom.ops")]
    values = [value for module in modules for value in vars(module).values()]
    tables = [entry for value in values if type(value) is dict for entry in value.values()]
    return [entry for entry in (*values, *tables) if type(entry) is NativeFunction]
