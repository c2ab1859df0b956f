"""The Routing Transformer against the equation token by token, its centroids, and how far it sees ahead."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, normalize

from seqloom.mixers import mixer_config
from seqloom.ops.backends import use
from seqloom.ops.bucketing import balance_clusters as clustered
from seqloom.ops.bucketing import choices

D, H, T = 8, 2, 22


def build(context: int | None = T, layer: int = 0, depth: int = 1, **settings: Any) -> Any:
    torch.manual_seed(0)
    config = mixer_config({"kind": "routing", "heads": H, "clusters": 3, "window": 4, **settings})
    mixer = config.build(D, context, layer=layer, depth=depth).double()
    for parameter in mixer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return mixer


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def looked(mixer: Any, q: Tensor, h: int) -> list[list[int]]:
    """Which tokens each token of head h looks at, from the definition; q (T, K)."""
    length, window = len(q), mixer.config.window
    if h < mixer.local:
        return [list(range(max(0, i - window), i + 1)) for i in range(length)]
    scores = q @ mixer.centroids[h - mixer.local].T
    if mixer.config.choice == "past":
        near = scores.argmax(1).tolist()
        return [[j for j in range(i + 1) if near[j] == near[i]][-window - 1 :] for i in range(length)]
    keys: list[list[int]] = [[] for _ in q]
    taken = -(-length // scores.shape[1])
    for cluster in scores.T:
        members = sorted(cluster.topk(taken).indices.tolist())
        for i in members:
            keys[i] += [j for j in members if j <= i]
    return keys


@pytest.mark.parametrize("backend", ["reference", "chunks", "blocks"])
@pytest.mark.parametrize("local_heads", [0, 1])
@pytest.mark.parametrize("choice", ["past", "text"])
def test_routing_is_its_equation(choice: str, local_heads: int, backend: str) -> None:
    mixer, x = build(choice=choice, local_heads=local_heads), draw(T, D)
    q, v = ((x @ w.weight.T).view(T, H, -1).transpose(0, 1) for w in (mixer.w_qk, mixer.w_v))
    q = layer_norm(q, (D // H,))
    y = torch.zeros(T, H, D // H, dtype=torch.float64)
    counts = set()
    for h in range(H):
        for i, keys in enumerate(looked(mixer, q[h], h)):
            counts.add(sum(j == i for j in keys))
            if keys:
                y[i, h] = (q[h, keys] @ q[h, i] / (D // H) ** 0.5).softmax(0) @ v[h, keys]
    assert counts == ({1} if choice == "past" else {0, 1, 2} | counts)
    with use(bucketing=backend):
        torch.testing.assert_close(mixer(x[None])[0], y.flatten(1) @ mixer.w_out.weight.T, rtol=0, atol=1e-12)


def test_centroids_follow_the_tokens_near_them() -> None:
    mixer, x = build(decay=0.9), draw(2, T, D)
    keep = torch.rand(2, T, generator=torch.Generator().manual_seed(0)) < 0.8
    mixer.train()
    _, extras = mixer.forward_with_extras(x, keep)
    q = mixer.project(x)[0]
    expected = mixer.centroids.clone()
    for h in range(H):
        real = q[:, h][keep] / (D // H) ** 0.5
        near = (real @ mixer.centroids[h].T).argmax(1)
        for c in range(3):
            if (near == c).any():
                mean = real[near == c].mean(0)
                expected[h, c] = normalize(0.9 * mixer.centroids[h, c] + 0.1 * mean, dim=0)
    before = mixer.centroids.clone()
    mixer.after_update(1, extras.statistics)
    torch.testing.assert_close(mixer.centroids, expected, rtol=0, atol=1e-12)
    assert not torch.equal(mixer.centroids, before)
    mixer.eval()
    assert not mixer.forward_with_extras(x)[1].statistics


def test_half_of_the_heads_of_the_last_two_layers() -> None:
    """Before them a token reads its neighbors alone, and there are no centroids."""
    shapes = [build(layer=n, depth=4, local_heads=1, layers=2).centroids.shape for n in range(4)]
    assert [shape[0] for shape in shapes] == [0, 0, 1, 1]


def moved(choice: str) -> tuple[float, float]:
    """Of the outputs of the first half of 128 tokens, when the second half is another text: how many move, how far."""
    torch.manual_seed(0)
    mixer = mixer_config({"kind": "routing", "clusters": 8, "choice": choice}).build(32, 128).double()
    x = draw(8, 128, 32)
    other = torch.cat([x[:, :64], draw(8, 64, 32, seed=2)], 1)
    with torch.no_grad():
        with choices.record_choices() as made:
            y = mixer(x)[:, :64]
        gap = mixer(other)[:, :64] - y
        with choices.fix_choices(made):
            torch.testing.assert_close(mixer(other)[:, :64], y, rtol=0, atol=1e-15)
    return float((gap.abs().amax(-1) > 1e-9).double().mean()), float(gap.norm() / y.norm())


def test_balanced_clusters_of_the_text_see_later_tokens() -> None:
    share, size = moved("text")
    assert round(share, 2) == 0.87
    assert round(size, 2) == 0.36


@pytest.mark.slow
def test_clusters_of_the_past_see_none() -> None:
    share, size = moved("past")
    assert share == 0
    assert size < 1e-15


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clusters": 40}, "40 clusters are more than the 22 tokens: set fewer clusters"),
        ({"local_heads": 3}, "3 local heads are more than all 2: set fewer local_heads"),
        ({"window": 0}, "window"),
        ({"decay": 1.0}, "decay"),
    ],
)
def test_settings_of_routing_that_do_not_fit(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(**settings)


@pytest.mark.parametrize("causal", [True, False])
def test_routing_is_lucidrains(causal: bool) -> None:
    """Of tokens in one cluster or in none: of several, theirs takes the mean, ours one softmax over all.

    Theirs divides by the number of clusters and 1e-5. Its learned keys of each cluster, which the paper lacks, are
    taken away.
    """
    D, H, T, N = 8, 2, 24, 3
    routing = pytest.importorskip("routing_transformer.routing_transformer")
    torch.manual_seed(0)
    settings = {"kind": "routing", "heads": H, "clusters": N, "choice": "text"}
    ours: Any = mixer_config(settings).build(D, None, causal=causal).double()
    theirs = routing.KmeansAttention(N, T // N, H, D // H, causal=causal).double().eval()
    theirs.mem_key, theirs.mem_value = (nn.Parameter(torch.empty(H, N, 0, D // H).double()) for _ in range(2))
    theirs.num_mem_kv = 0
    theirs.kmeans.means.copy_(ours.centroids)
    theirs.kmeans.initted.fill_(True)
    nn.init.eye_(ours.w_out.weight)
    x = draw(2, T, D)
    q, v = ours.project(x)
    clusters = clustered(ours.scores(q), torch.arange(T).expand(2, -1)).tokens
    few = torch.stack([(clusters == t).sum((2, 3)) <= 1 for t in range(T)], 2)  # (B, H, T)
    assert 0.4 < few.double().mean() < 1
    expected = theirs(q, q, v)[0] * (1 + 1e-5)
    y = ours(x).unflatten(-1, (H, -1)).transpose(1, 2)
    torch.testing.assert_close(y[few], expected[few], rtol=0, atol=1e-12)
