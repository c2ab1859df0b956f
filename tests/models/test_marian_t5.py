"""Encoder-decoders of `transformers` with our weights, in float64: Marian, and T5; logits, loss, gradients, decoding.

Marian's sines and cosines are in two halves of the channels, ours alternate: its channels are ours in another order, in
every weight that reads or writes the stream.
"""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from seqloom.generation.translation import translate
from seqloom.models.kinds import model_config
from seqloom.models.seq2seq import Seq2Seq
from seqloom.training.recipes import recipe

transformers = pytest.importorskip("transformers")
V, D, S, T, HEADS, WIDTH, DEPTH = 13, 16, 7, 6, 4, 24, 2
SIZES = {"vocab": V, "dim": D, "depth": DEPTH, "context": 24, "ffn": WIDTH, "dropout": 0.0}
HALVES = torch.cat([torch.arange(0, D, 2), torch.arange(1, D, 2)])
"""our channel at each of Marian's"""


def attention(ours: str, theirs: str, names: tuple[str, ...], kinds: tuple[str, ...]) -> dict[str, list[str]]:
    """Our matrix of queries, keys and values, and the output, as those of the peer."""
    return {
        f"{ours}.{part}.{kind}": [f"{theirs}.{name}.{kind}" for name in group]
        for part, group in (("w_qkv", names[:3]), ("w_out", names[3:]))
        for kind in kinds
    }


def crossed(ours: str, theirs: str, names: tuple[str, ...], kinds: tuple[str, ...]) -> dict[str, list[str]]:
    return {
        f"{ours}.{part}.{kind}": [f"{theirs}.{name}.{kind}"]
        for part, name in zip(("w_q", "w_k", "w_v", "w_out"), names, strict=True)
        for kind in kinds
    }


def plain(pairs: dict[str, str], kinds: tuple[str, ...]) -> dict[str, list[str]]:
    return {f"{ours}.{kind}": [f"{theirs}.{kind}"] for ours, theirs in pairs.items() for kind in kinds}


def marian() -> dict[str, list[str]]:
    """The peer's tensors that make each of ours, in Marian's names."""
    both, names = ("weight", "bias"), ("q_proj", "k_proj", "v_proj", "out_proj")
    result = {"token.weight": ["model.shared.weight"]}
    for n in range(DEPTH):
        for side in ("encoder", "decoder"):
            at, own = f"model.{side}.layers.{n}", f"encoder.layers.{n}" if side == "encoder" else f"layers.{n}"
            after = own if side == "encoder" else f"after.{n}"
            result |= attention(f"{own}.mixer", f"{at}.self_attn", names, both)
            parts = {f"{own}.norm_1": f"{at}.self_attn_layer_norm", f"{after}.norm_2": f"{at}.final_layer_norm"}
            parts |= {f"{after}.ffn.w_1": f"{at}.fc1", f"{after}.ffn.w_2": f"{at}.fc2"}
            result |= plain(parts, both)
        at = f"model.decoder.layers.{n}"
        result |= crossed(f"after.{n}.cross", f"{at}.encoder_attn", names, both)
        result |= plain({f"after.{n}.norm_1": f"{at}.encoder_attn_layer_norm"}, both)
    return result


def t5() -> dict[str, list[str]]:
    """The peer's tensors that make each of ours, in T5's names."""
    weight, names = ("weight",), ("q", "k", "v", "o")
    result = {"token.weight": ["shared.weight"]}  # its output layer too, without a scale
    bias = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    result |= {"shared.attention.table.weight": [f"decoder.{bias}"]}
    result |= {"encoder.shared.attention.table.weight": [f"encoder.{bias}"]}
    result |= plain({"encoder.norm": "encoder.final_layer_norm", "norm": "decoder.final_layer_norm"}, weight)
    for n in range(DEPTH):
        for side, own, after in (("encoder", f"encoder.layers.{n}", ""), ("decoder", f"layers.{n}", f"after.{n}")):
            at, after = f"{side}.block.{n}.layer", after or own
            last = 1 if side == "encoder" else 2
            result |= attention(f"{own}.mixer", f"{at}.0.SelfAttention", names, weight)
            parts = {f"{own}.norm_1": f"{at}.0.layer_norm", f"{after}.norm_2": f"{at}.{last}.layer_norm"}
            dense = f"{at}.{last}.DenseReluDense"
            result |= plain(parts | {f"{after}.ffn.w_1": f"{dense}.wi", f"{after}.ffn.w_2": f"{dense}.wo"}, weight)
        result |= crossed(f"after.{n}.cross", f"decoder.block.{n}.layer.1.EncDecAttention", names, weight)
        result |= plain({f"after.{n}.norm_1": f"decoder.block.{n}.layer.1.layer_norm"}, weight)
    return result


def in_turns(name: str, tensor: Tensor) -> Tensor:
    """A tensor of Marian's with our order of the stream's channels."""
    order = torch.argsort(HALVES)
    if "norm" in name or name.endswith(("w_out.bias", "w_2.bias")):
        return tensor[order]
    if name.endswith(("w_out.weight", "w_2.weight")):
        return tensor[order]
    return tensor if name.endswith("bias") else tensor[:, order]


def ours_of(names: dict[str, list[str]], theirs: dict[str, Tensor], halves: bool) -> dict[str, Tensor]:
    """The peer's tensors, weights or their gradients, by our names."""
    result = {ours: torch.cat([theirs[name] for name in group]) for ours, group in names.items()}
    return {name: in_turns(name, tensor) if halves else tensor for name, tensor in result.items()}


def held_to(model: Seq2Seq, peer: nn.Module, names: dict[str, list[str]], halves: bool, bound: float) -> None:
    """Logits, loss and gradients of padded sources, and greedy targets."""
    weights = {name: parameter.detach() for name, parameter in peer.named_parameters()}
    assert model.load_state_dict(ours_of(names, weights, halves)) is not None
    generator = torch.Generator().manual_seed(3)
    source = torch.randint(1, V - 1, (3, S), generator=generator)
    target = torch.randint(1, V - 1, (3, T), generator=generator)
    keep = torch.arange(S) < torch.tensor([[S], [4], [5]])
    ids = torch.cat([torch.zeros(3, 1, dtype=torch.long), target[:, :-1]], 1)
    asked: dict[str, Any] = {"input_ids": source, "attention_mask": keep.long(), "decoder_input_ids": ids}
    reference = peer(**asked).logits
    logits = model(ids, None, source, keep)
    torch.testing.assert_close(logits, reference, rtol=bound, atol=bound)
    cross_entropy(reference.flatten(0, 1), target.flatten()).backward()
    cross_entropy(logits.flatten(0, 1), target.flatten()).backward()
    gradients = {name: parameter.grad for name, parameter in peer.named_parameters() if parameter.grad is not None}
    expected = ours_of(names, gradients, halves)  # type: ignore[arg-type]
    own = dict(model.named_parameters())
    assert own.keys() == expected.keys()
    for name, gradient in expected.items():
        actual = own[name].grad
        assert actual is not None
        assert float(gradient.abs().max()) > 0, name
        torch.testing.assert_close(
            actual, gradient, rtol=bound, atol=bound, msg=lambda text, name=name: f"{name}: {text}"
        )
    written = translate(model.eval(), source, keep, eos=0, max_tokens=5)
    for row, tokens in enumerate(written):
        text = [0, *tokens]
        for length in range(1, len(text)):
            one = {"input_ids": source[row : row + 1, keep[row]], "decoder_input_ids": torch.tensor([text[:length]])}
            assert int(peer.eval()(**one).logits[0, -1].argmax()) == text[length]


def drawn(peer: nn.Module) -> nn.Module:
    """The peer in float64 with large weights, so that no term hides behind a small one."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, parameter in peer.double().named_parameters():
            if "embed_positions" in name:
                continue
            center = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            values = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(center + 0.3 * values)
    return peer.train()


@pytest.mark.slow
def test_the_recipe_is_marian() -> None:
    """seq2seq/vaswani, with the biases that Marian has in attention."""
    sides = {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in
             (("layers", DEPTH), ("attention_heads", HEADS), ("ffn_dim", WIDTH), ("layerdrop", 0.0))}  # fmt: skip
    config = transformers.MarianConfig(
        vocab_size=V, d_model=D, max_position_embeddings=24, dropout=0.0, attention_dropout=0.0, **sides,
        activation_dropout=0.0, activation_function="relu", scale_embedding=True, pad_token_id=V - 1, eos_token_id=0,
        decoder_start_token_id=0, forced_eos_token_id=None, attn_implementation="eager",
    )  # fmt: skip
    peer = drawn(transformers.MarianMTModel(config))
    heads = {"heads": HEADS, "bias": "all"}
    values = recipe("seq2seq/vaswani")["model"]
    mixer = {**values["mixer"], **heads}
    values |= {**SIZES, "mixer": mixer, "encoder": {"depth": DEPTH, "mixer": mixer}}
    values |= {"cross": {"heads": HEADS, "bias": True}}
    model = model_config(values).build().double()
    assert isinstance(model, Seq2Seq)
    for side in ("encoder", "decoder"):  # they are made in float32
        table = getattr(peer.model, side).embed_positions.weight  # type: ignore[union-attr]
        exact = model.position(torch.arange(24))[:, HALVES]  # type: ignore[misc]
        torch.testing.assert_close(table.detach(), exact, rtol=0, atol=2e-6)
        with torch.no_grad():
            table.copy_(exact)
    held_to(model, peer, marian(), halves=True, bound=1e-10)


@pytest.mark.slow
def test_t5() -> None:
    config = transformers.T5Config(
        vocab_size=V, d_model=D, d_kv=D // HEADS, d_ff=WIDTH, num_layers=DEPTH, num_heads=HEADS, dropout_rate=0.0,
        relative_attention_num_buckets=8, relative_attention_max_distance=10, layer_norm_epsilon=1e-5,
        feed_forward_proj="relu", tie_word_embeddings=False, pad_token_id=0, decoder_start_token_id=0,
    )  # fmt: skip
    peer = drawn(transformers.T5ForConditionalGeneration(config))
    mixer = {"kind": "attention", "heads": HEADS, "scale": 1.0}
    values = {"kind": "seq2seq", **SIZES, "mixer": mixer, "encoder": {"depth": DEPTH, "mixer": mixer}}
    values |= {"cross": {"heads": HEADS, "scale": 1.0}, "position": {"kind": "t5", "buckets": 8, "far": 10}}
    values |= {"norm": "rms", "ffn_bias": False, "embed_scale": False, "tie": True, "head_bias": False}
    model = model_config(values).build().double()
    assert isinstance(model, Seq2Seq)
    held_to(model, peer, t5(), halves=False, bound=2e-6)
