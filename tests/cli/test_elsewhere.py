"""`seqloom list NAME` answers for every name of three packages: what it is here, or why not and what is nearest."""

import re
from pathlib import Path

import pytest

from seqloom.cli import registry
from seqloom.cli.checked import require_contenders
from seqloom.cli.elsewhere import FLA, describe, find_all, read
from seqloom.cli.work.mixers import format_mixer
from seqloom.studies.candidate import parse_candidate

FLA_LAYERS = """
ABCAttention Attention BasedLinearAttention BitAttention Comba DeltaNet ForgettingAttention GatedDeltaNet
GatedDeltaProduct GatedLinearAttention GatedSlotAttention HGRNAttention HGRN2Attention LightNetAttention
LinearAttention LogLinearMamba2 Mamba Mamba2 MesaNet MomAttention MultiheadLatentAttention MultiScaleRetention
NativeSparseAttention PaTHAttention ReBasedLinearAttention RodimusAttention RWKV6Attention RWKV7Attention
SlidingWindowSharedKeyAttention DeltaFormerAttention abc attn based bitattn comba delta_net deltaformer fox
gated_deltanet gated_deltaproduct gdn2 gla gsa hgrn hgrn2 kda lightnet linear log_linear_mamba2 mamba mamba2 mamba3
mesa_net mla moba mom nsa parallax path_attn precond_gated_deltanet precond_kda raven rebased retention rodimus
rwkv6 rwkv7 simple_gla wall_attn yoco
"""
"""`fla.layers.__all__`, and the files of fla/layers in August 2026"""
X_ATTENTION = """
dim_head flash pre_talking_heads post_talking_heads pre_scale_post_talking_heads head_scale sparse_topk
sparse_topk_straight_through num_mem_kv dropout on_attn gate_value_heads swiglu_values gate_values zero_init_output
hard max_attend_past qk_norm qk_norm_groups qk_norm_scale qk_norm_dim_scale l2_distance sigmoid selective
custom_attn_fn one_kv_head kv_heads shared_kv value_dim_head dim_out tensor_product add_zero_kv rotary_embed_values
data_dependent_alibi data_dependent_alibi_per_row use_cope softclamp_logits logit_softclamp_value
neutreno_value_residual learned_value_residual_mix laser onnxable
"""
"""the options of `Attention` of x-transformers, but sizes of the options themselves"""
MIXER = re.compile(
    r"^class \w*(Mixer|Mamba\w*|Delta\w*|Lightning\w*|LinearAttention|ShortConv\w*|RecurrentBlock|Indexer|Rwkv\w*"
    r"|xLSTM\w*|LSH\w*|Longformer\w*Attention|BigBird\w*Attention|LongT5\w*Local\w*|Nystromformer\w*Attention|Yoso\w*Attention"
    r"|Mra\w*Attention|FourierTransform|Funnel\w*Attention|XLNetRelativeAttention|NgramSelfAttention"
    r"|DiffLlama\w*Attention|DogeAttention|GPTNeoSelfAttention|Disentangled\w*Attention|LEDEncoderSelfAttention)\(",
    re.MULTILINE,
)
"""classes of transformers that mix tokens in another way than by attention to all of them"""
ATTENTION = ("kv_lora_rank", "self.sinks")


def mixer_families() -> list[str]:
    """The families of the installed transformers with a mixer other than plain attention."""
    transformers = pytest.importorskip("transformers")
    files = (Path(transformers.__file__).parent / "models").glob("*/modeling_*.py")
    texts = {file.parent.name: file.read_text(encoding="utf-8") for file in files}
    return sorted(name for name, text in texts.items() if MIXER.search(text) or any(word in text for word in ATTENTION))


def test_every_layer_of_flash_linear_attention() -> None:
    ours = registry.read()["mixers"]
    assert [name for name in FLA_LAYERS.split() if name not in ours and not find_all(name)] == []
    assert all(find_all(f"fla.layers:{name}") for name in FLA_LAYERS.split() if name[0].isupper())


def test_every_family_of_transformers_with_a_mixer() -> None:
    families = mixer_families()
    assert len(families) > 60
    known = {name for line in read() if line.package == "transformers" for name in line.names.split()}
    assert [name for name in families if name not in known] == []


def test_every_attention_option_of_x_transformers() -> None:
    assert [name for name in X_ATTENTION.split() if not find_all(name) or not find_all(f"attn_{name}")] == []


def test_each_line_has_one_answer_of_whole_sentences() -> None:
    for line in read():
        assert bool(line.here) != bool(line.nearest), line
        assert bool(line.nearest) == bool(line.because), line
        assert line.here or line.note, line
        assert len(str(line)) < 400, line
        assert not re.search(r"\.$|  | ,", str(line)), line


@pytest.mark.parametrize("mixer", sorted({line.here or line.nearest for line in read()}))
def test_what_is_named_is_a_mixer_with_these_settings(mixer: str) -> None:
    require_contenders([mixer], "llama/small", ["data.source=stories"])
    assert parse_candidate(mixer).kind in registry.read()["mixers"]


def test_list_says_it() -> None:
    text = format_mixer("nsa")
    assert text.startswith("NativeSparseAttention of flash-linear-attention is not here: selecting the tokens to read")
    assert "the nearest is compressive, because it reads a window and a compressed past" in text
    assert "fla.layers:NativeSparseAttention itself stands wherever a mixer is named" in text
    assert format_mixer("deepseek_v2") == "deepseek_v2 of transformers is here as mla (experts are not built)"
    assert '"here": "mla"' in format_mixer("deepseek_v2", as_json=True)
    assert describe("nothing_of_the_kind") is None
    assert {line.package for line in read()} == {FLA, "transformers", "x-transformers"}


def test_an_error_says_it_too() -> None:
    with pytest.raises(ValueError, match=r"unknown mixer 'retnet'; MultiScaleRetention of .* is here as retention$"):
        require_contenders(["retnet"], "tiny")
