"""peft's LoRA on a wrapped model: an adapter changes whole texts, pieces and tokens alike, and is merged exactly."""

import pytest
import torch

peft = pytest.importorskip("peft")

from seqloom.hf import state_cache  # noqa: E402
from seqloom.hf.lora import lora_config  # noqa: E402
from tests.hf.matrix import IDS, wrap  # noqa: E402


@torch.no_grad()
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["attention", "gated_delta", "gru", "mamba2", "rwkv7"])
def test_an_adapter_changes_texts_pieces_and_tokens(kind: str) -> None:
    wrapper = wrap(kind)
    before = wrapper(IDS).logits
    adapted = peft.get_peft_model(wrapper, lora_config(r=2, target_modules="all-linear", init_lora_weights=False))
    adapted = adapted.double().eval()
    whole = adapted(input_ids=IDS).logits
    assert not torch.allclose(whole, before, atol=1e-3)
    cache = state_cache(wrapper.model)
    pieces = [adapted(input_ids=piece, past_key_values=cache).logits for piece in IDS.split([3, 1, 1, 2], dim=1)]
    torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=0, atol=1e-9)
    merged = adapted.merge_and_unload()
    torch.testing.assert_close(merged(IDS).logits, whole, rtol=0, atol=1e-9)


def test_what_is_not_built_is_refused() -> None:
    with pytest.raises(ValueError, match="lora_dropout is not built"):
        lora_config(r=2, lora_dropout=0.1)
