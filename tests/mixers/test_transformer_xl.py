"""Transformer-XL held to the paper's equation in float64 loops; its memory is inputs, read with today's weights."""

import math

import pytest
import torch
from torch import Tensor

from seqloom.core.cost import Cost, linear
from seqloom.core.mixer import Mixer
from seqloom.core.state import State
from seqloom.counting.count import count
from seqloom.mixers import mixer_config
from seqloom.ops.backends import use

D, H, M, T = 8, 2, 3, 11


def built(memory: int = M) -> Mixer:
    torch.manual_seed(5)
    mixer = mixer_config({"kind": "transformer_xl", "heads": H, "memory": memory}).build(D, 4).double()
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.normal_(std=0.5)
    return mixer


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def wave(distance: int) -> Tensor:
    """R_d of arXiv:1901.02860, sines first."""
    angles = [distance / 10000 ** (2 * c / D) for c in range(D // 2)]
    return torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles], dtype=torch.float64)


def by_the_paper(mixer: Mixer, x: Tensor) -> Tensor:
    """The four terms (a) to (d) of section 3.3, pair by pair, for x (T, D)."""
    p = dict(mixer.named_parameters())
    K, y = D // H, torch.zeros(len(x), D, dtype=torch.float64)
    w_k, w_v = p["w_kv.weight"].split(D)
    for h in range(H):
        rows = slice(h * K, (h + 1) * K)
        u, v = p["position.u"][h], p["position.v"][h]
        for i in range(len(x)):
            q = p["w_q.weight"][rows] @ x[i]
            seen = range(max(0, i - M), i + 1)
            scores = []
            for j in seen:
                k, r = w_k[rows] @ x[j], p["position.w_r.weight"][rows] @ wave(i - j)
                scores.append((q @ k + q @ r + u @ k + v @ r) / math.sqrt(K))
            a = torch.stack(scores).softmax(0)
            y[i, rows] = sum(a[n] * (w_v[rows] @ x[j]) for n, j in enumerate(seen))
    return y @ p["w_out.weight"].T


@pytest.mark.parametrize("pieces", [[T], [4, 4, 3], [1] * T, [2, 9]])
def test_pieces_are_the_papers_equation(pieces: list[int]) -> None:
    mixer, x = built(), draw(1, T, D)
    parts, state = [], mixer.start(1)
    for piece in x.split(pieces, 1):
        y, state = mixer.extend(piece, state)
        parts.append(y)
    expected = by_the_paper(mixer, x[0])
    torch.testing.assert_close(torch.cat(parts, 1)[0], expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(mixer(x)[0], expected, rtol=0, atol=1e-12)


def test_memory_is_the_inputs_and_is_read_with_todays_weights() -> None:
    mixer, x = built(), draw(1, T, D)
    _, state = mixer.extend(x[:, :6], mixer.start(1))
    assert torch.equal(state["x"].sort(1).values, x[:, 3:6].sort(1).values)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.normal_(std=0.5)
    y, _ = mixer.extend(x[:, 6:], state)
    torch.testing.assert_close(y[0], by_the_paper(mixer, x[0])[6:], rtol=0, atol=1e-12)


def test_weights_of_one_memory_serve_another() -> None:
    mixer, longer, x = built(), built(10), draw(1, T, D)
    longer.load_state_dict(mixer.state_dict())
    torch.testing.assert_close(longer(x)[:, : M + 1], mixer(x)[:, : M + 1], rtol=0, atol=1e-12)
    assert not torch.allclose(longer(x)[:, -1], mixer(x)[:, -1], rtol=0, atol=1e-6)


def test_two_layers_reach_twice_as_far() -> None:
    """The last output depends on the 2 M tokens before its own, and on none before those."""
    first, second, x = built(), built(), draw(1, T, D).requires_grad_()
    (slope,) = torch.autograd.grad(second(first(x))[0, -1].sum(), x)
    reached = slope[0].abs().sum(-1).nonzero()[:, 0].tolist()
    assert reached == list(range(T - 1 - 2 * M, T))


@pytest.mark.parametrize("settings", [{"memory": 0}, {"memory": -1}, {"heads": 0}])
def test_sizes_below_one_are_errors(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"(memory|heads).*1"):
        mixer_config({"kind": "transformer_xl", **settings})


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("memory", [1, 3, 128])
def test_a_step_executes_its_price_and_projects_memory_and_earlier_distances_again(memory: int) -> None:
    mixer, state, after = built(memory), built(memory).start(1), []

    def step(x: Tensor, state: State) -> None:
        after.append(mixer.step(x, state)[1])

    for t in range(1, T + 1):
        x = draw(1, D, seed=t)
        with use(attention="reference"):
            executed = count(lambda x=x, state=state: step(x, state))
        state = after[-1]
        price, held = mixer.cost(t, per="token"), min(t - 1, memory)
        new = min(t, memory + 1) - min(t - 1, memory + 1)  # of the held + 1 distances, those no earlier step asked for
        waves = Cost(mul=D // 2 * (held + 2), exp=D // 2) + linear(held + 1, D, D)
        priced = Cost(mul=D // 2 * ((t == 1) + new), exp=D // 2 * (t == 1)) + linear(new, D, D)
        more = linear(held, D, 2 * D) + waves
        assert (executed.mul, executed.add, executed.div, executed.exp) == (
            price.mul + more.mul - priced.mul,
            price.add + more.add - priced.add,
            price.div,
            price.exp + more.exp - priced.exp,
        )
