"""What a pass through the layers leaves: nothing that only Python's collector of circles would free."""

import gc
import weakref

import pytest
import torch

import seqloom

IDS = torch.zeros(1, 8, dtype=torch.int64)


@pytest.mark.parametrize("kind", ["gru", "rwkv7"])
@pytest.mark.parametrize("recompute", [False, True])
def test_states_and_gradients_are_freed_at_once(kind: str, recompute: bool) -> None:
    """rwkv7's layers hand tensors on."""
    model = seqloom.decoder(kind, vocab=17, dim=16, depth=2, context=8, position="none")
    model.recompute_layers(recompute)
    model.loss_with_extras(IDS, IDS)[0].backward()  # what is imported or built at the first call is left out
    gc.collect()
    gc.disable()
    try:
        logits, state = model.extend(IDS, model.start(1))
        kept = [weakref.ref(tensor) for layer in state.layers for part in layer for tensor in part.values()]
        logits.sum().backward()
        del logits, state
        assert not [reference for reference in kept if reference() is not None]
    finally:
        gc.enable()
