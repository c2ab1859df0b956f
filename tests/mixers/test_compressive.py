"""Compressive Transformer against two queues and the paper's losses in float64 loops; gradients, reach and price."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import seqloom
from seqloom.core.cost import Cost, linear
from seqloom.core.mixer import Mixer
from seqloom.core.state import State
from seqloom.counting.count import count
from seqloom.mixers import mixer_config
from seqloom.ops.backends import use
from seqloom.training.step import clipped_together

D, H, M, S, C, T = 8, 2, 4, 2, 2, 19
SIZES = {"heads": H, "memory": M, "compressed": S, "rate": C}
WAYS: list[dict[str, Any]] = [
    {"compression": "convolution"},
    {"compression": "convolution", "dilation": 3, "loss": "autoencoding"},
    {"compression": "max", "loss": "none"},
    {"compression": "mean", "loss": "none"},
    {"compression": "most_used", "loss": "none"},
]
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(map(str, way.values())))


def built(**settings: Any) -> Mixer:
    torch.manual_seed(5)
    mixer = mixer_config({"kind": "compressive", **SIZES, **settings}).build(D, 4).double()
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.normal_(std=0.5)
    return mixer


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def wave(distance: int) -> Tensor:
    angles = [distance / 10000 ** (2 * c / D) for c in range(D // 2)]
    return torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles], dtype=torch.float64)


def compressed(mixer: Mixer, x: Tensor, block: list[int], attention: dict[int, list[float]]) -> Tensor:
    """The function f_c of section 3.1, of the inputs x (T, D) of which `block` is the oldest of the memory."""
    settings: Any = mixer.compression  # type: ignore[attr-defined]
    if settings.by == "max":
        return torch.stack([max(x[j, d] for j in block) for d in range(D)])
    if settings.by == "mean":
        return torch.stack([sum(x[j, d] for j in block) / C for d in range(D)])
    if settings.by == "most_used":
        return x[max(block, key=lambda j: sum(attention[j]) / len(attention[j]))]
    z = torch.zeros(D, dtype=torch.float64)
    for n in range(C):
        z = z + settings.w_c.weight[:, n * D : (n + 1) * D] @ x[block[0] + settings.dilation * n]
    return z


def scores(mixer: Mixer, h: int, query: Tensor, keys: list[tuple[Tensor, int]]) -> Tensor:
    """The softmax over keys at their distances, by the four terms of Transformer-XL."""
    p, rows, z = dict(mixer.named_parameters()), slice(h * D // H, (h + 1) * D // H), []
    q, (u, v) = p["w_q.weight"][rows] @ query, (p["position.u"][h], p["position.v"][h])
    for key, distance in keys:
        k, r = p["w_kv.weight"][:D][rows] @ key, p["position.w_r.weight"][rows] @ wave(distance)
        z.append((q @ k + q @ r + u @ k + v @ r) / math.sqrt(D // H))
    return torch.stack(z).softmax(0)


def by_the_paper(mixer: Mixer, x: Tensor, M: int) -> Tensor:
    """Two queues, as Algorithm 1 has them: tokens, of which the oldest C leave together, and what became of those."""
    memory: list[int] = []
    old: list[Tensor] = []
    attention: dict[int, list[float]] = {}
    outputs = []
    for i in range(len(x)):
        if memory and i - memory[0] > M:
            block, memory = memory[:C], memory[C:]
            old = [*old, compressed(mixer, x, block, attention)][-S:]
        memory.append(i)
        tokens = [(x[j], i - j) for j in memory]
        slots = [(z, M + len(old) - number) for number, z in enumerate(old)]
        heads = []
        shares = torch.zeros(len(memory), dtype=torch.float64)
        for h in range(H):
            a = scores(mixer, h, x[i], [*slots, *tokens])
            shares += scores(mixer, h, x[i], tokens) / H
            w_v = dict(mixer.named_parameters())["w_kv.weight"][D:][h * D // H : (h + 1) * D // H]
            heads.append(sum(a[n] * (w_v @ key) for n, (key, _) in enumerate([*slots, *tokens])))
        for j, share in zip(memory, shares.tolist(), strict=True):
            attention.setdefault(j, []).append(share)
        outputs.append(dict(mixer.named_parameters())["w_out.weight"] @ torch.cat(heads))
    return torch.stack(outputs)


@pytest.mark.slow
@every_way
@pytest.mark.parametrize("pieces", [[T], [4] * 4 + [3], [1] * T, [2, 9, 8]], ids=str)
def test_pieces_are_two_queues(way: dict[str, Any], pieces: list[int]) -> None:
    mixer, x = built(**{"memory": 6, **way} if "dilation" in way else way), draw(1, T, D)  # a dilated one spans 3
    parts, state = [], mixer.start(1)
    for piece in x.split(pieces, 1):
        y, state = mixer.extend(piece, state)
        parts.append(y)
    expected = by_the_paper(mixer, x[0], 6 if "dilation" in way else M)
    torch.testing.assert_close(torch.cat(parts, 1)[0], expected, rtol=0, atol=1e-11)
    torch.testing.assert_close(mixer(x)[0], expected, rtol=0, atol=1e-11)


def blocks_of(begin: int, end: int) -> list[list[int]]:
    """The blocks that leave the memory while the tokens from `begin` to before `end` are read."""
    return [
        list(range(first, first + C)) for first in range(0, end, C) if begin - M <= first < end - M and first + C <= end
    ]


def losses_by_the_paper(mixer: Mixer, x: Tensor, begin: int) -> tuple[list[Tensor], list[Tensor]]:
    """Of the tokens from `begin` on: |old - g(new)| of each compressed token, and |attn - attn| of each query."""
    p: Any = dict(mixer.named_parameters())
    blocks = blocks_of(begin, len(x))
    new = [compressed(mixer, x, block, {}) for block in blocks]
    again, differences = [], []
    if "compression.w_g.weight" in p:
        for block, z in zip(blocks, new, strict=True):
            for n, j in enumerate(block):
                again.append((x[j] - p["compression.w_g.weight"][n * D : (n + 1) * D] @ z).square().sum().sqrt())
    for i in range(begin, len(x)):
        ended = [n for n, block in enumerate(blocks) if block[-1] < i]
        if not ended:
            continue
        old = [x[j] for n in ended for j in blocks[n]]
        fewer = [new[n] for n in ended]
        differences.append((content(mixer, x[i], old) - content(mixer, x[i], fewer)).square().sum().sqrt())
    return again, differences


def content(mixer: Mixer, query: Tensor, inputs: list[Tensor]) -> Tensor:
    """σ((h Q)(m K)) (m V) of Algorithm 2, by head."""
    p, heads = dict(mixer.named_parameters()), []
    for h in range(H):
        rows = slice(h * D // H, (h + 1) * D // H)
        w_k, w_v = (part[rows] for part in p["w_kv.weight"].split(D))
        q = p["w_q.weight"][rows] @ query
        a = torch.stack([q @ (w_k @ m) / math.sqrt(D // H) for m in inputs]).softmax(0)
        heads.append(sum(share * (w_v @ m) for share, m in zip(a, inputs, strict=True)))
    return torch.cat(heads)


LOSSES = {"attention": "attention_reconstruction", "autoencoding": "autoencoding"}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("begin", [0, 6, 7, 12])
def test_losses_are_those_of_what_leaves_the_memory(loss: str, begin: int) -> None:
    mixer, x = built(loss=loss).train(), draw(1, T, D)
    if begin:
        _, state = mixer.extend(x[:, :begin], mixer.start(1))
        _, _, extras = mixer.extend_with_extras(x[:, begin:], state)
    else:
        _, extras = mixer.forward_with_extras(x)
    again, differences = losses_by_the_paper(mixer, x[0], begin)
    each = torch.stack(differences if loss == "attention" else again)
    assert extras.losses.keys() == {LOSSES[loss]}
    torch.testing.assert_close(extras.losses[LOSSES[loss]], each.mean(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_of_rows_of_other_lengths_are_the_mean_of_all(loss: str) -> None:
    """The rows have read 3 and 6 tokens, and read 9 and 5 of 12 more."""
    mixer, x = built(loss=loss).train(), draw(2, 18, D)
    before = torch.arange(6) < torch.tensor([[3], [6]])
    _, state = mixer.extend(x[:, :6], mixer.start(2), before)
    keep = torch.arange(12) % 4 != torch.tensor([[0], [1]])
    keep[1, 6:] = False
    _, _, extras = mixer.extend_with_extras(x[:, 6:], state, keep)
    each: list[Tensor] = []
    for row, first, kept in zip(x, (3, 6), keep, strict=True):
        read = torch.cat([row[:first], row[6:][kept]])
        again, differences = losses_by_the_paper(mixer, read, first)
        each += differences if loss == "attention" else again
    torch.testing.assert_close(extras.losses[LOSSES[loss]], torch.stack(each).mean(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_reach_nothing_but_the_compression(loss: str) -> None:
    """In a whole model, with a state whose gradients are kept: no other weight, nor what was read before."""
    mixer = {"kind": "compressive", **SIZES, "loss": loss}
    torch.manual_seed(0)
    model = seqloom.decoder(
        [mixer], vocab=11, dim=D, depth=2, context=8, position={"kind": "none"}, dropout=0.0
    ).train()
    ids = torch.randint(11, (2, 16))
    _, state, _ = model.extend_with_extras(ids[:, :8], model.start(2))
    logits, _, extras = model.extend_with_extras(ids[:, 8:], state)
    assert len(extras.losses) == 2, "one of each layer"
    named = dict(model.named_parameters())
    gradients = torch.autograd.grad(
        sum(extras.losses.values()), list(named.values()), retain_graph=True, allow_unused=True
    )
    reached = {name for name, slope in zip(named, gradients, strict=True) if slope is not None and bool(slope.any())}
    parts = ("w_c", "w_g") if loss == "autoencoding" else ("w_c",)
    assert reached == {name for name in named if name.endswith(tuple(f"compression.{part}.weight" for part in parts))}
    assert len(reached) == 2 * len(parts)
    (slope,) = torch.autograd.grad(logits.sum(), named["token.weight"])
    assert bool(slope.any()), "the task still trains the rest"


def test_a_text_that_fits_into_the_memory_has_losses_of_0_and_gradients_of_0() -> None:
    mixer = built().train()
    y, extras = mixer.forward_with_extras(draw(1, M, D))
    assert extras.losses["attention_reconstruction"].item() == 0
    (y.sum() + extras.losses["attention_reconstruction"]).backward()
    assert all(parameter.grad is not None for parameter in mixer.parameters())
    assert not mixer.get_parameter("compression.w_c.weight").grad.any()  # type: ignore[union-attr]


@pytest.mark.parametrize(("loss", "parts"), [("attention", ["w_c"]), ("autoencoding", ["w_c", "w_g"]), ("none", [])])
def test_what_has_a_loss_of_its_own_is_clipped_by_itself(loss: str, parts: list[str]) -> None:
    mixer = built(loss=loss)
    names = {id(parameter): name for name, parameter in mixer.named_parameters()}
    main, *own = [[names[id(each)] for each in together] for together in clipped_together(mixer)]
    assert own == ([[f"compression.{part}.weight" for part in parts]] if parts else [])
    assert sorted([*main, *(each for together in own for each in together)]) == sorted(names.values())


def test_losses_are_for_training_alone() -> None:
    assert built().eval().forward_with_extras(draw(1, T, D))[1].losses == {}
    assert built(loss="none").train().forward_with_extras(draw(1, T, D))[1].losses == {}


def test_memory_is_inputs_and_what_became_of_older_ones() -> None:
    mixer, x = built(), draw(1, T, D)
    _, state = mixer.extend(x[:, :9], mixer.start(1))
    assert torch.equal(state["x"].sort(1).values, x[:, 5:9].sort(1).values)
    expected = torch.stack([compressed(mixer, x[0], block, {}) for block in ([2, 3], [4, 5])])
    torch.testing.assert_close(state["slots"][0].sort(0).values, expected.sort(0).values, rtol=0, atol=1e-12)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_layers_reach_the_memory_and_a_rate_times_the_compressed_one(layers: int) -> None:
    far, last = layers * (M + C * S), 2 * (layers * (M + C * S) // 2 + 2)
    x = draw(1, last + 1, D).requires_grad_()
    y = x
    for _ in range(layers):
        y = built()(y)
        y = y / y.detach().abs().max()  # so that no share rounds to 0
    (slope,) = torch.autograd.grad(y[0, -1].sum(), x)
    reached = slope[0].abs().sum(-1).nonzero()[:, 0].tolist()
    assert reached == list(range(last - far, last + 1))


def test_weights_of_one_memory_serve_another() -> None:
    mixer, longer, x = built(), built(memory=10, compressed=5), draw(1, T, D)
    longer.load_state_dict(mixer.state_dict())
    torch.testing.assert_close(longer(x)[:, : M + 1], mixer(x)[:, : M + 1], rtol=0, atol=1e-12)
    assert not torch.allclose(longer(x)[:, -1], mixer(x)[:, -1], rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"memory": 6, "rate": 4}, "a memory of 6 is not of whole blocks of rate 4: choose 4 or 8"),
        ({"memory": 3, "rate": 4}, "a memory of 3 is not of whole blocks of rate 4: choose 4"),
        (
            {"memory": 4, "rate": 2, "dilation": 5},
            "a dilation of 5 at rate 2 reads over 5 tokens, more than the memory",
        ),
        ({"compression": "max", "loss": "none", "dilation": 2}, "dilation is of a convolution, not of max"),
        ({"compression": "most_used"}, "most_used learns nothing: set loss: none, or compression: convolution"),
        ({"rate": 1}, "rate"),
        ({"compressed": 0}, "compressed"),
        ({"compression": "median"}, "compression"),
    ],
)
def test_settings_that_do_not_fit_are_errors_of_one_line(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says) as refused:
        mixer_config({"kind": "compressive", **settings})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("window", "says"), [(2, "no block of rate 2: choose 2 or more"), (6, "choose 4 or 6")])
def test_another_memory_is_of_whole_blocks_too(window: int, says: str) -> None:
    config = mixer_config({"kind": "compressive", **SIZES})
    with pytest.raises(ValueError, match=says):
        config.with_window(window)
    assert config.with_window(9) == mixer_config({"kind": "compressive", **SIZES, "memory": 8})


@pytest.mark.slow
@torch.no_grad()
def test_a_step_executes_its_price_and_projects_the_memory_and_earlier_distances_again() -> None:
    """A block is compressed by the step that its first token leaves with, and read, so priced, by the next one."""
    mixer, state, after = built(), built().start(1), []

    def blocks(time: int) -> int:
        return max(0, math.ceil((time - M) / C))

    def distances(time: int) -> int:
        """Of the token at this position, counted from 1, and those before."""
        return min(time, M + 1) + min(blocks(time - 1), S)

    def made(number: int) -> Cost:
        return linear(number, C * D, D)

    def step(x: Tensor, state: State) -> None:
        after.append(mixer.step(x, state)[1])

    for t in range(1, T + 1):
        x = draw(1, D, seed=t)
        with use(attention="reference"):
            executed = count(lambda x=x, state=state: step(x, state))
        state = after[-1]
        price, reach, priced = mixer.cost(t, per="token"), distances(t), blocks(t - 1) - blocks(t - 2)
        again = linear(min(t - 1, M) + min(blocks(t - 1), S), D, 2 * D) + made(blocks(t) - blocks(t - 1))
        waves = Cost(mul=D // 2 * (reach + 1), exp=D // 2) + linear(reach, D, D)
        new = distances(t) - (distances(t - 1) if t > 1 else 0)
        less = Cost(mul=D // 2 * ((t == 1) + new), exp=D // 2 * (t == 1)) + linear(new, D, D)
        less = less + linear(priced, D, 2 * D) + made(priced)
        more = again + waves
        assert (executed.mul, executed.add, executed.div, executed.exp) == (
            price.mul + more.mul - less.mul,
            price.add + more.add - less.add,
            price.div,
            price.exp + more.exp - less.exp,
        ), t


def test_views_are_the_shares_of_the_regions() -> None:
    mixer, x = built(), draw(1, T, D)
    with torch.no_grad():
        shares = {view.name: view.values for view in mixer.plots(x)}
    assert list(shares) == [f"attention to the {name}" for name in ("compressed", "memory", "sequence")]
    torch.testing.assert_close(sum(shares.values()), torch.ones(T, dtype=torch.float64))
    slots = torch.tensor([i > M for i in range(T)])
    earlier = torch.tensor([i - i % 4 > C * max(0, math.ceil((i - M) / C)) for i in range(T)])
    assert torch.equal(shares["attention to the compressed"] > 0, slots)
    assert torch.equal(shares["attention to the memory"] > 0, earlier)
    assert bool((shares["attention to the sequence"] > 0).all())
