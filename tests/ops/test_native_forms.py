"""Every form of every call of C, at sizes around its blocks, against another backend: outputs and gradients.

The other backends of an op are compared in the same forms.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.nn.functional import pad

import seqloom.ops
from seqloom.ops import backends, native
from seqloom.ops.native import Argument, NativeFunction
from tests.ops.native_forms import FORMS
from tests.ops.native_forms.form import Form
from tests.ops.needing import needs_native

pytestmark = needs_native
BOUNDS = {torch.float64: 1e-10, torch.float32: 1e-3}
"""of an error, divided by the largest number of its tensor, or by 1"""
GAP = 3
"""numbers between the rows of a tensor that is part of a wider one"""
ELSEWHERE = ("triton", "flex", "fla")
"""backends that are tested in files of their own"""
SEVERAL = 2
"""sizes at which backends in torch are compared"""
NEVER = {
    ("selective_scan", "backward", "state"): "the states before each chunk are saved",
    ("selective_scan", "step", "lengths"): "a token is one token long",
    ("lag_sum", "each_push", "z"): "it is `read` that takes the token",
    ("lag_sum", "mixed_push", "z"): "it is `read` that takes the token",
    ("lag_sum", "each_push", "y"): "it is `read` that returns the output",
    ("lag_sum", "mixed_push", "y"): "it is `read` that returns the output",
    ("delta_rule", "rwkv7", "g_0"): "the gate of RWKV-7 has no bias",
}
"""optional inputs, by op and function, that no caller gives"""
ALWAYS = {
    ("selective_scan", "step", name): "the op calls C for a token of a mixer alone, which has them"
    for name in ("state", "bias", "skip")
}
"""optional inputs that every caller gives"""


class Case:
    """A form at one of its sizes: the numbers that it is made from, and what another backend computes from them."""

    def __init__(self, form: Form, sizes: tuple[int, ...]) -> None:
        self.form, self.sizes = form, sizes

    def run(
        self, backend: str, dtype: torch.dtype, learns: tuple[bool, bool] = (True, True), gap: int = 0, outputs: int = 9
    ) -> tuple[list[Tensor], list[Tensor | None]]:
        """The outputs, and the gradients of all inputs, None for those that are not wanted.

        `learns` is whether the first input, and whether the others are differentiated, by a sum of the first `outputs`.
        """
        generator, leaves = torch.Generator().manual_seed(0), []

        def draw(*sizes: int) -> Tensor:
            wanted = self.form.learns and learns[bool(leaves)]
            x = torch.randn(sizes, generator=generator, dtype=torch.float64).to(dtype).requires_grad_(wanted)
            leaves.append(x)
            return pad(x, (0, gap))[..., : sizes[-1]] if gap else x

        with backends.use(**{self.form.op: backend}), torch.set_grad_enabled(self.form.learns and any(learns)):
            result = self.form.run(draw, *self.sizes)
        found = [result] if isinstance(result, Tensor) else [*result]
        weights = [torch.randn(y.shape, generator=generator, dtype=torch.float64) for y in found]
        wanted = [x for x in leaves if x.requires_grad]
        if not wanted:
            return found, [None] * len(leaves)
        terms = [(y.abs().square() * w).sum() for y, w in zip(found, weights, strict=True) if y.requires_grad]
        grads = torch.autograd.grad(sum(terms[:outputs]), wanted, allow_unused=True, materialize_grads=True)
        of_leaf = dict(zip(map(id, wanted), grads, strict=True))
        return [y.detach() for y in found], [of_leaf.get(id(x)) for x in leaves]

    def compare(self, found: Any, wanted: Any, dtype: torch.dtype, about: str) -> None:
        """Fails where an output, or a gradient that was asked for, is not what it should be."""
        for kind, ours, others in zip(("output", "gradient"), found, wanted, strict=True):
            for place, (a, b) in enumerate(zip(ours, others, strict=True)):
                if a is not None:
                    message = f"{kind} {place} at {self.sizes}, {dtype}, {about}"
                    assert a.shape == b.shape, message
                    largest = max(1.0, float(b.abs().max())) if b.numel() else 1.0
                    error = float((a.to(b.dtype) - b).abs().max()) / largest if b.numel() else 0.0
                    assert error <= BOUNDS[dtype], f"{message}: {error}"


@pytest.mark.parametrize("name", FORMS)
def test_at_sizes_around_the_blocks(name: str) -> None:
    form = FORMS[name]
    for sizes in form.sizes:
        case = Case(form, sizes)
        wanted = case.run(form.portable, torch.float64)
        for dtype in BOUNDS:
            case.compare(case.run(form.native, dtype), wanted, dtype, "")


def variants(case: Case, backend: str, patch: pytest.MonkeyPatch) -> Iterator[tuple[str, Any]]:
    """The same by other ways through a call: what is differentiated, how rows lie in memory, and how many threads."""
    yield "without gradients", case.run(backend, torch.float64, learns=(False, False))
    yield "rows apart", case.run(backend, torch.float64, gap=GAP)
    yield "the gradient of one input", case.run(backend, torch.float64, learns=(True, False))
    yield "the gradients of all others", case.run(backend, torch.float64, learns=(False, True))
    with patch.context() as patched:
        patched.setattr(native, "threads", lambda products: 3)
        yield "three threads", case.run(backend, torch.float64)


OTHERS = [
    pytest.param(name, backend, id=f"{name} by {backend}")
    for name, form in FORMS.items()
    for backend in backends.ops()[form.op].backends
    if form.learns and backend not in (form.native, form.portable, "native", "reference", *ELSEWHERE)
]


@pytest.mark.parametrize(("name", "backend"), OTHERS)
def test_other_backends_at_the_same_sizes(name: str, backend: str) -> None:
    form = FORMS[name]
    for sizes in form.sizes[:SEVERAL]:
        case = Case(form, sizes)
        try:
            found = case.run(backend, torch.float64)
        except ValueError as error:
            if f"backend {backend!r} of {form.op} cannot do this" not in str(error):
                raise
            continue
        case.compare(found, case.run(form.portable, torch.float64), torch.float64, "")


LEARNING = [name for name, form in FORMS.items() if form.learns]


@pytest.mark.parametrize("name", LEARNING)
def test_by_other_ways_through_a_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    form = FORMS[name]
    case = Case(form, form.sizes[0])
    wanted = case.run(form.portable, torch.float64)
    for about, found in variants(case, form.native, monkeypatch):
        case.compare(found, wanted, torch.float64, about)
    found, wanted = (case.run(backend, torch.float64, outputs=1) for backend in (form.native, form.portable))
    case.compare(found, wanted, torch.float64, "by its first output alone")


def replayed(form: Form, backend: str) -> tuple[Callable[..., Any], list[Tensor]]:
    """The smallest case as a function of the tensors that it is made from, and these."""
    generator, leaves = torch.Generator().manual_seed(0), []

    def draw(*sizes: int) -> Tensor:
        leaves.append(torch.randn(sizes, generator=generator, dtype=torch.float64).requires_grad_())
        return leaves[-1]

    def run(*given: Tensor) -> Any:
        left = iter(given)
        with backends.use(**{form.op: backend}):
            return form.run(lambda *sizes: next(left), *form.sizes[0])

    form.run(draw, *form.sizes[0])
    return run, leaves


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LEARNING if FORMS[name].op != "slstm"])  # whose scale has no slope
def test_derivatives_by_differences(name: str) -> None:
    """Second ones right or refused."""
    run, leaves = replayed(FORMS[name], FORMS[name].native)
    assert gradcheck(run, leaves, fast_mode=True, atol=1e-6, rtol=1e-6)
    try:
        assert gradgradcheck(run, leaves, fast_mode=True, atol=1e-6, rtol=1e-6)
    except RuntimeError as error:
        if "not implemented" not in str(error):
            raise


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_the_number_of_threads_changes_no_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not where there are fewer rows or channels than threads either."""
    form = FORMS[name]
    for sizes in form.sizes:
        case, results = Case(form, sizes), []
        for threads in (1, 2, 5):
            monkeypatch.setattr(native, "threads", lambda products, threads=threads: threads)
            outputs, gradients = case.run(form.native, torch.float32)
            results.append([x for x in (*outputs, *gradients) if x is not None])
        for other in results[1:]:
            assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True)), sizes


@pytest.fixture(scope="module")
def calls() -> dict[NativeFunction, list[dict[str, bool]]]:
    """By function of C, which of its optional inputs each call gave."""
    whole, result = NativeFunction.__call__, defaultdict(list)

    def call(entry: NativeFunction, *tensors: Tensor | None, **numbers: int) -> int:
        given = zip(entry.signature.arguments, tensors, strict=True)
        result[entry].append({argument.name: x is not None for argument, x in given if argument.optional})
        return whole(entry, *tensors, **numbers)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NativeFunction, "__call__", call)
        for form in FORMS.values():
            case = Case(form, form.sizes[0])
            for learns in product((False, True), repeat=2) if form.learns else ((False, False),):
                case.run(form.native, torch.float64, learns, outputs=9 if all(learns) else 1)
            case.run(form.native, torch.float32)
    return result


def entries() -> Iterator[NativeFunction]:
    """Every function of C that a module of the ops declares, by itself or in a table."""
    root = Path(seqloom.ops.__file__).parent
    for path in sorted(root.rglob("*.py")):
        if re.search(r"Entry\(|\.function\(", path.read_text(encoding="utf-8")):
            name = ".".join(("seqloom.ops", *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
            for value in vars(import_module(name)).values():
                for each in value.values() if isinstance(value, dict) else [value]:
                    if isinstance(each, NativeFunction):
                        yield each


def label(entry: NativeFunction) -> str:
    return f"{entry.signature.op}: {entry.name} of {len(entry.signature.arguments)}"


@pytest.mark.parametrize("entry", dict.fromkeys(entries()), ids=label)
def test_every_function_has_forms_with_and_without_each_optional_input(
    entry: NativeFunction, calls: dict[NativeFunction, list[dict[str, bool]]]
) -> None:
    assert calls[entry], "no form calls it: write one in tests/ops/native_forms"

    def seen(argument: Argument) -> set[bool]:
        return {given[argument.name] for given in calls[entry]}

    for argument in entry.signature.arguments:
        if argument.optional:
            key = entry.signature.op, entry.name, argument.name
            expected = {False} if key in NEVER else {True} if key in ALWAYS else {False, True}
            assert seen(argument) == expected, f"{argument.name} is given: {seen(argument)}"
