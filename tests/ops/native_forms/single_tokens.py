"""Calls of C for one token, outside of graphs and without gradients, which may overwrite the state."""

from collections.abc import Iterator
from functools import partial

import torch

from seqloom.core.state import Length, State
from seqloom.core.state_spec import start
from seqloom.ops import lag_sum
from seqloom.ops.attention import attend, cached
from seqloom.ops.backends import forced_backend
from seqloom.ops.lag_sum import online
from seqloom.ops.lag_sum.online import token
from seqloom.ops.past import ring
from seqloom.ops.past.cache import write_token
from tests.ops.native_forms.form import Draw, Form, Outputs


def forms() -> Iterator[Form]:
    """Each of them."""
    sizes = ((2, 2, 3, 5, 16, 32), (1, 1, 1, 63, 32, 16), (2, 2, 1, 65, 16, 16), (1, 1, 5, 130, 48, 80))
    for written_before in (0, 3, 200):
        name = f"a cached token of attention after {written_before}"
        run = partial(_attention, written_before)
        yield Form(name, "attention", run, sizes, native="kernel", portable="formed", learns=False)
    for taps in ("of all channels", "of each channel", "that mix", "that mix in groups"):
        for halves in (False, True):
            name = f"tokens of lag_sum {taps}{', read then pushed' if halves else ''}"
            sizes = ((2, 4, 5, 12), (1, 9, 17, 40), (3, 17, 9, 20), (1, 7, 2, 6), (1, 33, 40, 70), (1, 2, 300, 140))
            if taps.endswith("groups"):
                sizes = ((2, 8, 5, 12), (1, 18, 17, 40), (3, 34, 9, 20), (1, 2, 70, 140))
            yield Form(name, "lag_sum", partial(_online, taps, halves), sizes, portable="direct", learns=False)
    for D, H in ((4, 1), (9, 2), (17, 3)):
        yield Form(f"products of spectra {D} {H}", "lag_sum", _spectra, ((5, 2, H, D), (1, 1, H, D)), learns=False)
    yield Form("whether two tensors are the same", "lag_sum", _same, ((4, 9), (2, 17), (1, 64)), learns=False)


def _attention(before: int, draw: Draw, B: int, G: int, shared: int, C: int, K: int, V: int) -> Outputs:
    q, k, v = draw(B, G * shared, 1, K), draw(B, G, 1, K), draw(B, G, 1, V)
    keys, values, length = draw(B, G, C, K), draw(B, G, C, V), torch.arange(B) + before
    if forced_backend("attention") == "kernel":
        assert cached.supports(q, k, v, keys, values)
        return cached.attend(q, k, v, keys, values, length), keys, values
    keys, values = (write_token(cache, Length(length), new, True) for cache, new in ((keys, k), (values, v)))
    y = attend(q, keys, values, query_time=length[:, None], key_time=ring.times(C, length + 1))
    return y, keys, values


def _online(taps: str, halves: bool, draw: Draw, B: int, D: int, L: int, count: int) -> Outputs:
    """Outputs of the schedule, for rows that began it at different tokens; another backend sums over all inputs."""
    shape = {"of all channels": (L,), "of each channel": (L, D), "that mix": (L, D, D)}
    w, x = draw(*shape.get(taps, (L, 2, D // 2, D // 2))) / (L * D) ** 0.5, draw(B, count, D)
    if forced_backend("lag_sum") != "native":
        return lag_sum.lags(x, w)
    state = start(online.entries(L, D), B, 0, x.dtype, torch.device("cpu"))
    outputs, length = [], state["length"]
    for n in range(count):
        if halves:
            y = online.read(x[:, n], w, state)
            online.push(w, state)
            after = state
        else:
            y, after = online.advance(x[:, n], w, state, True)
        state = State({**after, "length": length + n + 1}, n + 1, True)
        outputs.append(y)
        if n == count // 2:  # as after a piece: what was computed ahead is computed again
            state["origin"].fill_(-1)
    return torch.stack(outputs, 1)


def _spectra(draw: Draw, F: int, B: int, G: int, d: int) -> Outputs:
    W, X = draw(F, G, d, 2, d), draw(F, B, G * d, 2)
    if forced_backend("lag_sum") == "native":
        return torch.view_as_real(token.multiply(torch.view_as_complex(X), W))
    matrices, signal = torch.complex(W[:, :, :, 0], W[:, :, :, 1]), torch.view_as_complex(X).unflatten(2, (G, d))
    return torch.view_as_real(torch.einsum("fbgi,fgio->fbgo", signal, matrices).flatten(2))


def _same(draw: Draw, rows: int, columns: int) -> Outputs:
    a = draw(rows, columns)
    ends = [a.clone() for _ in range(3)]
    ends[1][0, 0], ends[2][-1, -1] = 9.0, 9.0
    found: list[bool] = [torch.equal(a, b) for b in ends]
    if forced_backend("lag_sum") == "native":
        found = [token.same(a, b) for b in ends]
    return torch.tensor(found, dtype=a.dtype)
