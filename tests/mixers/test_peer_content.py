"""Linformer, Routing Transformer and Sinkhorn attention next to lucidrains' packages, weights copied, in float64."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqloom.mixers import mixer_config
from seqloom.ops.bucketing import balanced as clustered
from seqloom.ops.bucketing.sinkhorn import balanced

D, H, T, N = 8, 2, 24, 3


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("length", [T, 17])
@pytest.mark.parametrize("share", ["heads", "keys_values"])
def test_linformer(share: str, length: int) -> None:
    """Theirs shares a mixture by keys and values only together with W_k and W_v: there ours gets them equal."""
    linformer = pytest.importorskip("linformer")
    torch.manual_seed(0)
    both = share == "keys_values"
    theirs = linformer.LinformerSelfAttention(D, T, k=N, heads=H, share_kv=both).double()
    ours: Any = mixer_config({"kind": "linformer", "heads": H, "k": N, "share": share}).build(D, T, causal=False)
    ours = ours.double()
    nn.init.zeros_(theirs.to_out.bias)
    with torch.no_grad():
        values = (theirs.to_k, theirs.proj_k) if both else (theirs.to_v, theirs.proj_v)
        pairs = (ours.w_q, theirs.to_q), (ours.w_k, theirs.to_k), (ours.w_v, values[0]), (ours.w_out, theirs.to_out)
        for one, other in pairs:
            one.weight.copy_(other.weight)
        ours.mixtures.keys.copy_(theirs.proj_k.T[None])
        ours.mixtures.for_values.copy_(values[1].T[None])
    x, dy = draw(2, length, D), draw(2, length, D, seed=2)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    y, expected = ours(inputs[0]), theirs(inputs[1])
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)
    (y * dy).sum().backward()
    (expected * dy).sum().backward()
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad, rtol=0, atol=1e-12)
    torch.testing.assert_close(ours.w_q.weight.grad, theirs.to_q.weight.grad, rtol=0, atol=1e-12)
    if not both:
        torch.testing.assert_close(ours.mixtures.keys.grad[0], theirs.proj_k.grad.T, rtol=0, atol=1e-12)


@pytest.mark.parametrize("causal", [True, False])
def test_routing(causal: bool) -> None:
    """Of tokens in one cluster or in none: of several, theirs takes the mean, ours one softmax over all.

    Theirs divides by the number of clusters and 1e-5. Its learned keys of each cluster, which the paper lacks, are
    taken away.
    """
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
    q, v = ours.projected(x)
    clusters = clustered(ours.scores(q), torch.arange(T).expand(2, -1)).tokens
    few = torch.stack([(clusters == t).sum((2, 3)) <= 1 for t in range(T)], 2)  # (B, H, T)
    assert 0.4 < few.double().mean() < 1
    expected = theirs(q, q, v)[0] * (1 + 1e-5)
    y = ours(x).unflatten(-1, (H, -1)).transpose(1, 2)
    torch.testing.assert_close(y[few], expected[few], rtol=0, atol=1e-12)


@pytest.mark.parametrize("cut", [None, 2])
def test_sinkhorn(cut: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Theirs mixes keys where it should mix values (in 0.11.4), so that values are keys here; its SortCut, unlike the
    paper's, keeps a token's own block where there are as many blocks of queries as of keys: here there is one.
    """
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
    q, k, _ = ours.projected(x)
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


def test_causal_sinkhorn() -> None:
    """The heads that theirs does not rotate; it gives the first block a learned key, and reads one best block for each:
    with the weights of ours in its place.
    """
    package = pytest.importorskip("sinkhorn_transformer.sinkhorn_transformer")
    torch.manual_seed(0)
    width = T // N
    theirs = package.SinkhornCausalAttention(width, D, D // H, H, T, n_top_buckets=1).double()
    ours: Any = mixer_config({"kind": "sinkhorn", "heads": H, "block": width}).build(D, T).double()
    nn.init.eye_(ours.w_out.weight)
    x = draw(2, T, D)
    q, k, v = ours.projected(x)
    before = torch.ones(1, 1, N, N, dtype=torch.bool).tril(-1)
    weights = nn.functional.pad(balanced(ours.past_scores(k), before, 1, columns=False), (1, 0))
    theirs.sort_net.forward = lambda q, k, topk: weights.flatten(0, 1)
    expected, y = theirs(q, k, v), ours(x).unflatten(-1, (H, -1)).transpose(1, 2)
    torch.testing.assert_close(y[:, : H // 2, width:], expected[:, : H // 2, width:], rtol=0, atol=1e-12)
