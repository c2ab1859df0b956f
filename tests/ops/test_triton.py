"""Triton's kernels against the references, on a GPU or on a CPU under Triton's interpreter.

The interpreter must be asked for before Triton is imported, so without a GPU these tests skip themselves unless
TRITON_INTERPRET=1; a slow test in test_triton_kernels.py starts them so.
"""

import pytest
import torch
from torch import Tensor

from seqloom.counting.count import count
from seqloom.ops import backends, gpu
from seqloom.ops.lag_sum import gpu as lag_gpu
from seqloom.ops.lag_sum import lags
from seqloom.ops.linear_decay import decay
from seqloom.ops.linear_decay import gpu as decay_gpu
from seqloom.ops.scan import gpu as scan_gpu
from seqloom.ops.scan import scan
from seqloom.ops.scan.selective_scan import gpu as selective_gpu
from seqloom.ops.scan.selective_scan import selective
from seqloom.ops.wkv_average import empty, wkv
from seqloom.ops.wkv_average import gpu as wkv_gpu
from tests.ops.kernel_runs import DEVICE, every_type, everything, numbers, runs, same

OPS = ("lag_sum", "linear_decay", "scans", "selective_scan", "wkv_average")


@runs
@every_type
@pytest.mark.parametrize("kind", ["both", "rate", "bonus", "neither"])
@pytest.mark.parametrize(("T", "D"), [(1, 1), (7, 37)])
def test_the_running_average(dtype: torch.dtype, kind: str, T: int, D: int) -> None:
    rate, bonus = kind in ("both", "rate"), kind in ("both", "bonus")
    state = torch.stack([numbers(2, D, seed=4), numbers(2, D, seed=5).abs(), numbers(2, D, seed=6)], 1)
    given = [numbers(2, T, D) * 2, numbers(2, T, D, seed=1)]
    given += [numbers(D, seed=2) if rate else None, numbers(D, seed=3) if bonus else None, state]
    for lengths in (None, torch.tensor([T // 2, T], device=DEVICE)):

        def run(*of: Tensor, lengths: Tensor | None = lengths) -> tuple[Tensor, Tensor, Tensor]:
            y, after = wkv(*of, lengths=lengths)
            if lengths is not None:
                y = y * (torch.arange(T, device=DEVICE) < lengths[:, None])[:, :, None]
            # the scale of a state is free: the scaled value is compared
            return y, after[:, 0] / after[:, 1], after[:, 2] + after[:, 1].log()

        same("wkv_average", run, given, dtype)


@runs
def test_the_running_average_of_huge_keys_and_of_nothing_before() -> None:
    k, v = numbers(1, 20, 3).float() * 1e4, numbers(1, 20, 3, seed=1).float()
    result = {}
    for name in ("sequential", "triton"):
        with backends.use(wkv_average=name):
            result[name] = wkv(k, v, k[0, 0] * 0, k[0, 0] * 0 + 1, empty(1, 3, torch.float32, DEVICE))
    for a, b in zip(*result.values(), strict=True):
        torch.testing.assert_close(a, b)


KINDS = {
    "real": (False, False),
    "real, fixed": (False, True),
    "complex": (True, False),
    "complex, fixed": (True, True),
}


@runs
@every_type
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("T", "N"), [(2, 1), (9, 37)])
def test_the_recurrence_of_channels(dtype: torch.dtype, kind: str, T: int, N: int) -> None:
    complex_, fixed = KINDS[kind]

    def drawn(*shape: int, seed: int) -> Tensor:
        real = numbers(*shape, seed=seed)
        return torch.complex(real, numbers(*shape, seed=seed + 50)) if complex_ else real

    a = drawn(*((N,) if fixed else (2, T, N)), seed=1)
    given = [a / (0.3 + a.abs()), drawn(2, T, N, seed=2), drawn(2, N, seed=3)]
    for lengths in (None, torch.tensor([T - 1, T], device=DEVICE)):

        def run(*of: Tensor, lengths: Tensor | None = lengths) -> tuple[Tensor, ...]:
            h, after = scan(*of, lengths=lengths)
            return (h, after) if lengths is None else (after,)

        same("scans", run, given, dtype)


@runs
def test_rows_do_not_reach_one_another() -> None:
    """Not even past their ends, where what is read is not a number."""
    a, b = numbers(3, 5, 4).tanh(), numbers(3, 5, 4, seed=1)
    a[2], b[2], a[0, -1], b[0, -1] = (torch.nan,) * 4
    leaves = [each[1:2].clone().requires_grad_() for each in (a, b)]
    clean = everything("scans", "triton", scan, leaves)
    whole = everything(
        "scans", "triton", lambda *of: [x[1:2] for x in scan(*of)], [a.requires_grad_(), b.requires_grad_()]
    )
    for one, all_ in zip(clean, whole, strict=True):
        assert torch.equal(all_[1:2] if len(all_) == 3 else all_, one)


@runs
def test_conjugates_and_strides_are_carried_out() -> None:
    a = torch.complex(numbers(2, 9, 5), numbers(2, 9, 5, seed=1)).tanh()
    with backends.use(scans="reference"):
        expected, _ = scan(a.conj(), a.conj())
    with backends.use(scans="triton"):
        assert torch.allclose(scan(a.conj(), a.conj())[0], expected)
        turned = a.conj().transpose(0, 1).resolve_conj().contiguous().transpose(0, 1)
        assert torch.allclose(scan(turned, turned)[0], expected)


def forgetting(given: str, H: int, T: int) -> Tensor | None:
    if given == "nothing":
        return None
    return -(numbers(H, seed=5) if given == "a head" else numbers(2, H, T, seed=5)).abs() * 0.3


@runs
@every_type
@pytest.mark.parametrize("given", ["nothing", "a head", "a head and token"])
@pytest.mark.parametrize("state", [True, False])
@pytest.mark.parametrize(("H", "T", "K", "V"), [(1, 2, 1, 1), (2, 37, 17, 19)])
def test_the_decaying_sum(
    dtype: torch.dtype, given: str, state: bool, H: int, T: int, K: int, V: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In chunks of 16 tokens and blocks of 16 channels, so that few numbers cross from each to the next."""
    monkeypatch.setattr(decay_gpu, "CHUNK", 16)
    monkeypatch.setattr(decay_gpu, "WIDE", 16)
    tokens = [numbers(2, H, T, K), numbers(2, H, T, K, seed=1), numbers(2, H, T, V, seed=2)]
    started = numbers(2, H, K, V, seed=3) if state else None
    same("linear_decay", decay, [*tokens, forgetting(given, H, T), started], dtype)


@runs
def test_the_decaying_sum_in_chunks_as_they_are() -> None:
    given = [numbers(1, 1, 130, 33), numbers(1, 1, 130, 33, seed=1), numbers(1, 1, 130, 40, seed=2)]
    same("linear_decay", decay, [*given, -numbers(1, 1, 130, seed=3).abs()], torch.float32)


TAPS = {"number": (), "vectors": (1,), "matrices": (1, 1), "groups": (2, 1, 1)}
"""the shape of one tap of each kind, in channels; in the channels of a group"""


def taps(kind: str, L: int, width: int, seed: int = 1) -> Tensor:
    groups, shape = (2, TAPS[kind][1:]) if kind == "groups" else (1, TAPS[kind])
    return numbers(L, *([groups] if groups > 1 else []), *(width * each for each in shape), seed=seed)


@runs
@every_type
@pytest.mark.parametrize("kind", TAPS)
@pytest.mark.parametrize(("T", "L", "width"), [(1, 3, 1), (37, 9, 17), (19, 40, 5)])
def test_the_lag_sum_of_triton(
    dtype: torch.dtype, kind: str, T: int, L: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In blocks that rows, lags and channels cross, and the positions in several parts where taps receive."""
    for name in ("TIMES", "BLOCK", "PIECE", "LONG", "WIDE"):
        monkeypatch.setattr(lag_gpu, name, 16)
    x = numbers(3, T, 2 * width if kind == "groups" else width)

    def run(x: Tensor, w: Tensor) -> tuple[Tensor]:
        return (lags(x, w),)

    same("lag_sum", run, [x, taps(kind, L, width)], dtype)


@runs
@pytest.mark.parametrize("kind", ["vectors", "matrices"])
def test_the_lag_sum_in_blocks_as_they_are(kind: str) -> None:
    same("lag_sum", lambda *of: (lags(*of),), [numbers(2, 150, 33), taps(kind, 3, 33)], torch.float32)


@runs
@pytest.mark.parametrize("kind", TAPS)
def test_no_lag_sum_depends_on_later_inputs_or_other_rows(kind: str) -> None:
    x, w = numbers(3, 20, 4), taps(kind, 7, 2 if kind == "groups" else 4)
    with backends.use(lag_sum="triton"):
        y = lags(x, w)
        x[0], x[2], x[1, 13:] = torch.nan, torch.nan, torch.nan
        assert torch.equal(lags(x, w)[1, :13], y[1, :13])


def test_parts_of_the_positions_are_whole_pieces_and_keep_a_gpu_busy() -> None:
    for positions, piece, grid in ((1, 256, (1, 1)), (131072, 256, (2, 16)), (1000, 64, (9, 9)), (5000, 64, (99, 99))):
        parts, each = lag_gpu._parts(positions, piece, grid)
        assert (parts - 1) * each < positions <= parts * each
        assert each % piece == 0
        assert parts == 1 or parts * grid[0] * grid[1] <= lag_gpu.PROGRAMS


@runs
@pytest.mark.parametrize("wipe", [-1e4, -torch.inf])
def test_a_zero_decay_clears_the_sum(wipe: float) -> None:
    given = [
        numbers(1, 1, 40, 4),
        numbers(1, 1, 40, 4, seed=1),
        numbers(1, 1, 40, 4, seed=2),
        -numbers(1, 1, 40, seed=3).abs(),
    ]
    given[3][:, :, 3::7] = wipe
    actual = everything("linear_decay", "triton", decay, [each.requires_grad_() for each in given])
    expected = everything("linear_decay", "chunked", decay, given)
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)
    assert not actual[5][:, :, 3::7].any()


@runs
def test_no_sum_depends_on_later_tokens() -> None:
    q, k, v = numbers(1, 1, 70, 4), numbers(1, 1, 70, 4, seed=1), numbers(1, 1, 70, 4, seed=2)
    with backends.use(linear_decay="triton"):
        y, _ = decay(q, k, v)
        for x in (q, k, v):
            x[:, :, 40:] += 1e6
        assert torch.equal(decay(q, k, v)[0][:, :, :40], y[:, :, :40])


@runs
@every_type
@pytest.mark.parametrize("around", ["all", "none", "bias", "skip", "gate", "state"])
@pytest.mark.parametrize(("T", "D", "N"), [(1, 1, 1), (37, 19, 5)])
def test_the_selective_scan(dtype: torch.dtype, around: str, T: int, D: int, N: int) -> None:
    delta, everywhere = numbers(2, T, D, seed=1), around == "all"
    given = [numbers(2, T, D), delta if around in ("all", "bias") else delta.exp(), numbers(D, N, seed=2)]
    given += [numbers(2, T, N, seed=3), numbers(2, T, N, seed=4)]
    more = {"state": (2, D, N), "bias": (D,), "skip": (D,), "gate": (2, T, D)}
    given += [numbers(*of, seed=9) if everywhere or around == name else None for name, of in more.items()]
    for lengths in (None, torch.tensor([T // 2, T], device=DEVICE)) if everywhere else (None,):

        def run(*of: Tensor, lengths: Tensor | None = lengths) -> tuple[Tensor, Tensor]:
            state, bias, skip, gate = of[5:]
            return selective(*of[:5], state, bias=bias, skip=skip, gate=gate, lengths=lengths)

        same("selective_scan", run, given, dtype)


@runs
def test_small_steps_keep_their_digits() -> None:
    """softplus of -15 is 3e-7, which 1 + e^x in single precision does not hold."""
    delta = torch.full((1, 1, 1), -15.0, device=DEVICE)
    one = torch.ones_like(delta)
    with backends.use(selective_scan="triton"):
        y, _ = selective(one, delta, one[0] * 0, one, one, bias=one[0, 0] * 0)
    torch.testing.assert_close(y.double(), torch.nn.functional.softplus(delta.double()), rtol=1e-6, atol=0)


@runs
def test_second_derivatives_of_triton() -> None:
    T, D = 3, 2
    x, rate = numbers(1, T, D).requires_grad_(), numbers(D, seed=1).requires_grad_()
    heads = numbers(1, 1, T, D, seed=2).requires_grad_()
    runs = {
        "lag_sum": (lambda x: lags(x.sin(), x[0, :, None] * x[0, :, :, None]), (x,)),
        "wkv_average": (lambda x, rate: wkv(x, x.sin(), rate, rate), (x, rate)),
        "scans": (lambda x: scan(x.tanh(), x), (x,)),
        "linear_decay": (lambda h: decay(h, 2 * h, h.sin(), -h[..., 0].square()), (heads,)),
        "selective_scan": (lambda x: selective(x, x.exp(), x[0, :D], x[:, :, :1].expand(1, T, D), x, gate=x), (x,)),
    }
    for op, (run, given) in runs.items():
        with backends.use(**{op: "triton"}):
            assert torch.autograd.gradgradcheck(run, given), op


@runs
def test_triton_of_no_rows_and_of_no_tokens() -> None:
    nothing = torch.zeros(0, 2, 3, device=DEVICE)
    with backends.use(**dict.fromkeys(OPS, "triton")):
        assert lags(nothing, numbers(5, 3)).shape == nothing.shape
        assert wkv(nothing, nothing)[0].shape == nothing.shape
        assert scan(nothing, nothing)[0].shape == nothing.shape
        assert decay(*nothing[None].transpose(0, 1).expand(3, 0, 1, 2, 3))[0].shape == (0, 1, 2, 3)


@runs
def test_half_precision_goes_in_and_out() -> None:
    x = numbers(1, 5, 3).bfloat16()
    with backends.use(**dict.fromkeys(OPS, "triton")):
        assert lags(x, x[0]).dtype == torch.bfloat16
        assert wkv(x, x)[0].dtype == torch.bfloat16
        y, _ = decay(x[None], x[None], x[None])
    assert y.dtype == torch.bfloat16
    with backends.use(linear_decay="reference"):
        torch.testing.assert_close(decay(x[None], x[None], x[None])[0], y)


@runs
@pytest.mark.parametrize("op", ["wkv", "scan", "decay", "selective", "lags", "lags of matrices"])
def test_torch_holds_the_operators_of_triton_sound(op: str) -> None:
    x, heads = numbers(2, 5, 3).requires_grad_(), numbers(2, 1, 5, 3).requires_grad_()
    each = numbers(2, 3).requires_grad_()
    called = {
        "lags": (lag_gpu.forward, (x, each.mT[:, :1].expand(3, 3))),
        "lags of matrices": (lag_gpu.backward, (x, numbers(4, 3, 3).requires_grad_(), x, True, True)),
        "wkv": (wkv_gpu.forward, (x, x, each[0], None, each, each)),
        "scan": (scan_gpu.forward, (x, x, each)),
        "decay": (decay_gpu.forward, (heads, heads, heads, None, None)),
        "selective": (
            selective_gpu.forward,
            (x, x, numbers(3, 4).requires_grad_(), *[numbers(2, 5, 4).requires_grad_()] * 2, *[None] * 5, True),
        ),
    }
    operator, given = called[op]
    torch.library.opcheck(
        operator.operator, given, test_utils=("test_schema", "test_faketensor", "test_autograd_registration")
    )


@runs
@pytest.mark.graph
@pytest.mark.parametrize("op", OPS)
def test_triton_compiled_whole_with_its_gradients(op: str) -> None:
    x, heads = numbers(2, 7, 3), numbers(2, 1, 20, 3)
    calls = {
        "lag_sum": (lambda x: lags(x, x[0]), x),
        "wkv_average": (lambda x: wkv(x, x.sin(), x[0, 0], x[0, 0]), x),
        "scans": (lambda x: scan(x.tanh(), x), x),
        "linear_decay": (lambda h: decay(h, 2 * h, h.sin(), -h[..., 0].square()), heads),
        "selective_scan": (lambda x: selective(x, x, x[0, :3], x, x, bias=x[0, 0], gate=x), x),
    }
    run, given = calls[op]
    expected = everything(op, "triton", run, [given.requires_grad_()])
    torch._dynamo.reset()
    actual = everything(op, "triton", torch.compile(run, fullgraph=True, backend="aot_eager"), [given])
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, b)


@runs
def test_what_they_execute_has_a_price() -> None:
    x, heads = numbers(2, 7, 3), numbers(2, 1, 70, 3)
    calls = {
        "lag_sum": lambda: (lags(x, x[0]), lags(x, numbers(4, 3, 3)), lags(heads[:, 0], numbers(4, 3, 1, 1))),
        "wkv_average": lambda: wkv(x, x),
        "scans": lambda: scan(x, x, x[:, 0]),
        "linear_decay": lambda: decay(heads, heads, heads, heads[:, :, :, 0]),
        "selective_scan": lambda: selective(x, x, numbers(3, 4), numbers(2, 7, 4), numbers(2, 7, 4)),
    }
    with torch.no_grad():
        for op, call in calls.items():
            with backends.use(**{op: "triton"}):
                here = count(call)
            with backends.use(**{op: "reference"}):
                there = count(call)
            assert there.total <= here.total * 1.1 <= 40 * there.total, op


@pytest.mark.slow
@pytest.mark.skipif(not gpu.why(), reason="kernels run here")
def test_without_triton_or_a_gpu_there_is_a_reason() -> None:
    for op in ("attention", *OPS):
        assert "triton" in backends.known_backends()[op]
        assert backends.unavailable(op)["triton"] == gpu.why()
    x = torch.zeros(1, 3, 2)
    with backends.use(wkv_average="triton"), pytest.raises(ValueError, match="'triton' of wkv_average cannot do this"):
        wkv(x, x)


def test_a_cpu_is_never_given_kernels_by_itself() -> None:
    x = numbers(1, 3, 2).cpu()
    with backends.record_backends() as ran:
        lags(x, x[0]), wkv(x, x), scan(x, x), decay(x[None], x[None], x[None]), selective(x, x, x[0, :2], x, x)
    assert ran
    assert all("triton" not in names for names in ran.values())
