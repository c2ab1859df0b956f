"""The recipe bert/small at small sizes against `transformers`, weights copied, in float64: logits, loss, gradients."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from seqloom.models.kinds import model_config
from seqloom.training.recipes import recipe

transformers = pytest.importorskip("transformers")
V, D, T, HEADS, WIDTH, DEPTH = 13, 16, 9, 4, 24, 3
SIZES = {"vocab": V, "dim": D, "depth": DEPTH, "context": 12, "dropout": 0.0}
INSIDE = {
    "mixer.w_out.weight": "attention.output.dense.weight",
    "mixer.w_out.bias": "attention.output.dense.bias",
    "norm_1.weight": "attention.output.LayerNorm.weight",
    "norm_1.bias": "attention.output.LayerNorm.bias",
    "ffn.w_1.weight": "intermediate.dense.weight",
    "ffn.w_1.bias": "intermediate.dense.bias",
    "ffn.w_2.weight": "output.dense.weight",
    "ffn.w_2.bias": "output.dense.bias",
    "norm_2.weight": "output.LayerNorm.weight",
    "norm_2.bias": "output.LayerNorm.bias",
}
OUTSIDE = {
    "token.weight": "bert.embeddings.word_embeddings.weight",
    "embed_norm.weight": "bert.embeddings.LayerNorm.weight",
    "embed_norm.bias": "bert.embeddings.LayerNorm.bias",
    "head_layer.0.weight": "cls.predictions.transform.dense.weight",
    "head_layer.0.bias": "cls.predictions.transform.dense.bias",
    "head_layer.2.weight": "cls.predictions.transform.LayerNorm.weight",
    "head_layer.2.bias": "cls.predictions.transform.LayerNorm.bias",
    "head.bias": "cls.predictions.bias",
}


def ours_of(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The peer's tensors, weights or their gradients, by our names; segment 0 goes into neither."""
    result = {ours: theirs[name] for ours, name in OUTSIDE.items()}
    result["position.table.weight"] = theirs["bert.embeddings.position_embeddings.weight"]
    for layer in range(DEPTH):
        at = f"bert.encoder.layer.{layer}."
        result |= {f"layers.{layer}.{ours}": theirs[f"{at}{name}"] for ours, name in INSIDE.items()}
        for what in ("weight", "bias"):
            qkv = [theirs[f"{at}attention.self.{name}.{what}"] for name in ("query", "key", "value")]
            result[f"layers.{layer}.mixer.w_qkv.{what}"] = torch.cat(qkv)
    return result


@pytest.mark.slow
@pytest.mark.parametrize("padded", [False, True])
def test_the_whole_model_is_bert(padded: bool) -> None:
    torch.manual_seed(0)
    sizes = {"vocab_size": V, "hidden_size": D, "num_hidden_layers": DEPTH, "num_attention_heads": HEADS}
    sizes |= {"intermediate_size": WIDTH, "max_position_embeddings": 12, "pad_token_id": None}
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "layer_norm_eps": 1e-5}
    config = transformers.BertConfig(**sizes, **rates, attn_implementation="eager")
    peer = transformers.BertForMaskedLM(config).double().train()
    for name, parameter in peer.named_parameters():
        centre = 1.0 if name.endswith("LayerNorm.weight") else 0.0
        torch.nn.init.normal_(parameter, mean=centre, std=0.3)
    peer.bert.embeddings.token_type_embeddings.weight.data[0] = 0.0
    values = recipe("bert/small")["model"]
    own = {**values, **SIZES, "ffn": {**values["ffn"], "width": WIDTH}, "mixer": {**values["mixer"], "heads": HEADS}}
    model = model_config(own).build().double().train()
    model.load_state_dict(ours_of(peer.state_dict()))
    ids = torch.randint(V, (3, T))
    keep = torch.ones(3, T, dtype=torch.bool)
    if padded:
        keep[1, 6:] = False
    targets = torch.where(keep, torch.randint(V, (3, T)), -100)
    logits = peer(ids, attention_mask=keep.long()).logits
    actual = model(ids, keep)
    torch.testing.assert_close(actual[keep], logits[keep], rtol=1e-11, atol=1e-11)
    for each in (logits, actual):
        cross_entropy(each.flatten(0, 1), targets.flatten()).backward()
    expected = ours_of(
        {name: _gradient(parameter) for name, parameter in peer.named_parameters(remove_duplicate=False)}
    )
    gradients = {name: _gradient(parameter) for name, parameter in model.named_parameters()}
    assert gradients.keys() == expected.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-9, atol=1e-11, msg=name)


def _gradient(parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def test_its_price_counts_its_parameters() -> None:
    model = model_config({**recipe("bert/small")["model"], **SIZES}).build()
    assert model.cost(T).params == sum(parameter.numel() for parameter in model.parameters())
    plain = model_config({**recipe("bert/small")["model"], **SIZES, "head_layer": False}).build()
    layer = model.cost(T, outputs=2).total - plain.cost(T, outputs=2).total
    assert 0 < layer < model.cost(T).total - plain.cost(T).total
