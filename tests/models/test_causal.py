"""No logit depends on a later token: by gradient and by replacing what follows."""

import pytest
import torch
from torch import Tensor

from seqloom.models.decoder import Decoder
from seqloom.ops.backends import use
from tests.models.drawing import CONTEXT, KINDS, VOCAB, decoder, ids


def gradients(model: Decoder, text: Tensor) -> Tensor:
    """|d logits[i] / d embedding[j]|, the largest of each pair of places (T, T)."""
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
        found = gradients(decoder(kind), ids(1, CONTEXT))
    assert bool((found.triu(1) == 0).all()), "a logit looks ahead"
    assert bool((found[torch.tril_indices(CONTEXT, CONTEXT).unbind()] > 1e-9).all()), "a logit misses a token before it"


@pytest.mark.parametrize("kind", KINDS)
def test_by_gradient_with_the_backend_chosen_by_size(kind: str) -> None:
    T = 24
    found = gradients(decoder(kind, context=T), ids(1, T))
    assert float(found.triu(1).max()) <= 1e-12 * float(found.max())


@pytest.mark.parametrize("kind", KINDS)
def test_by_replacing_what_follows(kind: str) -> None:
    model, text = decoder(kind), ids(2, CONTEXT)
    with torch.no_grad(), use(lag_sum="direct"):
        wanted = model(text)
        for place in range(1, CONTEXT):
            changed = text.clone()
            changed[:, place:] = (changed[:, place:] + 1 + ids(2, CONTEXT - place, seed=place) % (VOCAB - 1)) % VOCAB
            found = model(changed)
            assert found[:, :place].equal(wanted[:, :place])
            assert not found[:, place:].equal(wanted[:, place:])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_do_not_see_each_other(kind: str) -> None:
    model, text = decoder(kind), ids(3, CONTEXT)
    with torch.no_grad():
        wanted = model(text)
        for row in range(3):
            assert torch.allclose(model(text[row : row + 1])[0], wanted[row], rtol=1e-11, atol=1e-12)
