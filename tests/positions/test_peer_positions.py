"""Positions and grouped heads of `transformers` in float64, weights copied: outputs and gradients of attention.

Its models take the softmax in float32, but for XLNet's, so theirs agree to 2e-6.
"""

from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.mixers import mixer_config

D, H, T = 12, 3, 150
transformers = pytest.importorskip("transformers")
models = transformers.models
LATER = torch.full((T, T), torch.finfo(torch.float64).min, dtype=torch.float64).triu(1)[None, None]


def ours(causal: bool = True, **settings: Any) -> Any:
    torch.manual_seed(1)
    mixer = mixer_config({"kind": "attention", "heads": H, **settings}).build(D, None, causal).double()
    for parameter in mixer.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return mixer


def agree(mixer: Any, peer: Any, bound: float = 2e-6) -> None:
    """Outputs, and the gradients of the input, of the mixer and of `peer(x)`."""
    x = torch.randn(2, T, D, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).requires_grad_()
    dy = torch.randn(2, T, D, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    y, expected = mixer(x), peer(x)
    torch.testing.assert_close(y, expected, rtol=0, atol=bound * float(expected.abs().max()))
    (dx,), (expected,) = torch.autograd.grad(y, x, dy), torch.autograd.grad(expected, x, dy)
    torch.testing.assert_close(dx, expected, rtol=0, atol=bound * float(expected.abs().max()))


def copied(pairs: dict[Any, Tensor]) -> None:
    with torch.no_grad():
        for parameter, weight in pairs.items():
            parameter.copy_(weight)


@pytest.mark.slow
def test_alibi() -> None:
    """BLOOM: three heads, no power of two."""
    config = transformers.BloomConfig(hidden_size=D, n_head=H, hidden_dropout=0.0, attention_dropout=0.0)
    peer = models.bloom.modeling_bloom.BloomAttention(config, layer_idx=0).double().eval()
    mixer = ours(bias="all", position="alibi")
    weight = mixer.w_qkv.weight.view(3, H, D // H, D).transpose(0, 1).flatten(0, 2)
    bias = mixer.w_qkv.bias.view(3, H, D // H).transpose(0, 1).flatten()
    copied({peer.query_key_value.weight: weight, peer.query_key_value.bias: bias})
    copied({peer.dense.weight: mixer.w_out.weight, peer.dense.bias: mixer.w_out.bias})
    alibi = models.bloom.modeling_bloom.build_alibi_tensor(torch.ones(2, T), H, torch.float64)
    agree(mixer, lambda x: peer(x, torch.zeros_like(x), alibi, LATER)[0])


@pytest.mark.slow
@pytest.mark.parametrize("causal", [True, False])
def test_t5(causal: bool) -> None:
    """Both sides, beyond the last bucket; and the gradient of its table."""
    config = transformers.T5Config(d_model=D, d_kv=D // H, num_heads=H, dropout_rate=0.0, is_decoder=causal)
    peer = models.t5.modeling_t5.T5Attention(config, has_relative_attention_bias=True, layer_idx=0, is_causal=causal)
    peer = peer.double().eval()
    mixer = ours(causal, scale=1.0, position="t5")
    q, k, v = mixer.w_qkv.weight.split(mixer.sizes)
    table = mixer.shared.table.weight
    copied({peer.q.weight: q, peer.k.weight: k, peer.v.weight: v, peer.o.weight: mixer.w_out.weight})
    copied({peer.relative_attention_bias.weight: table})
    mask = LATER if causal else torch.zeros_like(LATER)
    agree(mixer, lambda x: peer(x, mask=mask.expand(2, H, T, T))[0])
    x = torch.randn(2, T, D, dtype=torch.float64)
    (gradients,) = torch.autograd.grad(mixer(x).square().sum(), table)
    y = peer(x, mask=mask.expand(2, H, T, T))[0]
    (expected,) = torch.autograd.grad(y.square().sum(), peer.relative_attention_bias.weight)
    torch.testing.assert_close(gradients, expected, rtol=0, atol=2e-6 * float(expected.abs().max()))


@pytest.mark.parametrize("causal", [True, False])
def test_transformer_xl(causal: bool) -> None:
    """XLNet's score, to float32's rounding of its sinusoids."""
    config = transformers.XLNetConfig(d_model=D, n_head=H, d_inner=D, n_layer=1, attn_type="uni" if causal else "bi")
    peer = models.xlnet.modeling_xlnet.XLNetRelativeAttention(config).double().eval()
    whole = transformers.XLNetModel(config)
    mixer = ours(causal, position="transformer_xl")
    copied({peer.r_w_bias: mixer.position.u, peer.r_r_bias: mixer.position.v})
    r = whole.relative_positional_encoding(T, T)[:, 0].double()
    k_r = (r @ mixer.position.w_r.weight.T).view(-1, 1, H, D // H).expand(-1, 2, -1, -1)

    def attended(x: Tensor) -> Tensor:
        q, k, v = (x @ w.T for w in mixer.w_qkv.weight.split(mixer.sizes))
        heads = [each.view(2, T, H, D // H).transpose(0, 1) for each in (q, k, v)]
        mask = (LATER[0] < 0).double().permute(1, 2, 0)[..., None].expand(T, T, 2, 1) if causal else None
        y = peer.rel_attn_core(*heads, k_r, attn_mask=mask)
        return y.transpose(0, 1).flatten(2) @ mixer.w_out.weight.T

    agree(mixer, attended, 1e-5)


def test_partial_rotary() -> None:
    """GPT-NeoX: half of each head's channels turned, biases everywhere."""
    D, H = 16, 2
    config = transformers.GPTNeoXConfig(
        hidden_size=D, num_attention_heads=H, rotary_pct=0.5, attention_dropout=0.0, attn_implementation="eager"
    )
    neox = models.gpt_neox.modeling_gpt_neox
    peer, turn = neox.GPTNeoXAttention(config, layer_idx=0).double().eval(), neox.GPTNeoXRotaryEmbedding(config)
    settings = {"kind": "attention", "heads": H, "bias": "all", "position": {"kind": "rotary", "share": 0.5}}
    mixer: Any = mixer_config(settings).build(D, None).double()
    for parameter in mixer.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    weight = mixer.w_qkv.weight.view(3, H, D // H, D).transpose(0, 1).flatten(0, 2)
    bias = mixer.w_qkv.bias.view(3, H, D // H).transpose(0, 1).flatten()
    copied({peer.query_key_value.weight: weight, peer.query_key_value.bias: bias})
    copied({peer.dense.weight: mixer.w_out.weight, peer.dense.bias: mixer.w_out.bias})
    x = torch.randn(2, T, D, dtype=torch.float64)
    given = {"attention_mask": LATER, "position_embeddings": turn(x, torch.arange(T)[None])}
    expected = peer(x, **given)[0]
    torch.testing.assert_close(mixer(x), expected, rtol=0, atol=1e-5 * float(expected.abs().max()))  # angles in float32


def test_grouped_heads() -> None:
    """Llama: four heads of queries and two of keys and values, all channels turned."""
    D, H, G = 16, 4, 2
    config = transformers.LlamaConfig(
        hidden_size=D, num_attention_heads=H, num_key_value_heads=G, attn_implementation="eager"
    )
    llama = models.llama.modeling_llama
    peer, turn = llama.LlamaAttention(config, layer_idx=0).double().eval(), llama.LlamaRotaryEmbedding(config)
    settings = {"kind": "attention", "heads": H, "kv_heads": G, "position": "rotary"}
    mixer: Any = mixer_config(settings).build(D, None).double()
    for parameter in mixer.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    q, k, v = mixer.w_qkv.weight.split(mixer.sizes)
    copied(
        {peer.q_proj.weight: q, peer.k_proj.weight: k, peer.v_proj.weight: v, peer.o_proj.weight: mixer.w_out.weight}
    )
    x = torch.randn(2, T, D, dtype=torch.float64)
    expected = peer(x, turn(x, torch.arange(T)[None]), LATER)[0]
    torch.testing.assert_close(mixer(x), expected, rtol=0, atol=1e-5 * float(expected.abs().max()))  # angles in float32


def test_norms_of_heads_and_a_gate() -> None:
    """Qwen3-Next: queries and keys normalized in each head, and what they read gated."""
    qwen = models.qwen3_next.modeling_qwen3_next
    config = transformers.Qwen3NextConfig(
        hidden_size=D, num_attention_heads=H, num_key_value_heads=1, head_dim=D // H, attn_implementation="eager"
    )
    peer = qwen.Qwen3NextAttention(config, layer_idx=0).double().eval()
    mixer = ours(kv_heads=1, qk_norm="heads", output_gate=True)
    q, k, v = mixer.w_qkv.weight.split(mixer.sizes)
    both = torch.stack([q.view(H, -1, D), mixer.w_gate.weight.view(H, -1, D)], 1).flatten(0, 2)
    copied(
        {peer.q_proj.weight: both, peer.k_proj.weight: k, peer.v_proj.weight: v, peer.o_proj.weight: mixer.w_out.weight}
    )
    copied({peer.q_norm.weight: mixer.norm_q.weight - 1, peer.k_norm.weight: mixer.norm_k.weight - 1})
    cos, sin = torch.ones(1, T, D // H), torch.zeros(1, T, D // H)
    agree(mixer, lambda x: peer(x, (cos.double(), sin.double()), LATER)[0])
