"""Every call of C is checked against the declaration of its function: each wrong argument is one clear error."""

import ast
import ctypes
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import seqloom.ops
from seqloom.ops import backends, native
from seqloom.ops.attention import cached
from seqloom.ops.native import Argument, NativeFunction, Signature
from seqloom.ops.scan.selective_scan import selective
from seqloom.ops.wkv_average import native as wkv_native
from seqloom.ops.wkv_average import wkv
from tests.ops.needing import lacking, needs_native
from tests.sanitize import op_cases
from tests.sanitize.spoiling import odd_strides

OPS = Path(seqloom.ops.__file__).parent
pytestmark = needs_native


def token() -> dict[str, Tensor]:
    q, k, v = torch.randn(5, 2, 2, 1, 16).unbind()[0], torch.randn(2, 1, 1, 16), torch.randn(2, 1, 1, 16)
    caches = {"keys": torch.ones(2, 1, 5, 16), "values": torch.ones(2, 1, 5, 16)}
    return {"q": q, "k": k, "v": v, **caches, "length": torch.tensor([3, 4]), "y": torch.empty(2, 2, 1, 16)}


def call(given: dict[str, Any]) -> None:
    cached.ENTRY(*given.values(), threads=1)


WRONG: list[tuple[str, Callable[[Tensor], object], type[Exception], str]] = [
    ("keys", lambda x: x[:, :, :, :5].clone(), ValueError, r"keys must be \(B, G, C, K\) = .*, not \(2, 1, 5, 5\)"),
    ("keys", lambda x: x[:1].clone(), ValueError, r"keys must be .* not \(1, 1, 5, 16\)"),
    ("v", lambda x: x[0], ValueError, r"v must be \(B, G, 1, V\), not \(1, 1, 16\)"),
    ("v", lambda x: x.double(), ValueError, "v must be torch.float32, not torch.float64"),
    ("q", lambda x: x.long(), ValueError, "q must be torch.float32 or torch.float64, not torch.int64"),
    ("q", lambda x: x.to("meta"), ValueError, "q must be on device cpu, not on meta"),
    ("q", lambda x: x.tolist(), TypeError, "q must be a tensor, not list"),
    ("q", lambda x: None, TypeError, "q must be a tensor, not None"),
    ("q", lambda x: x.to_sparse(), ValueError, "q must be a dense tensor"),
    ("y", lambda x: torch.empty(2, 16, 1, 2).transpose(1, 3), ValueError, "y must be without gaps"),
    ("keys", lambda x: torch.ones(2, 1, 16, 5).mT, ValueError, "keys must be without gaps"),
]


@pytest.mark.parametrize(("name", "spoil", "error", "message"), WRONG)
def test_a_wrong_argument_is_named(name: str, spoil, error: type[Exception], message: str) -> None:
    right = token()
    call(right)
    for _ in range(2):  # what fitted last does not let it pass, nor what did not
        with pytest.raises(error, match=f"{message}|Type-check") as caught:  # the shape hook may be the first
            call(right | {name: spoil(right[name])})
        assert "\n" not in str(caught.value) or "Type-check" in str(caught.value)
    call(right)


def test_another_number_of_tensors() -> None:
    with pytest.raises(TypeError, match="takes 7 tensors, not 2"):
        cached.ENTRY(torch.ones(1, 2), torch.ones(1, 2))


def test_sizes_that_a_c_int_does_not_hold() -> None:
    wide = torch.ones(1).expand(1 << 31)
    with pytest.raises(ValueError, match="N = 2147483648 is too large"):
        Signature("op", Argument("x", "N"), numbers="N").bind(wide)
    with pytest.raises(ValueError, match="too large"):
        native.size("attention", cached.SOURCE, "token_float", 1 << 31)


def test_sizes_are_sums_and_products_of_letters() -> None:
    signature = Signature("op", Argument("x", "T G*H"), Argument("w", "T+1 G H"), least="T-1")
    assert signature.bind(torch.ones(3, 8), torch.ones(4, 2, 4)).sizes == {"T": 3, "G": 2, "H": 4}
    for x, w in ((torch.ones(3, 9), torch.ones(4, 2, 4)), (torch.ones(3, 8), torch.ones(3, 2, 4))):
        with pytest.raises(ValueError, match="must be"):
            signature.bind(x, w)
    with pytest.raises(ValueError, match="T-1 must be at least 1, not 0"):
        signature.bind(torch.ones(1, 8), torch.ones(2, 2, 4))


def test_steps_between_tokens_need_no_copy() -> None:
    signature = Signature("op", Argument("x", "B T D", step="apart"), numbers="B T D apart")
    wide = torch.ones(2, 5, 12)
    assert signature.bind(wide[:, :, :4])[1:3] == ((2, 5, 4, 12), ())
    assert signature.bind(wide[:, :3, :4])[1:3] == ((2, 3, 4, 4), (0,))  # rows are not 3 steps apart


def test_what_is_negated_when_it_is_read_is_read_so() -> None:
    right = token()
    v = odd_strides(right["v"], random.Random(4))
    lazily = torch.complex(torch.zeros(2, 1, 1, 16), -right["v"]).conj().imag
    assert lazily.is_neg()
    outputs = []
    for each in (right["v"], v, lazily):
        call(right | {"v": each, "values": torch.ones(2, 1, 5, 16)})
        outputs.append(right["y"].clone())
    assert torch.equal(outputs[0], outputs[1])
    assert torch.equal(outputs[0], outputs[2])


@pytest.mark.parametrize("shape", [(1, 3, 4), (1, 2, 6), (3, 6), (2, 3, 6)])
@pytest.mark.parametrize("backend", ["native", "sequential"])
def test_a_token_of_another_state(shape: tuple[int, ...], backend: str) -> None:
    """It was written past the end of the tensor."""
    k, rate = torch.randn(1, 1, 6), torch.randn(6)
    with backends.use(wkv_average=backend), pytest.raises((ValueError, TypeError), match=r"state must be|Type-check"):
        wkv(k, k, rate, rate, torch.ones(shape))


@pytest.mark.parametrize("lengths", [[-1, 2], [-(2**63), 9], [2, 2**63 - 1]])
def test_lengths_out_of_range_stay_inside_the_tensor(lengths: list[int]) -> None:
    """Below 0 means no token, above T all, on every backend."""
    x, y = torch.randn(2, 4, 3, requires_grad=True), []
    for given in (torch.tensor(lengths), torch.tensor(lengths).clamp(0, 4)):
        with backends.use(selective_scan="native"):
            out, after = selective(x, x.exp(), x[0, :3].detach(), x, x, lengths=given)
        y.append([out, after, *torch.autograd.grad(out.sum() + after.sum(), x)])
    assert all(torch.equal(a, b) for a, b in zip(*y, strict=True))


@pytest.mark.slow
def test_no_pointer_is_taken_elsewhere() -> None:
    """A call of C that does not go through `NativeFunction` would go around the check."""
    for path in OPS.rglob("*.py"):
        taken = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
        if path.parent.name != "native":
            assert not taken & {"data_ptr", "c_void_p", "CDLL", "restype", "argtypes"}, path


def test_every_exported_function_is_declared() -> None:
    """Each `void` or `int` function of a source that is not static has an entry, or takes sizes alone."""
    modules = [module for name, module in sys.modules.items() if name.startswith("seqloom.ops")]
    values = [value for module in modules for value in vars(module).values()]
    values += [each for value in values if isinstance(value, dict) for each in value.values()]
    declared = {value.name for value in values if isinstance(value, NativeFunction)}
    for source in OPS.rglob("*.c"):
        for name in re.findall(r"^(?:void|int) (?:NAME\()?(\w+?)_?\)?\(", source.read_text(), re.MULTILINE):
            assert name == "omp_get_thread_num" or name in declared, (source.name, name)


def test_a_library_that_is_searched_again_is_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    right = token()
    call(right)
    monkeypatch.setenv("SEQLOOM_NATIVE", "0")
    native.forget()
    try:
        with pytest.raises(ValueError, match="not available here: SEQLOOM_NATIVE=0"):
            call(right)
    finally:
        monkeypatch.undo()
        native.forget()


@pytest.mark.parametrize("seed", range(40))
def test_random_calls(seed: int) -> None:
    """`make sanitize` runs thousands of these where a wrong one cannot hide."""
    assert op_cases.check(seed) == ""


def test_native_code_that_should_be_there_is_not_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = {"native": "gcc took longer than 60 s", "triton": "no GPU"}
    monkeypatch.setattr(backends, "unavailable", lambda op: reasons)
    assert lacking("scans") == {"triton": "no GPU"}
    monkeypatch.setenv("SEQLOOM_NATIVE", "0")
    assert lacking("scans") == reasons
    monkeypatch.delenv("SEQLOOM_NATIVE")
    monkeypatch.setenv("CC", "no-such-cc")
    assert lacking("scans") == reasons


def test_arguments_of_c_keep_their_types() -> None:
    entry = NativeFunction("op", wkv_native.SOURCE, "forward", "B D", Argument("k", "B D"), integer=ctypes.c_int64)
    assert entry._argument_types == [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
