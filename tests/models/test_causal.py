"""No logit depends on a later token: by gradient and by replacing what follows."""

import pytest
import torch
from torch import Tensor

from seqloom.models.decoder import Decoder
from seqloom.ops.backends import use
from tests.models.drawing import CONTEXT, KINDS, VOCAB, decoder, ids


def gradients(model: Decoder, text: Tensor) -> Tensor:
    """|d logits[i] / d embedding[j]|, the largest of each pair of positions (T, T)."""
    leaf: list[Tensor] = []

    def replace(module: torch.nn.Module, inputs: object, output: Tensor) -> Tensor:
        leaf.append(output.detach().requires_grad_())
        return leaf[0]

    hook = model.dropout.register_forward_hook(replace)
    logits = model(text)
    hook.remove()
    weights = torch.randn(VOCAB, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    sums = (logits[0] @ weights).unbind()
    return torch.stack([torch.autograd.grad(one, leaf[0], retain_graph=True)[0][0].abs().amax(1) for one in sums])


@pytest.mark.parametrize("kind", KINDS)
def test_by_gradient(kind: str) -> None:
    with use(lag_sum="direct"):
        result = gradients(decoder(kind), ids(1, CONTEXT))
    assert bool((result.triu(1) == 0).all()), "a logit looks ahead"
    assert bool((result[torch.tril_indices(CONTEXT, CONTEXT).unbind()] > 1e-9).all()), (
        "a logit misses a token before it"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_by_gradient_with_the_backend_chosen_by_size(kind: str) -> None:
    T = 24
    result = gradients(decoder(kind, context=T), ids(1, T))
    assert float(result.triu(1).max()) <= 1e-12 * float(result.max())


@pytest.mark.parametrize("kind", KINDS)
def test_by_replacing_what_follows(kind: str) -> None:
    model, text = decoder(kind), ids(2, CONTEXT)
    with torch.no_grad(), use(lag_sum="direct"):
        expected = model(text)
        for position in range(1, CONTEXT):
            changed = text.clone()
            changed[:, position:] = (
                changed[:, position:] + 1 + ids(2, CONTEXT - position, seed=position) % (VOCAB - 1)
            ) % VOCAB
            actual = model(changed)
            assert actual[:, :position].equal(expected[:, :position])
            assert not actual[:, position:].equal(expected[:, position:])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_do_not_see_each_other(kind: str) -> None:
    model, text = decoder(kind), ids(3, CONTEXT)
    with torch.no_grad():
        expected = model(text)
        for row in range(3):
            assert torch.allclose(model(text[row : row + 1])[0], expected[row], rtol=1e-11, atol=1e-12)
