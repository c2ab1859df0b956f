"""Random calls of every op with native code: valid ones, odd layouts, wrong arguments, damaged calls of C."""

import copy
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from seqloom.core.state import Length, State
from seqloom.core.state_spec import start
from seqloom.ops import backends, delta_rule, lag_sum, linear_decay, wkv_average
from seqloom.ops import scan as scans
from seqloom.ops.attention import attend, cached, sparse
from seqloom.ops.attention.forgetting import forgetting
from seqloom.ops.attention.patterns import RandomBlocks, fixed_parts, local, merge_parts, strided_parts
from seqloom.ops.fused import gated_decay, gated_norm, small_blocks
from seqloom.ops.fused.short_convolution import convolve
from seqloom.ops.lag_sum import online
from seqloom.ops.native import NativeFunction, Signature
from seqloom.ops.past import ring
from seqloom.ops.past.cache import write_token
from seqloom.ops.recurrence import slstm
from seqloom.ops.scan.selective_scan import selective
from tests.ops.cells import CELLS, GATES
from tests.sanitize.spoiling import WRONG, odd_strides, other_dtype

Draw = Callable[..., Tensor]


@dataclass(frozen=True)
class Call:
    """An op, its arguments, and the backends of which the second shows what the first should give."""

    run: Callable[..., Any]
    given: list[Any]
    op: str
    native: str
    portable: str
    read: Callable[..., tuple[Tensor, ...]] = lambda *outputs: outputs
    """what of the outputs is compared"""
    token: bool = False
    """whether it may write into what it is given"""


def drawn(chance: random.Random) -> Call:
    """A right call, of sizes around those at which the C takes another way."""
    dtype = chance.choice([torch.float32, torch.float64])
    generator = torch.Generator().manual_seed(chance.randrange(1 << 30))

    def draw(*shape: int) -> Tensor:
        return (torch.randn(*shape, generator=generator, dtype=torch.float64) / 2).to(dtype)

    return chance.choice(CALLS)(chance, draw)


def _sizes(chance: random.Random) -> tuple[int, int, int]:
    return chance.choice([0, 1, 2, 3, 5]), chance.choice([0, 1, 2, 7, 33, 70]), chance.choice([1, 3, 8, 16, 17, 40])


def _lags(chance: random.Random, draw: Draw) -> Call:
    B, T, D = _sizes(chance)
    L, backend, G = chance.choice([1, 2, 15, 64]), chance.choice(["native", "spectral"]), chance.choice([1, D])
    shapes = [(L,), (L, D)] + ([(L, D, D), (L, G, D // G, D // G)] if backend == "spectral" else [])
    past = draw(B, chance.choice([1, 5]), D) if chance.random() < 0.3 else None
    return Call(lag_sum.lags, [draw(B, T, D), draw(*chance.choice(shapes)), past], "lag_sum", backend, "reference")


def _scan(chance: random.Random, draw: Draw) -> Call:
    B, T, N = _sizes(chance)
    make = (lambda *shape: torch.complex(draw(*shape), draw(*shape))) if chance.random() < 0.4 else draw
    a = make(N) if chance.random() < 0.5 else make(B, T, N)
    state = make(B, N) if chance.random() < 0.6 else None
    return Call(
        lambda a, b, state, lengths: scans.scan(a, b, state, lengths=lengths),
        [a / (1 + a.abs()), make(B, T, N), state, _lengths(chance, B, T)],
        "scans",
        "native",
        "reference",
    )


def _tiles(chance: random.Random, draw: Draw) -> Call:
    (B, T, _), width = _sizes(chance), chance.choice([16, 32])
    pattern = chance.choice(
        [local(5), merge_parts(strided_parts(16)), merge_parts(fixed_parts(16, 2)), RandomBlocks(16, 1, 1, 1, 0, 0)]
    )
    return Call(
        lambda q, k, v: sparse.attend(q, k, v, [pattern, pattern]),
        [draw(B, 2, 16 * T, width) for _ in range(3)],
        *("sparse_attention", "native", "tiles"),
    )


def _forgetting(chance: random.Random, draw: Draw) -> Call:
    (B, T, _), width, window = _sizes(chance), chance.choice([16, 32]), chance.choice([None, 1, 20, 70])
    return Call(
        lambda q, k, v, g: forgetting(q, k, v, g, window=window),
        [*(draw(B, 2, 4 * T, width) for _ in range(3)), -draw(B, 2, 4 * T).square()],
        *("forgetting", "native", "reference"),
    )


def _cached_token(chance: random.Random, draw: Draw) -> Call:
    B, G, C = chance.choice([0, 1, 3]), chance.choice([1, 2]), chance.choice([1, 5, 64, 130])
    H, K, V = G * chance.choice([1, 3]), chance.choice([16, 32]), chance.choice([16, 32])
    given = [draw(B, H, 1, K), draw(B, G, 1, K), draw(B, G, 1, V), draw(B, G, C, K), draw(B, G, C, V)]
    length = torch.tensor([chance.randrange(2 * C) for _ in range(B)]).long()

    def run(q: Any, k: Any, v: Any, keys: Any, values: Any, length: Any) -> Any:
        Signature("attention", *cached.READS).bind(q, k, v, keys, values, length)
        if q.shape[1] % max(k.shape[1], 1) or keys.shape[2] < 1:
            raise ValueError("heads do not divide, or there is no slot")
        if cached.supports(q, k, v, keys, values):
            return cached.attend(q, k, v, keys, values, length), keys, values
        size = keys.shape[2]
        keys, values = (write_token(cache, Length(length), new, True) for cache, new in ((keys, k), (values, v)))
        y = attend(q, keys, values, query_time=length[:, None], key_time=ring.times(size, length + 1))
        return y, keys, values

    return Call(run, [*given, length], "attention", "kernel", "formed", token=True)


def _lengths(chance: random.Random, B: int, T: int) -> Tensor | None:
    return torch.tensor([chance.randint(0, T) for _ in range(B)]).long() if chance.random() < 0.4 else None


def _maybe(chance: random.Random, x: Tensor) -> Tensor | None:
    return x if chance.random() < 0.6 else None


def _selective(chance: random.Random, draw: Draw) -> Call:
    (B, T, D), N = _sizes(chance), chance.choice([0, 1, 3, 16, 17])
    given = [draw(B, T, D), draw(B, T, D), draw(D, N), draw(B, T, N), draw(B, T, N), _maybe(chance, draw(B, D, N))]
    given += [_maybe(chance, each) for each in (draw(D), draw(D), draw(B, T, D))]
    return Call(
        lambda *x: selective(*x[:6], bias=x[6], skip=x[7], gate=x[8], lengths=x[9]),
        [*given, _lengths(chance, B, T)],
        "selective_scan",
        "native",
        "sequential",
    )


def _convolve(chance: random.Random, draw: Draw) -> Call:
    (B, T, D), W = _sizes(chance), chance.choice([1, 2, 4])
    given = [draw(B, T, D), draw(W, D), _maybe(chance, draw(D)), _maybe(chance, draw(B, W - 1, D))]
    run = partial(convolve, silu=chance.random() < 0.7)
    return Call(run, given, "short_convolution", "native", "reference")


def _normed(chance: random.Random, draw: Draw) -> Call:
    (B, T, V), H = _sizes(chance), chance.choice([1, 3])
    gate: Any = chance.choice(["none", "silu", "sigmoid", "silu first"])
    gain = draw(H, V) if gate == "silu first" else draw(V)
    given = [draw(B, T, H, V), None if gate == "none" else draw(B, T, H * V), gain]
    return Call(
        lambda y, z, gain: gated_norm.normalize(y, z, gain, 0.1, gate), given, "gated_norm", "native", "reference"
    )


def _blocks(chance: random.Random, draw: Draw) -> Call:
    (B, T, N), n = _sizes(chance), chance.choice([1, 2, 3, 4])
    return Call(small_blocks.products, [draw(B, T, N * n), draw(N, n, n)], "small_blocks", "native", "reference")


def _gates(chance: random.Random, draw: Draw) -> Call:
    (B, T, N), H, fresh = _sizes(chance), chance.choice([1, 3]), chance.random() < 0.5
    given = [draw(B, T, H * N), draw(H, N, 2 * N), draw(H, 2 * N), draw(H * N)]
    return Call(lambda *of: gated_decay.gate_decay(*of, fresh), given, "gated_decay", "native", "reference")


def _wkv(chance: random.Random, draw: Draw) -> Call:
    B, T, D = _sizes(chance)
    given = [
        draw(B, T, D),
        draw(B, T, D),
        _maybe(chance, draw(D)),
        _maybe(chance, draw(D)),
        _maybe(chance, _past(B, D, draw)),
    ]
    return Call(
        lambda k, v, w, u, state, lengths: wkv_average.wkv(k, v, w, u, state, lengths=lengths),
        [*given, _lengths(chance, B, T)],
        "wkv_average",
        "native",
        "sequential",
        _averages,
    )


def _averages(y: Tensor, sums: Tensor) -> tuple[Tensor, ...]:
    """Sums come at scales of their own."""
    numerator, denominator, scale = sums.unbind(1)
    return y, numerator / denominator, scale + denominator.log()


def _past(B: int, D: int, draw: Draw) -> Tensor:
    return torch.stack([draw(B, D), draw(B, D).exp(), draw(B, D)], 1)


def _slstm(chance: random.Random, draw: Draw) -> Call:
    B, T, K = _sizes(chance)
    H = chance.choice([1, 3])
    state = [draw(B, H * K) for _ in range(4)]
    return Call(
        lambda a, w, bias, h, c, n, m, lengths: _flat(slstm.slstm(a, w, bias, (h, c, n, m), lengths=lengths)),
        [
            *(draw(B, T, H, 4 * K), draw(H, K, 4 * K) / K**0.5, draw(H, 4 * K), *state[:2]),
            *(1 + state[2].square(), state[3], _lengths(chance, B, T)),
        ],
        "slstm",
        "native",
        "reference",
    )


def _recurrence(chance: random.Random, draw: Draw) -> Call:
    (B, T, D), N, cell = _sizes(chance), chance.choice([1, 7, 8, 17]), chance.choice([*CELLS])
    gates, rows = GATES[cell] * N, chance.choice([B, 26])
    state = [draw(rows, N) for _ in range(2 if cell == "lstm" else 1)]
    inner = [draw(N)] if cell == "gru_after" else []

    def run(x: Any, w_in: Any, bias: Any, w: Any, lengths: Any, *rest: Any) -> tuple[Tensor, ...]:
        own, state = rest[: len(inner)], rest[len(inner) :]
        initial = state if cell == "lstm" else state[0]
        y, after = CELLS[cell](x, w_in, bias, w, *own, initial, lengths=lengths)
        return y, *(after if cell == "lstm" else (after,))

    given = [draw(rows, T, D), draw(gates, D), draw(gates), draw(gates, N) / N**0.5, _lengths(chance, rows, T)]
    return Call(run, [*given, *inner, *state], "recurrence", "native", "reference")


def _flat(found: Any) -> tuple[Tensor, ...]:
    y, state = found
    return y, *state


def _online(chance: random.Random, draw: Draw) -> Call:
    B, _, D = _sizes(chance)
    L, count = chance.choice([(1, 3), (2, 20), (5, 20), (40, 1), (40, 20), (130, 200)])
    G, halves = chance.choice([1, D]), L > 1 and chance.random() < 0.3
    w = draw(*chance.choice([(L,), (L, D), (L, D, D), (L, G, D // G, D // G)]))
    state = start(online.entries(L, D), B, 0, draw(1).dtype, torch.device("cpu"))
    reuse = chance.random() < 0.8

    def run(z: Any, w: Tensor, past: Any, ahead: Any, origin: Any, length: Any) -> Any:
        state, outputs = State({"past": past, "ahead": ahead, "origin": origin, "length": length}, 0, True), []
        for n in range(count):
            written = reuse and backends.forced_backend("lag_sum") == "native"
            if written and halves:
                online._require_fit(z, w, past, ahead, state["length"], origin)
                y, entries = online.read(z, w, state), {"past": past, "ahead": ahead, "origin": origin}
                online.push(w, state)
            else:
                y, entries = online.advance(z, w, state, written)
            state = State({**entries, "length": length + n + 1}, n + 1, True)
            outputs.append(y)
        return torch.stack(outputs, 1), state["length"]

    given = [draw(B, D), w, *(state[name] for name in ("past", "ahead", "origin", "length"))]
    return Call(run, given, "lag_sum", "native", "reference", token=True)


def _delta(chance: random.Random, draw: Draw) -> Call:
    B, T, K = _sizes(chance)
    H, V = chance.choice([1, 3]), chance.choice([0, 1, 7, 16, 33])
    of_keys = [draw(B, H, T, K) / 4 for _ in range(4)]
    decays = [None, -draw(B, H, T).abs(), -draw(B, H, T, K).abs()]
    given = [*of_keys[:2], draw(B, H, T, V), *of_keys[2:], chance.choice(decays), _maybe(chance, draw(B, H, K, V))]
    given[4] = _maybe(chance, of_keys[3])
    return Call(
        lambda *x: delta_rule.delta(*x[:3], erase=x[3], write=x[4], log_decay=x[5], state=x[6], lengths=x[7]),
        [*given, _lengths(chance, B, T)],
        "delta_rule",
        "native",
        "reference",
    )


def _decay(chance: random.Random, draw: Draw) -> Call:
    B, T, K = _sizes(chance)
    H, V = chance.choice([1, 3]), chance.choice([1, 7, 16, 33])
    g = chance.choice([None, -draw(H).abs(), -draw(B, H, T).abs(), -draw(B, H, T, K).abs()])
    G = chance.choice([1, H])
    ones, weight = chance.random() < 0.5, _maybe(chance, draw(B, H, T))
    state, skip = _maybe(chance, draw(B, H, K, V + int(ones))), None if ones else _maybe(chance, draw(H))

    def run(*x: Any) -> tuple[Tensor, ...]:
        if ones:
            return linear_decay.decay_with_normalizer(*x[:5], weight=x[5], lengths=x[7])
        return linear_decay.decay(*x[:5], weight=x[5], skip=x[6], lengths=x[7])

    return Call(
        run,
        [draw(B, G, T, K), draw(B, G, T, K), draw(B, H, T, V), g, state, weight, skip, _lengths(chance, B, T)],
        "linear_decay",
        "native",
        "reference",
    )


CALLS = (
    *(
        _lags,
        _scan,
        _selective,
        _convolve,
        _wkv,
        *[_online] * 4,
    ),  # which has the most functions
    *(_delta, _decay, _tiles, _forgetting, _cached_token, _slstm, _normed),
    *(_blocks, _gates, _recurrence),
)


def check(seed: int) -> str:
    """Runs a case; what is wrong with its end, or "". Memory errors end the process."""
    chance = random.Random(seed)
    call, way = drawn(chance), chance.choice(["right", "odd", "wrong", "wrong", "wrong", "inside"])
    given = list(call.given)
    place = chance.choice([n for n, each in enumerate(given) if each is not None and each.ndim])
    spoil = chance.choice(WRONG)
    if way == "odd":
        given = [each if each is None or chance.random() < 0.5 else odd_strides(each, chance) for each in given]
    elif way == "wrong":
        given[place] = _spoilt(spoil, given[place], chance)
    inside = _Inside(chance) if way == "inside" else None
    learns = way in ("right", "odd") and not call.token and chance.random() < 0.5
    found = _ended(call, call.native, given, learns, inside)
    wanted = _ended(call, call.portable, given, learns)
    about = f"{call.op} {way} {spoil.__name__ if way == 'wrong' else ''} at {place}"
    if isinstance(found, ValueError | TypeError):
        right = way in ("right", "odd") and not isinstance(wanted, ValueError | TypeError)
        return f"{about}: a right call is refused: {found}" if right else ""
    if isinstance(found, Exception):
        return f"{about}: {type(found).__name__}: {found}"
    if isinstance(wanted, Exception):
        return f"{about}: {call.portable} refuses what {call.native} reads: {type(wanted).__name__}: {wanted}"
    return (
        ""
        if (inside and inside.accepted) or _same(found, wanted)
        else f"{about}: {call.native} and {call.portable} differ"
    )


def _spoilt(spoil: Callable[..., Any], x: Tensor, chance: random.Random) -> Any:
    return x.new_ones(x.shape, dtype=torch.bool) if spoil is other_dtype and x.is_complex() else spoil(x, chance)


def _ended(call: Call, backend: str, given: list[Any], learns: bool, inside: "_Inside | None" = None) -> Any:
    """The outputs and, if it `learns`, the gradients; or the error."""
    copied = [copy.deepcopy(each) if isinstance(each, Tensor) else each for each in given]  # with their strides
    try:
        with (
            backends.use(**{call.op: backend}),
            inside.planted() if inside else nullcontext(),
            torch.set_grad_enabled(learns),
        ):
            leaves = [each.requires_grad_() for each in copied if learns and _learned(each)]
            outputs = call.run(*copied)
            read = call.read(*(outputs if isinstance(outputs, tuple) else (outputs,)))
            if not learns:
                return read
            loss = sum((each * each.detach().cos()).real.sum() for each in read if each.requires_grad)
            return *read, *torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
    except Exception as error:
        return error


def _learned(x: Any) -> bool:
    return isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex()) and x.is_leaf


def _same(found: Any, wanted: Any) -> bool:
    for a, b in zip(found, wanted, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.device.type == "meta":
            continue
        bound = 1e-8 if a.dtype in (torch.float64, torch.complex128) else 3e-2 if a.dtype == torch.bfloat16 else 1e-3
        scale = max(1.0, float(b.detach().abs().nan_to_num(0, 0, 0).max())) if b.numel() else 1.0
        if not torch.allclose(a, b, rtol=bound, atol=bound * scale, equal_nan=True):
            return False
    return True


class _Inside:
    """Spoils one argument of the first call of C: what the op checks before it is not there to help."""

    accepted = False
    """whether the C was called: then it may have computed something else, within bounds"""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    @contextmanager
    def planted(self) -> Iterator[None]:
        whole, chance, hit = NativeFunction.__call__, self.chance, []

        def call(entry: NativeFunction, *tensors: Tensor | None, **numbers: int) -> int:
            if hit:
                return whole(entry, *tensors, **numbers)
            hit.append(1)
            own = ("scratch", "values", "turns", "marks", "saved_states")  # memory whose size the caller asks the C
            places = [
                n
                for n, (argument, x) in enumerate(zip(entry.signature.arguments, tensors, strict=True))
                if x is not None and x.ndim and x.numel() and argument.name not in own
            ]
            if not places:
                return whole(entry, *tensors, **numbers)
            place, spoil = chance.choice(places), chance.choice(WRONG)
            wrong = list(tensors)
            wrong[place] = spoil(tensors[place], chance)
            try:
                found = whole(entry, *wrong, **numbers)
                self.accepted = True
                return found
            except (ValueError, TypeError):
                return whole(entry, *tensors, **numbers)

        NativeFunction.__call__ = call  # type: ignore[method-assign]
        try:
            yield
        finally:
            NativeFunction.__call__ = whole  # type: ignore[method-assign]
