"""Sinkhorn attention: the equation token by token, balancing, what it sees ahead, and reading on."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqloom.mixers import mixer_config
from seqloom.ops.bucketing import choices, sinkhorn

D, H, T, b = 8, 2, 13, 3
N = 5


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def build(causal: bool = True, context: int = T, **settings: Any) -> Any:
    torch.manual_seed(0)
    config = mixer_config({"kind": "sinkhorn", "heads": H, "block": b, **settings})
    mixer: Any = config.build(D, context, causal=causal).double()
    for parameter in mixer.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return mixer


def balanced(z: Tensor, keep: Tensor, steps: int) -> Tensor:
    """Rows and columns divided by their sums, in turns."""
    w = z.exp() * keep
    for _ in range(steps):
        w = w / w.sum(1, keepdim=True).clamp(min=1e-300)
        w = w / w.sum(0, keepdim=True).clamp(min=1e-300)
    return w


@pytest.mark.parametrize(
    ("causal", "settings"),
    [
        (True, {}),
        (True, {"choice": "text"}),
        (True, {"choice": "text", "steps": 2, "temperature": 0.4}),
        (False, {}),
        (False, {"cut": 2}),
        (False, {"cut": 9, "steps": 1}),
    ],
)
def test_sinkhorn_is_its_equation(causal: bool, settings: dict[str, Any]) -> None:
    mixer, x = build(causal, **settings), draw(T, D)
    q, k, v = ((x @ w.weight.T).view(T, H, -1) for w in (mixer.w_q, mixer.w_k, mixer.w_v))
    blocks = [list(range(i, min(i + b, T))) for i in range(0, T, b)]
    y = torch.zeros(T, H, D // H, dtype=torch.float64)
    for h in range(H):
        pooled = [k[: i * b + 1, h].mean(0) if causal else k[own, h].mean(0) for i, own in enumerate(blocks)]
        z = (torch.stack(pooled) @ mixer.w_sort.weight.T + mixer.w_sort.bias) / settings.get("temperature", 0.75)
        keep = torch.ones(N, N, dtype=torch.float64).tril(-1 if causal else N)
        if causal and "choice" not in settings:
            w = z.exp() * keep / (z.exp() * keep).sum(1, keepdim=True).clamp(min=1e-300)
        else:
            w = balanced(z, keep, settings.get("steps", 7))
        sorted_k, sorted_v = (
            [
                sum(w[i, j] * a[blocks[j][c], h] for j in range(N) if c < len(blocks[j]))
                for i in range(N)
                for c in range(b)
            ]
            for a in (k, v)
        )
        for i, own in enumerate(blocks):
            for t in own:
                slots = range(i * b, i * b + b) if i or not causal else range(0)
                near = [s for s in own if s <= t or not causal]
                if "cut" in settings:
                    slots, near = range(min(settings["cut"], N) * b), []
                keys = torch.stack([*(sorted_k[s] for s in slots), *k[near, h]])
                values = torch.stack([*(sorted_v[s] for s in slots), *v[near, h]])
                e = (keys @ q[t, h] / (D // H) ** 0.5).exp()
                y[t, h] = e / e.sum() @ values
    torch.testing.assert_close(mixer(x[None])[0], y.flatten(1) @ mixer.w_out.weight.T, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_many_iterations_sort() -> None:
    """All entries: rows and columns sum to 1. Below the diagonal: nothing is left to choose, as the op says."""
    z, every = draw(1, 1, 6, 6), torch.ones(1, 1, 6, 6, dtype=torch.bool)
    w = sinkhorn.balance_matrix(z, every, 500)
    for axis in (-1, -2):
        torch.testing.assert_close(w.sum(axis), torch.ones(1, 1, 6, dtype=torch.float64), rtol=0, atol=1e-9)
    w = sinkhorn.balance_matrix(z, every.tril(-1), 20_000)
    torch.testing.assert_close(w[0, 0], torch.diag(torch.ones(5, dtype=torch.float64), -1), rtol=0, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("cuts", [[0, 1, 2, 5, 13], [0, 7, 13], list(range(14))])
@pytest.mark.parametrize("whole", [True, False])
def test_rows_of_sinkhorn_of_different_lengths_read_on(cuts: list[int], whole: bool) -> None:
    mixer, x = build(), draw(3, T, D)
    keep = torch.ones(3, T, dtype=torch.bool) if whole else draw(3, T, seed=3) > -0.5
    state, outputs = mixer.start(3), []
    for first, last in pairwise(cuts):
        y, state = mixer.extend(x[:, first:last], state, None if whole else keep[:, first:last])
        outputs.append(y)
    torch.testing.assert_close(torch.cat(outputs, 1), mixer(x, keep), rtol=0, atol=1e-12)


def test_noise_is_gumbels_and_drawn_in_training_alone() -> None:
    mixer, pooled = build(noise=True), draw(4, H, 2000, D // H)
    noise = mixer.scores(pooled) * 0.75 - mixer.w_sort(pooled)
    noise = noise.detach()
    assert float(noise.mean()) == pytest.approx(0.5772, abs=0.03)
    assert float(noise.var()) == pytest.approx(1.6449, abs=0.08)
    mixer.eval()
    torch.testing.assert_close(mixer.scores(pooled) * 0.75, mixer.w_sort(pooled), rtol=0, atol=1e-12)


def test_the_noise_of_ranks_is_that_of_one_process() -> None:
    mixer, pooled = build(noise=True), draw(4, H, 3, D // H)
    torch.manual_seed(1)
    whole = mixer.scores(pooled)
    for rank in range(2):
        mixer.rank, mixer.ranks = rank, 2
        torch.manual_seed(1)
        part = mixer.scores(pooled[2 * rank : 2 * rank + 2])
        torch.testing.assert_close(part, whole[2 * rank : 2 * rank + 2], rtol=0, atol=0)


def moved(choice: str) -> tuple[float, float]:
    """Of the outputs of the first half of 128 tokens, when the second half is another text: how many move, how far."""
    torch.manual_seed(0)
    mixer = mixer_config({"kind": "sinkhorn", "block": 8, "choice": choice}).build(32, 128).double()
    x = draw(8, 128, 32)
    other = torch.cat([x[:, :64], draw(8, 64, 32, seed=2)], 1)
    with torch.no_grad(), choices.soft_too():
        with choices.record_choices() as made:
            y = mixer(x)[:, :64]
        gap = mixer(other)[:, :64] - y
        with choices.fix_choices(made):
            torch.testing.assert_close(mixer(other)[:, :64], y, rtol=0, atol=1e-15)
    return float((gap.abs().amax(-1) > 1e-9).double().mean()), float(gap.norm() / y.norm())


def test_balanced_columns_see_later_tokens() -> None:
    share, size = moved("text")
    assert (share, round(size, 3)) == (56 / 64, 0.001)


def test_rows_of_the_past_see_none() -> None:
    assert moved("past") == (0.0, 0.0)


@pytest.mark.parametrize(
    ("causal", "settings", "message"),
    [
        (True, {"cut": 2}, "SortCut has no causal form: leave out cut"),
        (True, {"steps": 3}, "choice: past balances no columns: leave out steps"),
        (True, {"heads": 3}, "dim 8 is not divisible by heads 3"),
        (True, {"temperature": 0.0}, "temperature"),
        (False, {"steps": 0}, "steps"),
        (False, {"cut": 0}, "cut"),
    ],
)
def test_settings_of_sinkhorn_that_do_not_fit(causal: bool, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(causal, **settings)


def test_lengths_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="sinkhorn has weights for 13 positions, not for 14"):
        build()(draw(1, 14, D))
    with pytest.raises(ValueError, match="sinkhorn needs a context of 1 or more"):
        mixer_config({"kind": "sinkhorn"}).build(D, None)


@pytest.mark.parametrize("cut", [None, 2])
def test_sinkhorn_is_lucidrains(cut: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Theirs mixes keys where it should mix values (in 0.11.4), so that values are keys here; its SortCut, unlike the
    paper's, keeps a token's own block where there are as many blocks of queries as of keys: here there is one.
    """
    D, H, T, N = 8, 2, 24, 3
    package = pytest.importorskip("sinkhorn_transformer.sinkhorn_transformer")
    monkeypatch.setattr(package, "sample_gumbel", lambda shape, device, dtype: torch.zeros(shape, dtype=dtype))
    torch.manual_seed(0)
    width, n = T // N, 0 if cut is None else cut
    theirs = package.SinkhornAttention(
        width, D, D // H, H, T, temperature=0.6, non_permutative=False, sinkhorn_iter=4, n_sortcut=n
    )
    settings: dict[str, Any] = {"heads": H, "block": width, "steps": 4, "temperature": 0.6, "cut": cut}
    ours: Any = mixer_config({"kind": "sinkhorn", **settings}).build(D, T, causal=False).double()
    nn.init.eye_(ours.w_out.weight)
    ours.w_v.weight = ours.w_k.weight
    x = draw(2, T, D)
    q, k, _ = ours.project(x)
    blocks = torch.relu(torch.stack([part.mean(2) for part in q.chunk(N, 2)], 2) @ draw(D // H, N, seed=3)) + 0.1
    ours.scores = lambda pooled: blocks.add(1e-6).log() / 0.6
    monkeypatch.setattr(
        theirs.sort_net, "forward", lambda q, k, topk: package.gumbel_sinkhorn(blocks.flatten(0, 1), 4, 0.6)
    )
    if cut is not None:
        theirs.bucket_size = T
    expected = theirs(q, k, k)
    y = ours(x).unflatten(-1, (H, -1)).transpose(1, 2)
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)


def test_causal_sinkhorn_is_lucidrains() -> None:
    """The heads that theirs does not rotate; it gives the first block a learned key, and reads one best block for each:
    with the weights of ours in its place.
    """
    D, H, T, N = 8, 2, 24, 3
    package = pytest.importorskip("sinkhorn_transformer.sinkhorn_transformer")
    torch.manual_seed(0)
    width = T // N
    theirs = package.SinkhornCausalAttention(width, D, D // H, H, T, n_top_buckets=1).double()
    ours: Any = mixer_config({"kind": "sinkhorn", "heads": H, "block": width}).build(D, T).double()
    nn.init.eye_(ours.w_out.weight)
    x = draw(2, T, D)
    q, k, v = ours.project(x)
    before = torch.ones(1, 1, N, N, dtype=torch.bool).tril(-1)
    weights = nn.functional.pad(sinkhorn.balance_matrix(ours.past_scores(k), before, 1, columns=False), (1, 0))
    theirs.sort_net.forward = lambda q, k, topk: weights.flatten(0, 1)
    expected, y = theirs(q, k, v), ours(x).unflatten(-1, (H, -1)).transpose(1, 2)
    torch.testing.assert_close(y[:, : H // 2, width:], expected[:, : H // 2, width:], rtol=0, atol=1e-12)
