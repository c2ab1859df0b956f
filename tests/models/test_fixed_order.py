"""The recipe of a fixed order: a feed-forward network over the last embeddings alone."""

import torch

from seqloom.models.transformer import Transformer
from seqloom.training.settings import resolve

LAGS = 8


def test_the_logits_are_those_of_a_network_over_the_last_embeddings_side_by_side() -> None:
    config = resolve("ngram/fixed_order", ["model.dim=6", "model.ffn=10", "data.vocab=300"]).model
    torch.manual_seed(0)
    model = config.build().double().eval()
    assert isinstance(model, Transformer)
    ids = torch.randint(300, (2, 20))
    (block,) = model.blocks
    taps = dict(block.mixer.named_parameters())["w_ext"]
    weights = taps.reshape(LAGS, 6, 6)
    assert sum(weight.numel() for weight in block.mixer.parameters()) == LAGS * 36
    embedded = model.token(ids) * 6**0.5
    normed = block.norm_1(embedded)
    padded = torch.cat([torch.zeros(2, LAGS - 1, 6, dtype=torch.double), normed], 1)
    side_by_side = padded.unfold(1, LAGS, 1).flip(3).transpose(2, 3).reshape(2, 20, LAGS * 6)
    x = embedded + side_by_side @ weights.reshape(LAGS * 6, 6)
    x = x + block.ffn_sublayer(block.norm_2(x))
    expected = model.head(model.norm(x))
    torch.testing.assert_close(model(ids), expected)


def test_what_is_further_back_is_not_read() -> None:
    model = resolve("ngram/fixed_order", ["model.dim=8", "data.vocab=300"]).model.build().eval()
    ids = torch.randint(300, (1, 20))
    other = ids.clone()
    other[:, : 20 - LAGS] = 5
    torch.testing.assert_close(model(other)[:, -1], model(ids)[:, -1])
    other[:, 20 - LAGS] = (ids[:, 20 - LAGS] + 1) % 300
    assert not torch.allclose(model(other)[:, -1], model(ids)[:, -1])
