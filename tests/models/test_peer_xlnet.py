"""XLNet of `transformers` from left to right is the recipe transformer_xl/small, segment after segment, in float64.

Weights are copied; logits, memory and gradients agree to 1e-11. Its memory, too, is the last M inputs of each layer,
which carry no gradient and are projected again. What a token sees besides differs: by default all of its segment before
it, so more than M tokens; with `same_length` M at most, but without a memory itself alone. And XLNet does not multiply
embeddings by √D.
"""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqloom.core.model import Model
from seqloom.core.state import ModelState
from seqloom.models.kinds import model_config
from seqloom.ops.past import ring
from seqloom.training.recipes import recipe
from tests.models.drawing import ids

transformers = pytest.importorskip("transformers")
VOCAB, D, DEPTH, HEADS, WIDTH, M = 13, 16, 2, 4, 24, 5
K = D // HEADS
FFN = {
    **{"norm_1.weight": "rel_attn.layer_norm.weight", "norm_1.bias": "rel_attn.layer_norm.bias"},
    **{"ffn.w_1.weight": "ff.layer_1.weight", "ffn.w_1.bias": "ff.layer_1.bias"},
    **{"ffn.w_2.weight": "ff.layer_2.weight", "ffn.w_2.bias": "ff.layer_2.bias"},
    **{"norm_2.weight": "ff.layer_norm.weight", "norm_2.bias": "ff.layer_norm.bias"},
}


def ours_of(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The peer's tensors, weights or their gradients, by our names. They multiply x by (D, H, K); o is (D, H, K) too.

    What is left: `r_s_bias` and `seg_embed`, which no text without segments reads, and the mask's embedding.
    """
    found = {"token.weight": theirs["transformer.word_embedding.weight"], "head.bias": theirs["lm_loss.bias"]}
    for layer in range(DEPTH):
        at, own = f"transformer.layer.{layer}.", f"layers.{layer}."
        found |= {own + ours: theirs[at + name] for ours, name in FFN.items()}
        q, k, v, o, r = (theirs[f"{at}rel_attn.{name}"].flatten(1) for name in "qkvor")
        found[f"{own}mixer.w_q.weight"], found[f"{own}mixer.w_kv.weight"] = q.T, torch.cat([k, v], 1).T
        found[f"{own}mixer.w_out.weight"], found[f"{own}mixer.position.w_r.weight"] = o, r.T
        found[f"{own}mixer.position.u"] = theirs[f"{at}rel_attn.r_w_bias"]
        found[f"{own}mixer.position.v"] = theirs[f"{at}rel_attn.r_r_bias"]
    return found


def both(monkeypatch: pytest.MonkeyPatch) -> tuple[Model, Any]:
    """Ours and theirs, with the same weights."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)  # their waves are in float32
    torch.manual_seed(0)
    sizes = {"vocab_size": VOCAB, "d_model": D, "n_layer": DEPTH, "n_head": HEADS, "d_inner": WIDTH}
    config = transformers.XLNetConfig(
        **sizes, ff_activation="relu", attn_type="uni", mem_len=M, dropout=0.0, layer_norm_eps=1e-5
    )
    theirs = transformers.XLNetLMHeadModel(config).double().eval()
    for name, parameter in theirs.named_parameters():
        nn.init.normal_(parameter, mean=1.0 if name.endswith("layer_norm.weight") else 0.0, std=0.3)
    values = recipe("transformer_xl/small")["model"]
    own = {"vocab": VOCAB, "dim": D, "depth": DEPTH, "context": 8, "ffn": WIDTH, "dropout": 0.0, "embed_scale": False}
    mixer = {**values["mixer"], "heads": HEADS, "memory": M}
    ours = model_config({**values, **own, "mixer": mixer}).build().double().eval()
    ours.load_state_dict(ours_of(dict(theirs.named_parameters(remove_duplicate=False))))
    return ours, theirs


def remembered(state: ModelState, layer: int) -> Tensor:
    """What a layer keeps (B, M, D), the oldest first."""
    entries = state.layers[layer][0]
    order = ring.times(M, entries["length"]).argsort(1)
    return entries["x"].gather(1, order[:, :, None].expand_as(entries["x"]))


def detached(state: ModelState) -> ModelState:
    return torch.utils._pytree.tree_map(lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf, state)


def read(theirs: Any, text: Tensor, mems: Any) -> tuple[Tensor, Any]:
    """A segment of theirs: under `same_length` where there is a memory."""
    theirs.transformer.same_length = mems is not None
    out = theirs(input_ids=text, mems=mems, use_mems=True)
    return out.logits, out.mems


def near(found: Tensor, wanted: Tensor, name: str = "") -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-11, atol=1e-11, msg=lambda text: f"{name}: {text}")


@pytest.mark.slow
@pytest.mark.parametrize("later", [[M], [8, 3, 1]])
def test_segments_memory_and_gradients(later: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = both(monkeypatch)
    text = ids(2, M + 1 + sum(later))
    state, mems = ours.start(2), None
    for piece in text.split([M + 1, *later], 1):
        for model in (ours, theirs):
            model.zero_grad()
        logits, state = ours.extend(piece, detached(state))
        wanted, mems = read(theirs, piece, mems)
        near(logits, wanted, "logits")
        for layer in range(DEPTH):
            near(remembered(state, layer), mems[layer].transpose(0, 1), f"memory of layer {layer}")
        dy = torch.randn(logits.shape, generator=torch.Generator().manual_seed(1)).double()
        (logits * dy).sum().backward()
        (wanted * dy).sum().backward()
        named = theirs.named_parameters(remove_duplicate=False)
        gradients = ours_of({name: parameter.grad for name, parameter in named})
        for name, parameter in ours.named_parameters():
            near(parameter.grad, gradients[name], name)


@torch.no_grad()
def test_by_default_later_tokens_of_a_segment_see_more_than_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = both(monkeypatch)
    text = ids(2, M + 4)
    _, state = ours.extend(text[:, :M], ours.start(2))
    logits, _ = ours.extend(text[:, M:], state)
    mems = read(theirs, text[:, :M], None)[1]
    theirs.transformer.same_length = False
    wanted = theirs(input_ids=text[:, M:], mems=mems, use_mems=True).logits
    near(logits[:, 0], wanted[:, 0])  # exactly M before it
    assert (logits[:, 1:] - wanted[:, 1:]).abs().amax((0, 2)).min() > 1e-3


@torch.no_grad()
def test_with_same_length_and_no_memory_a_token_of_theirs_sees_itself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = both(monkeypatch)
    text = ids(1, M)
    theirs.transformer.same_length = True
    near(theirs(input_ids=text).logits[0], ours(text[0, :, None])[:, 0])
