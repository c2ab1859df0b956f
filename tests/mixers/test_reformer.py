"""Reformer: against the equation token by token, against transformers' LSH attention, and how far it sees ahead."""

import importlib
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.mixers import mixer_config
from seqloom.mixers.attention.reformer import AS_TRANSFORMERS
from seqloom.ops.backends import use
from seqloom.ops.bucketing import choices

D, H, T = 8, 2, 24


def build(context: int | None = T, **settings: Any) -> Any:
    torch.manual_seed(0)
    settings = {"kind": "reformer", "heads": H, "bucket": 4, "rounds": 3, **settings}
    mixer = mixer_config(settings).build(D, context).double()
    for parameter in mixer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return mixer


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def looked(mixer: Any, x: Tensor) -> list[list[list[int]]]:
    """For each head, round by round, which tokens each token looks at, itself left out: written from the definition."""
    q = (x @ mixer.w_qk.weight.T).view(len(x), H, -1)
    m, R = mixer.config.bucket, mixer.rounds
    result = []
    for h in range(H):
        turned = (q[:, h] @ mixer.directions[h].double().T).view(len(x), R, -1)
        buckets = torch.cat([turned, -turned], -1).argmax(-1).tolist()
        seen: list[list[int]] = [[] for _ in x]
        for r in range(R):
            order = sorted(range(len(x)), key=lambda i: (buckets[i][r], i))
            for slot, i in enumerate(order):
                if mixer.config.choice == "past":
                    own = [j for j in range(i) if buckets[j][r] == buckets[i][r]]
                    seen[i] += own[-m:]
                else:
                    near = order[max(0, slot // m - 1) * m : (slot // m + 1) * m]
                    seen[i] += [j for j in near if j < i and buckets[j][r] == buckets[i][r]]
        result.append(seen)
    return result


@pytest.mark.parametrize("backend", ["reference", "chunks", "blocks"])
@pytest.mark.parametrize("choice", ["past", "text"])
def test_reformer_is_its_equation(choice: str, backend: str) -> None:
    mixer, x = build(choice=choice), draw(T, D)
    q, v = ((x @ w.weight.T).view(T, H, -1) for w in (mixer.w_qk, mixer.w_v))
    k = q / (q.square().sum(-1, keepdim=True) + 1e-6 * q.shape[-1]).sqrt()
    y = torch.empty(T, H, D // H, dtype=torch.float64)
    alone = 0
    for h, seen in enumerate(looked(mixer, x)):
        for i, keys in enumerate(seen):
            alone += not keys
            at = keys or [i]
            y[i, h] = (k[at, h] @ q[i, h]).softmax(0) @ v[at, h]
    assert 0 < alone < H * T
    with use(bucketing=backend):
        torch.testing.assert_close(mixer(x[None])[0], y.flatten(1) @ mixer.w_out.weight.T, rtol=0, atol=1e-12)


@pytest.mark.parametrize("causal", [True, False])
def test_transformers(causal: bool) -> None:
    """In float64, with their hashes: outputs and gradients. Their length is a multiple of the chunk's."""
    pytest.importorskip("transformers")
    module = importlib.import_module("transformers.models.reformer.modeling_reformer")
    configs = importlib.import_module("transformers.models.reformer.configuration_reformer")
    config = configs.ReformerConfig(
        hidden_size=D,
        num_attention_heads=H,
        attention_head_size=D // H,
        lsh_attn_chunk_length=4,
        lsh_num_chunks_before=1,
        lsh_num_chunks_after=0,
        num_hashes=3,
        num_buckets=6,
        is_decoder=causal,
        lsh_attention_probs_dropout_prob=0.0,
    )
    theirs = module.LSHSelfAttention(config, 0).double().eval()
    settings = {"kind": "reformer", "heads": H, "bucket": 4, "rounds": 3, "buckets": 6, **AS_TRANSFORMERS}
    ours = mixer_config(settings).build(D, None, causal).double()
    torch.nn.init.eye_(ours.w_out.weight)
    for one, other in ((ours.w_qk, theirs.query_key), (ours.w_v, theirs.value)):
        torch.nn.init.normal_(other.weight, std=0.7)
        one.weight.data.copy_(other.weight)
    x, dy = draw(2, T, D), draw(2, T, D, seed=2)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    hashes = theirs._hash_vectors(theirs.query_key(x).view(2, T, H, -1).transpose(1, 2), 3, None)
    offsets = 6 * torch.arange(3)[:, None]
    ours.buckets = lambda q: hashes.view(2, H, 3, T) - offsets
    expected = theirs(inputs[1], buckets=hashes).hidden_states
    y = ours(inputs[0])
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)
    (y * dy).sum().backward()
    (expected * dy).sum().backward()
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad, rtol=0, atol=1e-11)
    torch.testing.assert_close(ours.w_qk.weight.grad, theirs.query_key.weight.grad, rtol=0, atol=1e-11)
    torch.testing.assert_close(ours.w_v.weight.grad, theirs.value.weight.grad, rtol=0, atol=1e-11)


def moved(choice: str) -> tuple[float, float]:
    """Of the outputs of the first half of 128 tokens, when the second half is another text: how many move, by how much.

    The norm of the change over that of the outputs, as it begins, in 4 heads of 2 rounds and chunks of 8.
    """
    mixer = mixer_config({"kind": "reformer", "bucket": 8, "rounds": 2, "choice": choice})
    torch.manual_seed(0)
    reformer = mixer.build(32, 128).double()
    x = draw(8, 128, 32)
    other = torch.cat([x[:, :64], draw(8, 64, 32, seed=2)], 1)
    with torch.no_grad():
        with choices.record_choices() as made:
            y = reformer(x)[:, :64]
        gap = reformer(other)[:, :64] - y
        with choices.fix_choices(made):
            torch.testing.assert_close(reformer(other)[:, :64], y, rtol=0, atol=1e-15)
    return float((gap.abs().amax(-1) > 1e-9).double().mean()), float(gap.norm() / y.norm())


def test_the_choice_by_the_text_sees_later_tokens() -> None:
    """What moves is where chunks are cut, and nothing else: in the same chunks earlier outputs stay."""
    share, size = moved("text")
    assert round(share, 2) == 0.07
    assert round(size, 2) == 0.02


def test_the_choice_by_the_past_sees_none() -> None:
    share, size = moved("past")
    assert share == 0
    assert size < 1e-15  # other slots are added up in another order


def test_directions_are_drawn_again_in_training_alone() -> None:
    mixer = build(redraw_every=2)
    first = mixer.directions.clone()
    mixer.after_update(1, {})
    assert torch.equal(mixer.directions, first)
    mixer.after_update(2, {})
    assert not torch.equal(mixer.directions, first)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"buckets": 3}, "an even number, those of a direction and of its opposite, not 3"),
        ({"rounds": 0}, "rounds"),
        ({"across_buckets": True}, "set choice: text"),
        ({"rounds_sorted": "together"}, "set choice: text"),
    ],
)
def test_settings_of_reformer_that_do_not_fit(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mixer_config({"kind": "reformer", **settings})


def test_the_choice_by_the_text_reads_whole_texts_alone() -> None:
    with pytest.raises(ValueError, match="no start; set choice: past"):
        build(choice="text").start(1)
