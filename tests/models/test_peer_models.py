"""The whole models of our recipes against `transformers`, weights copied: logits and the gradient of every parameter.

Each is a recipe at small sizes, in float64. Where a peer rounds to float32 inside (Llama's and Mamba's norms, the
angles of rotary positions, RWKV's keys, Mamba's scan) both agree to 2e-6 of the largest number, else to 1e-11. Mamba-2,
Qwen3-Next and Kimi Linear round so often that their gradients are further from float64: they are run as if float32 were
float64.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqloom.core.model import Model
from seqloom.models.kinds import model_config
from seqloom.training.recipes import recipe
from tests.models.drawing import ids

transformers = pytest.importorskip("transformers")
VOCAB, D, DEPTH, CONTEXT, HEADS, WIDTH = 13, 16, 2, 12, 4, 24
GAINS = tuple(f"{name}.weight" for name in ("norm", "norm_f", "ln_1", "ln_2", "ln_f", "ln1", "ln2", "ln_out", "pre_ln"))
"""the ends of the peers' names of gains, which are drawn around 1"""
Weights = Mapping[str, Tensor]


def same(name: str) -> Callable[[Weights], Tensor]:
    return lambda theirs: theirs[name]


def turned(name: str) -> Callable[[Weights], Tensor]:
    """GPT-2's matrices are (inputs, outputs)."""
    return lambda theirs: theirs[name].T


def flat(name: str) -> Callable[[Weights], Tensor]:
    return lambda theirs: theirs[name].flatten()


def stacked(*names: str) -> Callable[[Weights], Tensor]:
    return lambda theirs: torch.cat([theirs[name] for name in names])


def by_kind(name: str) -> Callable[[Weights], Tensor]:
    """GPT-NeoX has queries, keys and values head by head, we have those of all heads one after the other."""
    return lambda theirs: theirs[name].unflatten(0, (HEADS, 3, D // HEADS)).transpose(0, 1).flatten(0, 2)


def taps(name: str) -> Callable[[Weights], Tensor]:
    """Mamba's are (E, 1, W), the oldest first."""
    return lambda theirs: theirs[name][:, 0].flip(1).T


def beside(name: str, *words: str) -> Callable[[Weights], Tensor]:
    """Several tensors of the peer, along their last axis."""
    return lambda theirs: torch.cat([theirs[name.format(word)] for word in words], -1)


def parted(name: str, heads: int, sizes: tuple[int, ...], *parts: int) -> Callable[[Weights], Tensor]:
    """Of a projection that has, head by head, parts of these sizes: some of them, each of all heads together."""

    def read(theirs: Weights) -> Tensor:
        each = theirs[name].unflatten(0, (heads, -1)).split(sizes, 1)
        return torch.cat([each[part].flatten(0, 1) for part in parts])

    return read


@dataclass
class Peer:
    model: str
    """the class in `transformers`, and its settings"""
    sizes: dict[str, Any]
    ours: dict[str, Any]
    """what differs from the recipe at `SIZES`"""
    top: dict[str, Callable[[Weights], Tensor]]
    layer: dict[str, Callable[[Weights], Tensor]]
    """from our name of a parameter, inside a layer, to it in the peer's layer `at`"""
    at: str
    recipe: str
    bound: float = 2e-6
    later: dict[str, Callable[[Weights], Tensor]] | None = None
    """the same of the last layer, where it is another"""
    centred: bool = False
    """whether its norms, but for those of heads, multiply by 1 + weight"""
    prepare: Callable[[nn.Module], object] = id
    widened: str | None = None
    """the module in `transformers.models` whose float32 is float64 here"""


def narrower(model: nn.Module) -> None:
    """Our norms of queries and keys have ε = 1e-6, those around the layers 1e-5; the peer has one for both."""
    for name, part in model.named_modules():
        if name.endswith(("q_norm", "k_norm")):
            part.eps = 1e-6  # type: ignore[assignment]


OUTSIDE: dict[str, Callable[[Weights], Tensor]] = {
    "norm_1.weight": same("input_layernorm.weight"),
    "norm_2.weight": same("post_attention_layernorm.weight"),
    **{"ffn.w_gate.weight": same("mlp.gate_proj.weight"), "ffn.w_1.weight": same("mlp.up_proj.weight")},
    "ffn.w_2.weight": same("mlp.down_proj.weight"),
}
"""what is around Llama's mixer"""
KIMI = recipe("kimi/small")["model"]["mixer"]
PEERS = {
    "GPT-2": Peer(
        "GPT2LMHeadModel",
        {"n_embd": D, "n_layer": DEPTH, "n_head": HEADS, "n_positions": CONTEXT, "n_inner": WIDTH},
        {},
        {
            **{"token.weight": same("transformer.wte.weight"), "position.table.weight": same("transformer.wpe.weight")},
            **{"norm.weight": same("transformer.ln_f.weight"), "norm.bias": same("transformer.ln_f.bias")},
        },
        {
            **{"norm_1.weight": same("ln_1.weight"), "norm_1.bias": same("ln_1.bias")},
            **{"norm_2.weight": same("ln_2.weight"), "norm_2.bias": same("ln_2.bias")},
            **{"mixer.w_qkv.weight": turned("attn.c_attn.weight"), "mixer.w_qkv.bias": same("attn.c_attn.bias")},
            **{"mixer.w_out.weight": turned("attn.c_proj.weight"), "mixer.w_out.bias": same("attn.c_proj.bias")},
            **{"ffn.w_1.weight": turned("mlp.c_fc.weight"), "ffn.w_1.bias": same("mlp.c_fc.bias")},
            **{"ffn.w_2.weight": turned("mlp.c_proj.weight"), "ffn.w_2.bias": same("mlp.c_proj.bias")},
        },
        "transformer.h",
        "gpt2/small",
        bound=1e-11,
    ),
    "Llama": Peer(
        "LlamaForCausalLM",
        {
            **{"hidden_size": D, "num_hidden_layers": DEPTH, "num_attention_heads": HEADS, "num_key_value_heads": 2},
            **{"intermediate_size": WIDTH, "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-5},
        },
        {},
        {
            **{"token.weight": same("model.embed_tokens.weight"), "norm.weight": same("model.norm.weight")},
            "head.weight": same("lm_head.weight"),
        },
        {
            **OUTSIDE,
            "mixer.w_qkv.weight": stacked(*(f"self_attn.{letter}_proj.weight" for letter in "qkv")),
            "mixer.w_out.weight": same("self_attn.o_proj.weight"),
        },
        "model.layers",
        "llama/small",
    ),
    "GPT-NeoX": Peer(
        "GPTNeoXForCausalLM",
        {
            **{"hidden_size": D, "num_hidden_layers": DEPTH, "num_attention_heads": HEADS, "intermediate_size": WIDTH},
            **{"max_position_embeddings": CONTEXT, "hidden_act": "gelu", "use_parallel_residual": True},
            "tie_word_embeddings": False,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0},
        },
        {
            **{"position": {"kind": "rotary"}, "sublayers": "parallel", "ffn": {"activation": "gelu"}, "tie": False},
            "mixer": {"kind": "attention", "heads": HEADS, "bias": "all"},
        },
        {
            **{"token.weight": same("gpt_neox.embed_in.weight"), "head.weight": same("lm_head.weight")},
            "norm.weight": same("gpt_neox.final_layer_norm.weight"),
            "norm.bias": same("gpt_neox.final_layer_norm.bias"),
        },
        {
            **{"norm_1.weight": same("input_layernorm.weight"), "norm_1.bias": same("input_layernorm.bias")},
            "norm_2.weight": same("post_attention_layernorm.weight"),
            "norm_2.bias": same("post_attention_layernorm.bias"),
            "mixer.w_qkv.weight": by_kind("attention.query_key_value.weight"),
            "mixer.w_qkv.bias": by_kind("attention.query_key_value.bias"),
            **{"mixer.w_out.weight": same("attention.dense.weight"), "mixer.w_out.bias": same("attention.dense.bias")},
            "ffn.w_1.weight": same("mlp.dense_h_to_4h.weight"),
            "ffn.w_1.bias": same("mlp.dense_h_to_4h.bias"),
            "ffn.w_2.weight": same("mlp.dense_4h_to_h.weight"),
            "ffn.w_2.bias": same("mlp.dense_4h_to_h.bias"),
        },
        "gpt_neox.layers",
        "gpt2/small",
    ),
    "RWKV": Peer(
        "RwkvForCausalLM",
        {
            **{"hidden_size": D, "num_hidden_layers": DEPTH, "context_length": CONTEXT, "intermediate_size": WIDTH},
            **{"rescale_every": 0, "use_cache": False},
        },
        {},
        {
            **{"token.weight": same("rwkv.embeddings.weight"), "head.weight": same("head.weight")},
            "embed_norm.weight": same("rwkv.blocks.0.pre_ln.weight"),
            "embed_norm.bias": same("rwkv.blocks.0.pre_ln.bias"),
            **{"norm.weight": same("rwkv.ln_out.weight"), "norm.bias": same("rwkv.ln_out.bias")},
        },
        {
            **{"norm_1.weight": same("ln1.weight"), "norm_1.bias": same("ln1.bias")},
            **{"norm_2.weight": same("ln2.weight"), "norm_2.bias": same("ln2.bias")},
            "mixer.mu_r": flat("attention.time_mix_receptance"),
            **{"mixer.mu_k": flat("attention.time_mix_key"), "mixer.mu_v": flat("attention.time_mix_value")},
            **{"mixer.log_rate": same("attention.time_decay"), "mixer.bonus": same("attention.time_first")},
            "mixer.w_r.weight": same("attention.receptance.weight"),
            **{"mixer.w_k.weight": same("attention.key.weight"), "mixer.w_v.weight": same("attention.value.weight")},
            "mixer.w_out.weight": same("attention.output.weight"),
            "channel_mix.mu_r": flat("feed_forward.time_mix_receptance"),
            "channel_mix.mu_k": flat("feed_forward.time_mix_key"),
            "channel_mix.w_r.weight": same("feed_forward.receptance.weight"),
            "channel_mix.w_k.weight": same("feed_forward.key.weight"),
            "channel_mix.w_v.weight": same("feed_forward.value.weight"),
        },
        "rwkv.blocks",
        "rwkv4/small",
    ),
    "Mamba": Peer(
        "MambaForCausalLM",
        {
            **{"hidden_size": D, "num_hidden_layers": DEPTH, "state_size": 5, "conv_kernel": 3, "time_step_rank": 2},
            **{"expand": 2, "use_mambapy": False, "residual_in_fp32": False},
        },
        {"mixer": {"kind": "mamba", "state_dim": 5, "kernel": 3, "dt_rank": 2}},
        {"token.weight": same("backbone.embeddings.weight"), "norm.weight": same("backbone.norm_f.weight")},
        {
            **{"norm_1.weight": same("norm.weight"), "mixer.in_proj.weight": same("mixer.in_proj.weight")},
            **{
                "mixer.x_proj.weight": same("mixer.x_proj.weight"),
                "mixer.out_proj.weight": same("mixer.out_proj.weight"),
            },
            **{"mixer.dt_proj.weight": same("mixer.dt_proj.weight"), "mixer.dt_proj.bias": same("mixer.dt_proj.bias")},
            **{"mixer.a_log": same("mixer.A_log"), "mixer.d": same("mixer.D")},
            **{"mixer.conv_weight": taps("mixer.conv1d.weight"), "mixer.conv_bias": same("mixer.conv1d.bias")},
        },
        "backbone.layers",
        "mamba/small",
    ),
    "Mamba-2": Peer(
        "Mamba2ForCausalLM",
        {
            **{"hidden_size": D, "num_hidden_layers": DEPTH, "state_size": 5, "conv_kernel": 3, "expand": 2},
            **{"num_heads": 4, "head_dim": 8, "n_groups": 2, "chunk_size": 4, "residual_in_fp32": False},
            "tie_word_embeddings": True,
        },
        {"mixer": {"kind": "mamba2", "state_dim": 5, "kernel": 3, "head_width": 8, "groups": 2}},
        {"token.weight": same("backbone.embeddings.weight"), "norm.weight": same("backbone.norm_f.weight")},
        {
            **{"norm_1.weight": same("norm.weight"), "mixer.w_in.weight": same("mixer.in_proj.weight")},
            **{"mixer.w_out.weight": same("mixer.out_proj.weight"), "mixer.conv.bias": same("mixer.conv1d.bias")},
            **{"mixer.conv.weight": taps("mixer.conv1d.weight"), "mixer.a_log": same("mixer.A_log")},
            **{"mixer.step_bias": same("mixer.dt_bias"), "mixer.d": same("mixer.D")},
            "mixer.norm.weight": lambda theirs: theirs["mixer.norm.weight"].unflatten(0, (2, -1)),
        },
        "backbone.layers",
        "mamba2/small",
        bound=1e-11,
        widened="mamba2.modeling_mamba2",
    ),
    "RecurrentGemma": Peer(  # without attention, whose output has a bias there
        "RecurrentGemmaForCausalLM",
        {
            **{"hidden_size": D, "num_hidden_layers": DEPTH, "num_attention_heads": 2, "lru_width": D},
            **{"intermediate_size": 2 * WIDTH, "rms_norm_eps": 1e-5, "logits_soft_cap": 1e9, "pad_token_id": None},
            **{"block_types": ["recurrent"], "tie_word_embeddings": True, "use_cache": False},
        },
        {"mixer": {"kind": "rglru", "heads": 2}, "position": {"kind": "none"}},
        {"token.weight": same("model.embed_tokens.weight"), "norm.weight": same("model.final_norm.weight")},
        {
            **{"norm_1.weight": same("temporal_pre_norm.weight"), "norm_2.weight": same("channel_pre_norm.weight")},
            **{
                f"mixer.w_{ours}.{part}": same(f"temporal_block.linear_{theirs}.{part}")
                for ours, theirs in {"y": "y", "x": "x", "o": "out"}.items()
                for part in ("weight", "bias")
            },
            "mixer.conv.weight": taps("temporal_block.conv_1d.weight"),
            "mixer.conv.bias": same("temporal_block.conv_1d.bias"),
            "mixer.gates.weight": beside("temporal_block.rg_lru.{}_gate_weight", "recurrent", "input"),
            "mixer.gates.bias": beside("temporal_block.rg_lru.{}_gate_bias", "recurrent", "input"),
            "mixer.rate": same("temporal_block.rg_lru.recurrent_param"),
            **{
                f"ffn.{ours}.{part}": same(f"mlp_block.{theirs}_proj.{part}")
                for ours, theirs in {"w_gate": "gate", "w_1": "up", "w_2": "down"}.items()
                for part in ("weight", "bias")
            },
        },
        "model.layers",
        "griffin/small",
        centred=True,
        widened="recurrent_gemma.modeling_recurrent_gemma",
    ),
    "Qwen3-Next": Peer(
        "Qwen3NextForCausalLM",
        {
            **{"hidden_size": D, "num_hidden_layers": DEPTH, "num_attention_heads": HEADS, "num_key_value_heads": 2},
            **{"head_dim": D // HEADS, "intermediate_size": WIDTH, "rms_norm_eps": 1e-5, "mlp_only_layers": [0, 1]},
            **{"linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_conv_kernel_dim": 4},
            **{"linear_key_head_dim": 6, "linear_value_head_dim": 12, "max_position_embeddings": CONTEXT},
            "layer_types": ["linear_attention", "full_attention"],
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
        },
        {"mixer": recipe("gated_delta/small")["model"]["mixer"][2:], "position": {"kind": "rotary", "share": 0.5}},
        {
            **{"token.weight": same("model.embed_tokens.weight"), "norm.weight": same("model.norm.weight")},
            "head.weight": same("lm_head.weight"),
        },
        {
            **OUTSIDE,
            "mixer.w_qkv.weight": parted("linear_attn.in_proj_qkvz.weight", 2, (6, 6, 12, 12), 0, 1, 2),
            "mixer.w_g.weight": parted("linear_attn.in_proj_qkvz.weight", 2, (6, 6, 12, 12), 3),
            "mixer.w_b.weight": parted("linear_attn.in_proj_ba.weight", 2, (1, 1), 0),
            "mixer.w_a.weight": parted("linear_attn.in_proj_ba.weight", 2, (1, 1), 1),
            **{"mixer.w_a.bias": same("linear_attn.dt_bias"), "mixer.a_log": same("linear_attn.A_log")},
            **{"mixer.conv.weight": taps("linear_attn.conv1d.weight")},
            **{"mixer.norm.weight": same("linear_attn.norm.weight")},
            **{"mixer.w_o.weight": same("linear_attn.out_proj.weight")},
        },
        "model.layers",
        "gated_delta/small",
        later={
            **OUTSIDE,
            "mixer.w_qkv.weight": lambda theirs: torch.cat(
                [
                    parted("self_attn.q_proj.weight", HEADS, (D // HEADS, D // HEADS), 0)(theirs),
                    *(theirs[f"self_attn.{letter}_proj.weight"] for letter in "kv"),
                ]
            ),
            "mixer.w_gate.weight": parted("self_attn.q_proj.weight", HEADS, (D // HEADS, D // HEADS), 1),
            "mixer.norm_q.weight": same("self_attn.q_norm.weight"),
            "mixer.norm_k.weight": same("self_attn.k_norm.weight"),
            "mixer.w_out.weight": same("self_attn.o_proj.weight"),
        },
        bound=1e-11,
        centred=True,
        prepare=narrower,
        widened="qwen3_next.modeling_qwen3_next",
    ),
    "Kimi Linear": Peer(  # without experts
        "KimiLinearForCausalLM",
        {
            **{
                "hidden_size": D,
                "num_hidden_layers": DEPTH,
                "num_attention_heads": HEADS,
                "num_key_value_heads": HEADS,
            },
            **{"intermediate_size": WIDTH, "rms_norm_eps": 1e-5, "mlp_layer_types": ["dense", "dense"]},
            **{"linear_num_heads": HEADS, "linear_head_dim": D // HEADS, "linear_conv_kernel_dim": 4},
            **{"kv_lora_rank": 5, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 4},
            **{"layer_types": ["linear_attention", "full_attention"], "pad_token_id": None},
        },
        {"mixer": [KIMI[2], {**KIMI[3], "rank": 5}]},
        {
            **{"token.weight": same("model.embed_tokens.weight"), "norm.weight": same("model.norm.weight")},
            "head.weight": same("lm_head.weight"),
        },
        {
            **OUTSIDE,
            "mixer.w_qkv.weight": stacked(*(f"self_attn.{letter}_proj.weight" for letter in "qkv")),
            "mixer.conv.weight": taps("self_attn.conv1d.weight"),
            "mixer.decay_in.weight": same("self_attn.forget_gate.f_a_proj.weight"),
            "mixer.decay_out.weight": same("self_attn.forget_gate.f_b_proj.weight"),
            "mixer.decay_out.bias": same("self_attn.forget_gate.dt_bias"),
            "mixer.a_log": flat("self_attn.forget_gate.A_log"),
            "mixer.gate_in.weight": same("self_attn.g_a_proj.weight"),
            "mixer.gate_out.weight": same("self_attn.g_b_proj.weight"),
            **{
                "mixer.w_b.weight": same("self_attn.b_proj.weight"),
                "mixer.norm.weight": same("self_attn.o_norm.weight"),
            },
            "mixer.w_o.weight": same("self_attn.o_proj.weight"),
        },
        "model.layers",
        "kimi/small",
        later={
            **OUTSIDE,
            "mixer.w_c.weight": lambda theirs: theirs["self_attn.kv_a_proj_with_mqa.weight"][:5],
            "mixer.w_r.weight": lambda theirs: theirs["self_attn.kv_a_proj_with_mqa.weight"][5:],
            "mixer.norm.weight": same("self_attn.kv_a_layernorm.weight"),
            "mixer.w_q.weight": same("self_attn.q_proj.weight"),
            "mixer.w_kv.weight": same("self_attn.kv_b_proj.weight"),
            "mixer.w_o.weight": same("self_attn.o_proj.weight"),
        },
        bound=1e-11,
        widened="kimi_linear.modeling_kimi_linear",
    ),
}


class Widened:
    """torch, whose float32 is float64."""

    float = float32 = torch.float64

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def theirs(peer: Peer) -> nn.Module:
    """The peer's model in float64, with weights large enough to be seen."""
    kind = getattr(transformers, peer.model)
    built: nn.Module = kind(kind.config_class(vocab_size=VOCAB, bos_token_id=0, eos_token_id=0, **peer.sizes))
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in built.double().named_parameters():
            drawn = 0.2 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(drawn + 1 if name.endswith(GAINS) else drawn)
    peer.prepare(built)
    return built.eval()


def ours(peer: Peer) -> Model:
    values = recipe(peer.recipe)["model"]
    position = values["position"] if isinstance(values["position"], dict) else {"kind": values["position"]}
    sizes = {"vocab": VOCAB, "dim": D, "depth": DEPTH, "context": CONTEXT, "dropout": 0.0}
    ffn = {**values["ffn"], "width": WIDTH, **peer.ours.get("ffn", {})}
    return model_config({**values, "position": position, **sizes, **peer.ours, "ffn": ffn}).build().double()


def translated(peer: Peer, weights: Weights) -> dict[str, Tensor]:
    """The peer's tensors by our names."""
    result = {name: read(weights) for name, read in peer.top.items()}
    for layer in range(DEPTH):
        start = f"{peer.at}.{layer}."
        inside = {name.removeprefix(start): tensor for name, tensor in weights.items() if name.startswith(start)}
        own = peer.layer if peer.later is None or layer < DEPTH - 1 else peer.later
        result |= {f"layers.{layer}.{name}": read(inside) for name, read in own.items()}
    return result


@pytest.mark.slow
@pytest.mark.parametrize("name", PEERS)
def test_the_model_of_the_recipe_is_the_peers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = PEERS[name]
    if peer.widened is not None:
        monkeypatch.setattr(f"transformers.models.{peer.widened}.torch", Widened())
        monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    other, model = theirs(peer), ours(peer)
    weights = translated(peer, dict(other.named_parameters()))
    assert weights.keys() == dict(model.named_parameters()).keys()
    assert sum(p.numel() for p in model.parameters()) == sum(p.numel() for p in other.parameters())
    with torch.no_grad():
        for own, parameter in model.named_parameters():
            centred = peer.centred and "norm" in own and not own.endswith("mixer.norm.weight")
            parameter.copy_(weights[own] + 1 if centred else weights[own])
    text, out = ids(2, CONTEXT), torch.randn(2, CONTEXT, VOCAB, generator=torch.Generator().manual_seed(1)).double()
    logits, expected = model(text), other(input_ids=text).logits.double()
    assert_near(logits, expected, peer.bound, "logits")
    for each in (logits, expected):
        (each * out).sum().backward()
    gradients = translated(peer, {name: p.grad for name, p in other.named_parameters() if p.grad is not None})
    largest = max(float(gradient.abs().max()) for gradient in gradients.values())
    for own, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert_near(parameter.grad, gradients[own], peer.bound, own, least=largest / 100)
    with torch.no_grad():
        state = model.start(2)
        for t in range(CONTEXT):
            logits, state = model.step(text[:, t], state, reuse=True)
            assert_near(logits, expected[:, t], peer.bound, f"step {t}")


def assert_near(actual: Tensor, expected: Tensor, bound: float, what: str, least: float = 0.0) -> None:
    """Within `bound` of the largest number, or of `least` where that is larger."""
    scale = max(float(expected.detach().abs().max()), least)
    assert float((actual - expected).detach().abs().max()) <= bound * scale, what
