"""Every backend of every op against its reference, on the op's own examples: outputs and gradients."""

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from seqloom.core.graphs import as_in_a_graph
from seqloom.ops import backends
from seqloom.ops.op import Backend, Example, Op
from tests.ops.needing import lacking
from tests.ops.streamed import STREAMED, Streamed

CASES = [
    pytest.param(op, name, marks=pytest.mark.skipif(name in lacking(op.name), reason=lacking(op.name).get(name, "")))
    for op in backends.ops().values()
    for name in op.backends
    if name not in ("reference", "triton", "tiles", "flex")  # which are tested in test_triton… and test_flex
]
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-3}


def computed(example: Example, forced: dict[str, str], T: int, dtype: torch.dtype) -> list[Tensor]:
    """What the example computes, and the gradients of all that it is made from."""
    generator, leaves = torch.Generator().manual_seed(0), []

    def draw(*sizes: int) -> Tensor:
        leaves.append(torch.randn(sizes, generator=generator, dtype=torch.float64).to(dtype).requires_grad_())
        return leaves[-1]

    with backends.use(**forced):
        result = example(draw, 2, T)
    outputs = [result] if isinstance(result, Tensor) else [*result]
    weights = [torch.randn(output.shape, generator=generator, dtype=torch.float64) for output in outputs]
    total = sum((output.abs().square() * weight).sum() for output, weight in zip(outputs, weights, strict=True))
    return [*outputs, *torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)]


def computed_if_able(op: Op, name: str, example: Example, T: int, dtype: torch.dtype) -> list[Tensor] | None:
    """The same by one backend; None where it cannot do this example."""
    try:
        return computed(example, {op.name: name}, T, dtype)
    except ValueError as error:
        if f"backend {name!r} of {op.name} cannot do this" not in str(error):
            raise
        return None


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("op", "name"), CASES, ids=lambda case: case.name if isinstance(case, Op) else case)
def test_every_backend_is_the_reference(op: Op, name: str, dtype: torch.dtype) -> None:
    checked = 0
    for example in op.examples:
        for T in (1, 9):
            expected = computed(example, {op.name: "reference"}, T, torch.float64)
            actual = computed_if_able(op, name, example, T, dtype)
            if actual is None:
                continue
            checked += 1
            for a, b in zip(actual, expected, strict=True):
                largest = max(1.0, float(b.detach().abs().max()))
                torch.testing.assert_close(a.to(b.dtype), b, rtol=0, atol=TOLERANCE[dtype] * largest)
    assert checked > 0


def replayed(example: Example, forced: dict[str, str], T: int) -> tuple[Callable[..., Any], list[Tensor]]:
    """The example as a function of the tensors that it is made from, and these."""
    leaves: list[Tensor] = []
    generator = torch.Generator().manual_seed(0)

    def draw(*sizes: int) -> Tensor:
        leaves.append(torch.randn(sizes, generator=generator, dtype=torch.float64).requires_grad_())
        return leaves[-1]

    def run(*given: Tensor) -> Any:
        left = iter(given)
        with backends.use(**forced):
            return example(lambda *sizes: next(left), 2, T)

    example(draw, 2, T)
    return run, leaves


CUT = {"recall": "its memory has no gradients", "slstm": "the scale of its state has none"}
"""ops whose examples return what is not differentiated as the equation is"""
DIFFERENTIABLE = [
    *(pytest.param(op, "reference") for name, op in backends.ops().items() if name not in CUT),
    *(case for case in CASES if case.values[0].name not in CUT),
]


@pytest.mark.slow
@pytest.mark.parametrize(("op", "name"), DIFFERENTIABLE, ids=lambda case: case.name if isinstance(case, Op) else case)
def test_derivatives_by_differences(op: Op, name: str) -> None:
    """Of every example; the second ones where a backend has them, which else raises an error that says so."""
    for example in op.examples:
        run, leaves = replayed(example, {op.name: name}, 5)
        try:
            run(*leaves)
        except ValueError as error:
            if "cannot do this" in str(error):
                continue
            raise
        assert gradcheck(run, leaves, fast_mode=True, atol=1e-6, rtol=1e-6)
        try:
            assert gradgradcheck(run, leaves, fast_mode=True, atol=1e-6, rtol=1e-6)
        except RuntimeError as error:
            if "not implemented" not in str(error):
                raise


class Observed(TorchDispatchMode):
    """Lets every operation run as it is. While it is on, kernels are called as operators of torch, as in a graph."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("op", "name"), CASES, ids=lambda case: case.name if isinstance(case, Op) else case)
def test_operators_of_torch_return_tensors_of_their_own(op: Op, name: str) -> None:
    """What an operator returns shares memory neither with its inputs nor with its other outputs; torch checks it."""
    for example in op.examples:
        with Observed():
            computed_if_able(op, name, example, 9, torch.float32)


def test_every_op_has_a_reference_an_example_and_a_price() -> None:
    for name, op in backends.ops().items():
        assert op.name == name
        assert "reference" in op.backends
        assert op.examples
        assert op.price is not None
        assert op.unavailable().keys() <= op.backends.keys() - {"reference"}


@pytest.fixture
def doubled(monkeypatch: pytest.MonkeyPatch) -> Op:
    """An op of two backends, of which one cannot do numbers above 9."""
    monkeypatch.setattr(backends, "_ops", backends.ops())
    ways = {"reference": Backend(lambda x: x + x), "small": Backend(lambda x: 2 * x, fits=lambda x: x < 10)}
    return Op("doubled", ways, rule=lambda x: "small" if x < 5 else "reference", examples=(lambda draw, B, T: draw(B),))


def test_the_rule_chooses_unless_a_backend_is_forced(doubled: Op) -> None:
    with backends.record_backends() as ran:
        assert [doubled.choose(x) for x in (4, 5)] == ["small", "reference"]
        with backends.use(doubled="small"):
            assert doubled.choose(5) == "small"
            with pytest.raises(ValueError, match="'small' of doubled cannot do this; able are reference"):
                doubled.choose(10)
    assert ran == {"doubled": ["reference", "small"]}
    assert doubled["small"](3) == 6


def test_an_op_is_known_by_its_name(doubled: Op) -> None:
    assert backends.known_backends()["doubled"] == ("reference", "small")
    with pytest.raises(ValueError, match="op doubled has no backend 'smal'; did you mean 'small'"):
        backends.check({"doubled": "smal"})


FORMS = [
    pytest.param(
        backends.ops()[op],
        form,
        name,
        id=f"{op} {number} {name}",
        marks=pytest.mark.skipif(name in lacking(op), reason=lacking(op).get(name, "")),
    )
    for op, forms in STREAMED.items()
    for number, form in enumerate(forms)
    for name in backends.ops()[op].backends
    if name != "triton"
]
every_form = pytest.mark.parametrize(("op", "form", "name"), FORMS)
T, MORE = 70, 3
"""tokens of a sequence, more than a chunk has, and of one more piece after it, which tells states apart"""
LENGTHS = torch.tensor([0, 4, T])
ROUNDED = ("convolved", "parallel")
"""backends that compute by FFT, whose rounding errors reach every output"""


def close(actual: Tensor, expected: Tensor) -> bool:
    """But for rounding errors of the largest number."""
    largest = max(1.0, float(expected.abs().max())) if expected.numel() else 1.0
    return bool(((actual - expected).abs() <= 1e-10 * largest).all())


class Reader:
    """An op by one backend that reads on, its inputs (3 rows, T tokens), and those of a piece after them."""

    def __init__(self, op: Op, form: Streamed, name: str) -> None:
        generator = torch.Generator().manual_seed(0)

        def draw(*sizes: int) -> Tensor:
            return torch.randn(sizes, generator=generator, dtype=torch.float64)

        self.op, self.name = op, name
        self.run, inputs = form(draw, len(LENGTHS), T + MORE)
        self.inputs, self.later = ([x[:, part] for x in inputs] for part in (slice(T), slice(T, None)))

    def read(self, *inputs: Tensor, by: str | None = None, **rest: Any) -> tuple[Tensor, Any]:
        """y and the state by this backend, or by another."""
        with backends.use(**{self.op.name: by or self.name}):
            try:
                return self.run(*inputs, **rest)
            except ValueError as error:
                if "cannot do this" not in str(error):
                    raise
                pytest.skip(str(error))

    def pieces(self, *sizes: int, first: str | None = None) -> Tensor:
        """The outputs of the inputs read in pieces, and of the later ones after them; the first piece by `first`."""
        state, outputs, by = None, [], first
        for piece in zip(*(x.split(sizes, 1) for x in self.inputs), strict=True):
            y, state = self.read(*piece, state=state, by=by)
            outputs.append(y)
            by = None
        return torch.cat([*outputs, self.read(*self.later, state=state)[0]], 1)


@every_form
def test_a_sequence_is_its_pieces_and_its_tokens(op: Op, form: Streamed, name: str) -> None:
    """Whatever backend read the first piece."""
    reader = Reader(op, form, name)
    whole = reader.pieces(T)
    for sizes in ((4, T - 4), (1,) * T, (0, 1, T - 1)):
        assert close(reader.pieces(*sizes), whole)
    assert close(reader.pieces(35, T - 35, first="reference"), whole)
    assert close(Reader(op, form, "reference").pieces(35, T - 35, first=name), whole)


@every_form
def test_padding_behind_lengths_is_never_read(op: Op, form: Streamed, name: str) -> None:
    """Whatever it holds: outputs before it and states after it are those of each row alone."""
    reader = Reader(op, form, name)
    _, state = reader.read(*reader.later)
    real = torch.arange(T) < LENGTHS[:, None]
    padded = [torch.where(real.view(*real.shape, *[1] * (x.ndim - 2)), x, torch.nan) for x in reader.inputs]
    y, after = reader.read(*padded, state=state, lengths=LENGTHS)
    following, _ = reader.read(*reader.later, state=after)
    for row, length in enumerate(LENGTHS.tolist()):
        before = tree_map(itemgetter(slice(row, row + 1)), state)
        if length:
            alone, before = reader.read(*(x[row : row + 1, :length] for x in reader.inputs), state=before)
            assert close(y[row : row + 1, :length], alone)
        expected, _ = reader.read(*(x[row : row + 1] for x in reader.later), state=before)
        assert close(following[row : row + 1], expected)


@every_form
def test_later_inputs_change_no_earlier_output(op: Op, form: Streamed, name: str) -> None:
    """Not by a bit, but where a transform rounds."""
    reader = Reader(op, form, name)
    y, _ = reader.read(*(x.contiguous() for x in reader.inputs))
    for place in (1, 35, T - 1):
        other = [torch.cat([x[:, :place], x[:, place:].roll(1, 0)], 1) for x in reader.inputs]
        before = reader.read(*other)[0][:, :place]
        assert torch.equal(before, y[:, :place]) or (name in ROUNDED and close(before, y[:, :place])), place


@every_form
def test_no_rows_and_no_tokens_to_read(op: Op, form: Streamed, name: str) -> None:
    reader = Reader(op, form, name)
    y, state = reader.read(*reader.later)
    none, after = reader.read(*(x[:, :0] for x in reader.later), state=state)
    assert none.shape == (len(y), 0, *y.shape[2:])
    assert all(torch.equal(a, b) for a, b in zip(tree_leaves(after), tree_leaves(state), strict=True))
    assert reader.read(*(x[:0] for x in reader.later))[0].shape == (0, *y.shape[1:])


@every_form
def test_what_is_given_is_not_written_into(op: Op, form: Streamed, name: str) -> None:
    reader = Reader(op, form, name)
    _, state = reader.read(*reader.later)
    given = [*reader.inputs, *tree_leaves(state)]
    before = [x.clone() for x in given]
    reader.read(*reader.inputs, state=state)
    assert all(torch.equal(a, b) for a, b in zip(given, before, strict=True))


@pytest.mark.parametrize("op", backends.ops().values(), ids=lambda op: op.name)
def test_backends_are_chosen_as_in_a_graph(op: Op, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled run records its backends without a graph, and is continued with them in one."""
    asked: list[tuple[object, object]] = []
    rule = op.rule

    def answers(*arguments: Any) -> tuple[Any, ...]:
        return rule(*arguments), *(backend.fits(*arguments) for backend in op.backends.values())

    def both(*arguments: Any) -> str:
        with as_in_a_graph(True):
            as_in_one = answers(*arguments)
        with monkeypatch.context() as patched:
            patched.setattr(torch.compiler, "is_compiling", lambda: True)
            asked.append((as_in_one, answers(*arguments)))
        return str(rule(*arguments))

    monkeypatch.setattr(op, "rule", both)
    for example in op.examples:
        computed(example, {}, 130, torch.float32)
    assert asked or op.name == "projection"  # which chooses for large products alone, and in a graph never
    for as_in_one, in_one in asked:
        assert as_in_one == in_one
