"""The matrices of a layer's attention, by family: as (outputs, inputs), with shared keys and values repeated."""

from dataclasses import replace
from typing import Any

from torch import Tensor

from seqloom.models.take_over import Projections, repeat_heads


def of_gpt2(layer: Any, config: Any) -> Projections:
    """GPT-2: one matrix (inputs, outputs) of queries, keys and values."""
    attention = layer.attn
    q, k, v = attention.c_attn.weight.T.chunk(3)
    b_q, b_k, b_v = attention.c_attn.bias.chunk(3)
    return Projections(q, k, v, attention.c_proj.weight.T, b_q, b_k, b_v, attention.c_proj.bias)


def of_llama(layer: Any, config: Any) -> Projections:
    """Llama and its relatives: a matrix each, shared keys and values, norms in Qwen3."""
    attention = layer.self_attn
    heads, groups = config.num_attention_heads, config.num_key_value_heads
    k, v = attention.k_proj, attention.v_proj
    norms = {
        f"norm_{letter}.weight": getattr(attention, f"{letter}_norm").weight
        for letter in "qk"
        if hasattr(attention, f"{letter}_norm")
    }
    return Projections(
        attention.q_proj.weight,
        repeat_heads(k.weight, heads, groups),
        repeat_heads(v.weight, heads, groups),
        attention.o_proj.weight,
        attention.q_proj.bias,
        None if k.bias is None else repeat_heads(k.bias, heads, groups),
        None if v.bias is None else repeat_heads(v.bias, heads, groups),
        attention.o_proj.bias,
        norms,
    )


def of_gpt_neox(layer: Any, config: Any) -> Projections:
    """GPT-NeoX: one matrix, in which each head has its queries, keys and values next to each other."""
    attention = layer.attention

    stacked = attention.query_key_value

    def part(of: Tensor, number: int) -> Tensor:
        return of.unflatten(0, (config.num_attention_heads, 3, -1))[:, number].flatten(0, 1)

    q, k, v = (part(stacked.weight, number) for number in range(3))
    found = Projections(q, k, v, attention.dense.weight)
    if stacked.bias is None:
        return found
    b_q, b_k, b_v = (part(stacked.bias, number) for number in range(3))
    return replace(found, b_q=b_q, b_k=b_k, b_v=b_v, b_o=attention.dense.bias)


def of_bert(layer: Any, config: Any) -> Projections:
    """BERT: a matrix each; the output projection stands outside."""
    inner, output = layer.attention.self, layer.attention.output.dense
    q, k, v = inner.query, inner.key, inner.value
    return Projections(q.weight, k.weight, v.weight, output.weight, q.bias, k.bias, v.bias, output.bias)


def of_vit(layer: Any, config: Any) -> Projections:
    """ViT: a matrix each."""
    attention = layer.attention
    q, k, v, o = attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj
    return Projections(q.weight, k.weight, v.weight, o.weight, q.bias, k.bias, v.bias, o.bias)


def of_t5(layer: Any, config: Any) -> Projections:
    """T5: a matrix each, no biases. Its scores are not divided by √K, so that its queries are √K larger in ours."""
    attention = layer.layer[0].SelfAttention
    q = attention.q.weight * config.d_kv**0.5
    return Projections(q, attention.k.weight, attention.v.weight, attention.o.weight)
