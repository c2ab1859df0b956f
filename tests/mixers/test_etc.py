"""ETC against its equations with dense masks, in float64; global tokens from layer to layer; dropped tokens."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.mixers import mixer_config
from seqloom.mixers.attention.etc import ETCConfig
from seqloom.models.encoder import Encoder, EncoderConfig

D, H = 8, 2
SETTINGS: dict[str, dict[str, Any]] = {
    "shared": {"heads": H, "radius": 2, "segment": 4, "distance": 3},
    "separate": {"heads": H, "radius": 3, "segment": 5, "distance": 1, "projections": "separate"},
    "hard": {"heads": H, "radius": 1, "segment": 3, "distance": 2, "hard": True, "projections": "separate"},
}


def build(layer: int = 0, depth: int = 2, **settings: Any) -> Any:
    torch.manual_seed(0)
    mixer = mixer_config({"kind": "etc", **settings}).build(D, None, False, layer, depth).double()
    for parameter in mixer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return mixer


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def printed(
    mixer: Any, x: Tensor, g: Tensor, settings: dict[str, Any], masks: dict[str, Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """The equations for one row x (T, D), g (S, D): four matrices of scores, four masks and their labels, C = 10⁴."""
    T, S = len(x), len(g)
    radius, k, separate = settings["radius"], settings["distance"], settings.get("projections") == "separate"
    u = mixer.norm(g)
    i, s = torch.arange(T), torch.arange(S)
    own = i[:, None] // settings["segment"] == s  # (T, S)
    masks = masks or {
        "l2l": (i[:, None] - i).abs() <= radius,
        "l2g": torch.ones(T, S, dtype=torch.bool),
        "g2l": own.T if settings.get("hard") else torch.ones(S, T, dtype=torch.bool),
        "g2g": torch.ones(S, S, dtype=torch.bool),
    }
    labels = {
        "l2l": (i - i[:, None]).clamp(-k, k) + k,
        "l2g": torch.where(own, 2 * k + 1, 2 * k + 2),
        "g2l": torch.where(own.T, 2 * k + 1, 2 * k + 2),
        "g2g": (s - s[:, None]).clamp(-k, k) + k,
    }
    long = mixer.w_long.weight
    of_global = mixer.w_global.weight if separate else long
    keys = {
        "l2l": (x, long[D:]),
        "l2g": (u, mixer.w_l2g.weight if separate else long[D:]),
        "g2l": (x, mixer.w_g2l.weight if separate else long[D:]),
        "g2g": (u, of_global[D:]),
    }
    K = D // H
    outputs = []
    for queries, weight, table, pieces in (
        (x, long[:D], mixer.labels_long, ("l2l", "l2g")),
        (u, of_global[:D], mixer.labels_global, ("g2l", "g2g")),
    ):
        heads = []
        for h in range(H):
            of_head = slice(h * K, (h + 1) * K)
            q, scores, values = queries @ weight[of_head].T, [], []
            for piece in pieces:
                inputs, both = keys[piece]
                key, value = (inputs @ part[of_head].T for part in both.chunk(2))
                product = torch.einsum("ic,ijc->ij", q, key[None] + table[h][labels[piece]]) / K**0.5
                scores.append(product - (~masks[piece]).double() * 1e4)
                values.append(value)
            heads.append(torch.cat(scores, 1).softmax(1) @ torch.cat(values))
        outputs.append(torch.cat(heads, 1))
    w_global_out = mixer.w_global_out.weight if separate else mixer.w_out.weight
    return outputs[0] @ mixer.w_out.weight.T, g + outputs[1] @ w_global_out.T


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("T", [1, 7, 24, 201])
def test_it_is_the_papers_equations(name: str, T: int) -> None:
    """Outputs, global tokens and all gradients; 201 tokens are computed block by block."""
    settings = SETTINGS[name]
    mixer, x = build(**settings), draw(2, T, D).requires_grad_()
    S = -(-T // settings["segment"])
    g = draw(2, S, D, seed=2).requires_grad_()
    y, handed = mixer.forward_cross_layer(x, None, {f"global_{settings['segment']}": g})
    (after,) = handed.values()
    rows = [printed(mixer, x[b], g[b], settings) for b in range(2)]
    expected, wanted_after = (torch.stack(parts) for parts in zip(*rows, strict=True))
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(after, wanted_after, rtol=0, atol=1e-12)
    dy, dg = draw(2, T, D, seed=3), draw(2, S, D, seed=4)
    leaves = [x, g, *(parameter for name, parameter in mixer.named_parameters() if not name.startswith("shared"))]
    gradients = torch.autograd.grad((y * dy).sum() + (after * dg).sum(), leaves)
    by_hand = torch.autograd.grad((expected * dy).sum() + (wanted_after * dg).sum(), leaves)
    for one, other in zip(gradients, by_hand, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


class Paragraphs(ETCConfig):
    """Tokens read their paragraph and its global token, which reads the paragraph and earlier global tokens."""

    def masks(self, T: int) -> Callable[[Tensor, Tensor], Tensor]:
        def visible_pairs(i: Tensor, j: Tensor) -> Tensor:
            of_i, of_j = (torch.where(t < T, t // self.segment, t - T) for t in (i, j))
            return torch.where((i >= T) & (j >= T), of_j <= of_i, of_i == of_j)

        return visible_pairs


def test_masks_of_a_users_own() -> None:
    settings = {"heads": H, "radius": 4, "segment": 4, "distance": 2}
    torch.manual_seed(0)
    mixer: Any = Paragraphs(**settings).build(D, None, False, 0, 2).double()  # type: ignore[arg-type]
    for parameter in mixer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    x, g = draw(1, 10, D), draw(1, 3, D, seed=2)
    paragraph, of_global = torch.arange(10) // 4, torch.arange(3)
    own = paragraph[:, None] == of_global
    masks = {
        "l2l": paragraph[:, None] == paragraph,
        "l2g": own,
        "g2l": own.T,
        "g2g": of_global <= of_global[:, None],
    }
    y, handed = mixer.forward_cross_layer(x, None, {"global_4": g})
    expected_y, expected_g = printed(mixer, x[0], g[0], settings, masks)
    torch.testing.assert_close(y[0], expected_y)
    torch.testing.assert_close(handed["global_4"][0], expected_g)


@torch.no_grad()
@pytest.mark.parametrize("name", SETTINGS)
def test_a_dropped_token_is_as_if_it_were_not_there(name: str) -> None:
    settings = SETTINGS[name]
    mixers = [build(layer, 3, **settings) for layer in range(3)]
    x, keep = draw(3, 30, D), draw(3, 30, seed=5) > -0.5
    keep[2] = False

    def layers(x: Tensor, keep: Tensor | None) -> Tensor:
        handed: dict[str, Tensor] = {}
        for mixer in mixers:
            y, handed = mixer.forward_cross_layer(x, keep, handed)
            x = x + y
        return x

    result = layers(x, keep)
    for row in range(2):
        torch.testing.assert_close(result[row, keep[row]], layers(x[row, keep[row]][None], None)[0], rtol=0, atol=1e-12)
    assert torch.equal(result[2], x[2])


@torch.no_grad()
def test_distant_tokens_read_each_other_through_a_global_token_in_two_layers() -> None:
    """In an encoder; in one layer a token reads its window alone, since global tokens have read nothing yet."""
    sizes = {"vocab": 11, "dim": D, "context": 64, "dropout": 0.0, "std": 0.3, "position": {"kind": "none"}}
    mixer = mixer_config({"kind": "etc", **SETTINGS["shared"]})
    ids = torch.arange(40)[None] % 11
    for depth in (1, 2):
        torch.manual_seed(0)
        model = Encoder(EncoderConfig(**sizes, depth=depth, mixer=mixer)).double().eval()
        moved = (model(ids.index_fill(1, torch.tensor([30]), 5)) - model(ids))[0].abs().amax(1)
        assert bool((moved[28:33] > 0).all())
        assert bool((moved[:28] > 0).all()) == (depth == 2)


@torch.no_grad()
def test_a_hard_mask_gives_a_global_token_its_own_segment() -> None:
    """One global token for each 3 tokens."""
    mixer, x = build(**SETTINGS["hard"]), draw(1, 10, D)
    _, before = mixer.forward_cross_layer(x, None, {})
    _, after = mixer.forward_cross_layer(x.index_fill(1, torch.tensor([4]), 1.0), None, {})
    moved = (after["global_3"] - before["global_3"])[0].abs().amax(1)
    assert (moved > 0).tolist() == [False, True, False, False]


@torch.no_grad()
def test_with_a_wide_window_and_no_labels_it_is_attention_over_both_inputs() -> None:
    """The paper: BERT is a special case."""
    mixer = build(heads=H, radius=50, segment=4)
    attention = mixer_config({"kind": "attention", "heads": H}).build(D, None, False).double()
    attention.w_qkv.weight.copy_(mixer.w_long.weight)
    attention.w_out.weight.copy_(mixer.w_out.weight)
    for labels in (mixer.labels_long, mixer.labels_global):
        labels.zero_()
    x, g = draw(1, 14, D), draw(1, 4, D, seed=2)
    y, handed = mixer.forward_cross_layer(x, None, {"global_4": g})
    expected = attention(torch.cat([x, mixer.norm(g)], 1))
    torch.testing.assert_close(torch.cat([y, handed["global_4"] - g], 1), expected, rtol=0, atol=1e-12)


def test_the_last_layer_does_not_change_global_tokens() -> None:
    mixer, g = build(1, 2, **SETTINGS["separate"]), draw(1, 2, D)
    y, handed = mixer.forward_cross_layer(draw(1, 9, D), None, {"global_5": g})
    assert handed["global_5"] is g
    gradients = torch.autograd.grad(
        y.sum(), [parameter for n, parameter in mixer.named_parameters() if n != "shared.weight"]
    )
    assert all(bool(gradient.abs().sum() > 0) for gradient in gradients)


def test_it_has_no_causal_form() -> None:
    with pytest.raises(ValueError, match="etc is bidirectional: it has no causal form, so a decoder cannot use it"):
        mixer_config({"kind": "etc"}).build(D, None)
    with pytest.raises(ValueError, match="dim 8 is not divisible by heads 3: choose heads from 1, 2, 4, 8"):
        mixer_config({"kind": "etc", "heads": 3}).build(D, None, False)
