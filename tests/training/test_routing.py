"""Which parameters of each mixer are matrices, which Muon takes and `decay: matrices` decays; all others are not."""

from typing import ClassVar

import pytest
import torch
from torch import nn

import seqloom.mixers  # noqa: F401  # registers the mixers
from seqloom.core.mixer_config import kinds
from seqloom.core.roles import roles

QKV = "w_k w_out w_q w_v"
THIN = ("decay", "gate", "rate")
MATRICES = {
    "attention": "w_gate w_out w_qkv",
    "image": "w_out w_qkv",
    "sparse": "w_out w_qkv",
    "blockwise": "w_out w_qkv",
    "etc": "w_l2g w_long w_out",
    "longformer": "w_out w_qkv",
    "bigbird": "w_out w_qkv",
    "differential": "w_k w_o w_q w_share w_v",
    "additive": QKV,
    "fox": "w_f w_out w_qkv",
    "memorizing": "w_out w_qkv",
    "mla": "w_c w_d w_kv w_o w_q w_r",
    "reformer": "w_out w_qk w_v",
    "routing": "w_out w_qk w_v",
    "sinkhorn": f"w_sort {QKV}",
    "transformer_xl": "position.w_r w_kv w_out w_q",
    "compressive": "compression.w_c compression.w_g position.w_r w_kv w_out w_q",
    "adaptive_span": "w_out w_qkv w_span",
    "combiner": QKV,
    "she": "w_adj w_out",
    "he": "w_adj w_in w_out",
    "we": "w_adj w_out",
    "me": "",
    "he_extraction": "w_in",
    "extractor": "w_adj w_in w_out",
    "modal_extractor": "w_adj w_in w_out",
    "linear": QKV,
    "performer": QKV,
    "rfa": f"w_gate {QKV}",
    "retention": "w_g w_k w_o w_q w_v",
    "gla": "w_1 w_2 w_g w_k w_o w_q w_v",
    "hgrn2": "w_f w_i w_o w_q",
    "gated_delta": "w_a w_b w_g w_o w_qkv",
    "gated_delta2": "decay_in decay_out gate_in gate_out w_b w_o w_qkv w_w",
    "delta": "w_b w_o w_qkv",
    "deltaproduct": "w_a w_b w_g w_o w_qkv",
    "kda": "decay_in decay_out gate_in gate_out w_b w_o w_qkv",
    "rwkv7": f"w_k w_o w_r w_v {' '.join(f'thin_{end}.{name}' for end in ('in', 'out') for name in THIN)}",
    "aft_full": QKV,
    "aft_local": QKV,
    "aft_conv": QKV,
    "aft_simple": QKV,
    "rwkv": "w_k w_out w_r w_v",
    "rnn": "w_in w_out w_state",
    "lstm": "w_in w_out w_state",
    "gru": "w_in w_out w_state",
    "both_ways": " ".join(
        f"{way}_mixer.{name}" for way in ("forward", "backward") for name in ("w_in", "w_state", "w_adj", "w_out")
    )
    + " w_out",
    "mlstm": "w_down w_gates w_up",
    "slstm": "",
    "rglru": "w_o w_x w_y",
    "ssm": "b c d",
    "lssl": "w_out",
    "s4": "w_out",
    "s4d": "w_out",
    "s5": "w_gate",
    "gss": "w_out w_u w_v w_y",
    "s6": "dt_proj x_proj",
    "mamba": "dt_proj in_proj out_proj x_proj",
    "mamba2": "w_in w_out",
    "spade": "far.w_in w_out",
    "lightweight_conv": "w_in w_out",
    "dynamic_conv": "w_in w_out w_taps",
    "hyena": "in_proj out_proj",
    "active_memory": "",
    "identity": "w_out w_v",
    "fnet": "",
    "linformer": QKV,
    "mlp_mixer": "",
    "gmlp": "w_a w_in w_out w_qkv",
}
"""the linear layers, over all examples of a mixer"""


def test_every_mixer_has_a_line() -> None:
    assert MATRICES.keys() == kinds().keys()


@pytest.mark.parametrize("kind", MATRICES)
def test_the_matrices_of_a_mixer(kind: str) -> None:
    result: set[str] = set()
    for example in kinds()[kind].examples:
        with torch.device("meta"):
            mixer = (
                kinds()[kind]
                .model_validate({"kind": kind, **example})
                .build(8, 6, causal=kinds()[kind].traits.causal != "never")
            )
        given = roles(mixer.named_modules())
        assert given.keys() == dict(mixer.named_parameters()).keys()
        assert set(given.values()) <= {"matrix", "other"} | (
            {"embedding"} if kind == "etc" else set()
        )  # its first token
        result |= {name for name, role in given.items() if role == "matrix"}
        assert all(mixer.get_parameter(name).ndim == 2 for name in result & given.keys())
    assert result == {f"{name}.weight" for name in MATRICES[kind].split()}


def test_what_is_declared_outside_holds_first() -> None:
    class Inner(nn.Module):
        roles: ClassVar = {"a": "matrix", "layers": "other"}

        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Parameter(torch.zeros(2, 2))
            self.b = nn.Parameter(torch.zeros(2, 2))
            self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Embedding(2, 2)])
            self.table = nn.Embedding(2, 2)

    class Outer(nn.Module):
        roles: ClassVar = {"inner.layers.1": "embedding"}

        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

    assert roles(Outer().named_modules()) == {
        "inner.a": "matrix",
        "inner.b": "other",
        "inner.layers.0.weight": "other",
        "inner.layers.0.bias": "other",
        "inner.layers.1.weight": "embedding",
        "inner.table.weight": "embedding",
    }
