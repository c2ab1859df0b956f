"""Attention replaced inside models of transformers: exact where it is replaced by itself, and never silently wrong."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers")

import seqloom  # noqa: E402
import seqloom.hf  # noqa: E402
from seqloom.hf.swap.model import swap as swap_with_context  # noqa: E402
from tests.hf.swapping import CAUSAL, CONTEXT, DEPTH, IDS, WHOLE, inputs_of, model_of, write  # noqa: E402

transformers.utils.logging.disable_progress_bar()
LAYERS = {"all": (0, 1, 2), "the last two": (1, 2), "the first": (0,)}
TWELVE = [(family, kind, layers) for family in ("llama", "gpt2") for kind in ("gated_delta", "he") for layers in LAYERS]
"""the rows of `the tried swaps`: two families, two mixers, three choices of layers"""
ITSELF: dict[str, dict[str, Any]] = {
    "gpt2": {"bias": "all"},
    "llama": {},
    "mistral": {"window": 4},
    "qwen2": {"bias": "qkv"},
    "qwen3": {"width": 6, "qk_norm": "heads"},
    "gpt_neox": {"bias": "all", "heads": 2},
    "bert": {"bias": "all"},
    "vit": {"bias": "all"},
}
"""attention of ours that computes what a family's does"""
ROUNDING = 5e-6
"""transformers computes norms and angles in float32"""


def swapped(family: str, kind: Any, layers: tuple[int, ...] = (0, 2)) -> Any:
    if WHOLE.get(family) and 0 in layers and family == "t5":
        layers = (1, 2)
    return seqloom.swap(model_of(family), dict.fromkeys(layers, kind))


@pytest.mark.parametrize("family", ITSELF)
def test_attention_in_the_place_of_attention_changes_nothing(family: str) -> None:
    model = model_of(family)
    other = swapped(family, {"kind": "attention", "heads": 4, **ITSELF[family]}, tuple(range(DEPTH)))
    inputs = inputs_of(family)
    torch.testing.assert_close(other(**inputs).logits, model(**inputs).logits, rtol=0, atol=ROUNDING)
    if "attention_mask" in inputs:
        inputs["attention_mask"] = inputs["attention_mask"].clone()
        inputs["attention_mask"][0, :3] = 0
        ours, theirs = other(**inputs).logits, model(**inputs).logits
        if family not in ("gpt2", "bert"):  # whose own positions begin at the padding
            torch.testing.assert_close(ours[0, 3:], theirs[0, 3:], rtol=0, atol=ROUNDING)
        torch.testing.assert_close(ours[1], theirs[1], rtol=0, atol=ROUNDING)


@pytest.mark.parametrize(("family", "kind", "layers"), TWELVE)
def test_a_swapped_model_trains_generates_and_is_saved(family: str, kind: str, layers: str, tmp_path: Path) -> None:
    model = swapped(family, kind, LAYERS[layers])
    before = model(IDS, labels=IDS).loss
    before.backward()
    assert all(parameter.grad is not None for name, parameter in model.named_parameters() if ".mixer." in name)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.sub_(0.01 * parameter.grad)
    assert model(IDS, labels=IDS).loss < before
    for decoding in ({}, {"num_beams": 3, "num_return_sequences": 2}):
        cached = write(model, IDS, 12, use_cache=True, **decoding)
        assert torch.equal(cached, write(model, IDS, 12, use_cache=False, **decoding))
    mask = torch.ones_like(IDS)
    mask[0, :3] = 0
    padded = write(model, IDS, 8, attention_mask=mask)
    assert torch.equal(padded[0, 3:], write(model, IDS[:1, 3:], 8)[0])
    model.save_pretrained(tmp_path)
    for loaded in (
        seqloom.hf.load(tmp_path, dtype=torch.float64),
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float64),
    ):
        assert type(loaded) is type(model)
        torch.testing.assert_close(loaded(IDS).logits, model(IDS).logits, rtol=0, atol=1e-12)


@pytest.mark.parametrize("family", [*CAUSAL, *WHOLE])
def test_every_family_reads_and_is_saved(family: str, tmp_path: Path) -> None:
    model = swapped(family, "he")
    inputs = inputs_of(family)
    logits = model(**inputs).logits
    assert not torch.equal(logits, model_of(family)(**inputs).logits)
    model.save_pretrained(tmp_path)
    loaded = seqloom.hf.load(tmp_path, dtype=torch.float64)
    torch.testing.assert_close(loaded(**inputs).logits, logits, rtol=0, atol=1e-12)


def test_a_causal_mixer_reads_both_ways_in_an_encoder() -> None:
    model = model_of("bert")
    mixer = seqloom.swap(model, {1: "gated_delta"}).bert.encoder.layer[1].attention.self.mixer
    assert type(mixer).__name__ == "BothWays"
    old = model.bert.encoder.layer[1].attention
    for direction in (mixer.forward_mixer, mixer.backward_mixer):
        assert torch.equal(direction.w_o.weight, old.output.dense.weight)
        assert torch.equal(direction.conv.weight[0], torch.ones(48).double())


@pytest.mark.parametrize("family", [name for name in CAUSAL if name not in ("llama", "gpt2")])
def test_every_causal_family_generates_with_a_cache(family: str) -> None:
    model = swapped(family, "gated_delta")
    assert torch.equal(write(model, IDS, 12, use_cache=True), write(model, IDS, 12, use_cache=False))
    mask = torch.ones_like(IDS)
    mask[0, :3] = 0
    assert torch.equal(write(model, IDS, 8, attention_mask=mask)[0, 3:], write(model, IDS[:1, 3:], 8)[0])


@pytest.mark.parametrize("family", ["bert", "t5"])
def test_padding_changes_no_other_token(family: str) -> None:
    model = swapped(family, "he", (1, 2))
    inputs = inputs_of(family)
    alone = {name: tensor[:1] for name, tensor in inputs.items()}
    longer = {name: torch.nn.functional.pad(tensor, (0, 3)) for name, tensor in alone.items()}
    if family == "t5":
        longer["decoder_input_ids"] = alone["decoder_input_ids"]
    count = alone["decoder_input_ids"].shape[1] if family == "t5" else IDS.shape[1]
    torch.testing.assert_close(
        model(**longer).logits[:, :count], model(**alone).logits, rtol=0, atol=1e-6 if family == "t5" else 1e-12
    )


def test_t5_writes_with_an_encoder_that_was_swapped() -> None:
    model = swapped("t5", "linear", (1, 2))
    assert torch.equal(write(model, IDS, 8, use_cache=True), write(model, IDS, 8, use_cache=False))


@pytest.mark.parametrize("form", ["none", "tokens", "float", "pairs", "additive"])
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_masks_of_every_form_mean_the_same(form: str, implementation: str) -> None:
    model = swapped("llama", "gated_delta")
    model.set_attn_implementation(implementation)
    T = IDS.shape[1]
    tokens = torch.ones_like(IDS)
    tokens[0, :3] = 0 if form != "none" else 1
    pairs = torch.ones(T, T, dtype=torch.bool).tril()[None, None] & tokens.bool()[:, None, None]
    pairs = pairs | torch.eye(T, dtype=torch.bool) & ~tokens.bool()[:, None, :, None]
    masks = {
        "none": None,
        "tokens": tokens,
        "float": tokens.double(),
        "pairs": pairs,
        "additive": torch.zeros(pairs.shape).double().masked_fill(~pairs, torch.finfo(torch.float64).min),
    }
    if implementation == "eager" and form == "pairs":
        pytest.skip("eager attention adds its mask: transformers takes none of bool")
    positions = (tokens.cumsum(1) - 1).clamp(min=0)
    found = model(IDS, attention_mask=masks[form], position_ids=positions).logits
    expected = model(IDS[:1, 3:] if form != "none" else IDS[:1]).logits
    torch.testing.assert_close(found[:1, -expected.shape[1] :], expected, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"attention_mask": torch.tensor([[1, 1, 0, 1, 1, 1, 1]] * 2)}, "between tokens"),
        ({"attention_mask": torch.ones(2, 1, 7, 7).tril().triu(-2).bool()}, "hides tokens from each other"),
        ({"position_ids": torch.tensor([[0, 1, 2, 0, 1, 2, 3]])}, "packed texts"),
        ({"output_attentions": True}, "output_attentions"),
        ({"past_key_values": "static"}, "StaticCache has no room"),
    ],
)
def test_what_mixers_cannot_follow_is_refused(arguments: dict[str, Any], message: str) -> None:
    model = swapped("llama", "gated_delta")
    if "past_key_values" in arguments:
        arguments = {"past_key_values": transformers.StaticCache(model.config, max_cache_len=16)}
    with pytest.raises(ValueError, match=message):
        model(IDS, **arguments)


def test_the_cache_of_another_model_is_refused() -> None:
    model, other = model_of("llama"), swapped("llama", "gated_delta")
    with pytest.raises(ValueError, match="cache of another model"):
        other(IDS, past_key_values=model(IDS, use_cache=True).past_key_values)
    cache = other(IDS, use_cache=True).past_key_values
    with pytest.raises(ValueError, match="another model"):
        swapped("llama", "gated_delta")(IDS, past_key_values=cache)


def test_drafts_are_refused_by_name_where_states_cannot_be_cropped() -> None:
    with pytest.raises(ValueError, match="not supported with stateful models"):
        write(swapped("llama", "gated_delta"), IDS[:1], 4, assistant_model=model_of("llama"))
    model = swapped("llama", {"kind": "attention", "heads": 4})
    drafted = write(model, IDS[:1], 8, assistant_model=model_of("llama"))
    assert torch.equal(drafted, write(model, IDS[:1], 8))


def test_the_given_model_does_not_change() -> None:
    model = model_of("llama")
    expected = model(IDS).logits
    other = seqloom.swap(model, {1: "gated_delta"})
    assert torch.equal(model(IDS).logits, expected)
    assert type(model.config).__name__ == "LlamaConfig"
    addresses = {parameter.data_ptr() for parameter in model.parameters()}
    assert not addresses & {parameter.data_ptr() for parameter in other.parameters()}


def test_queries_keys_values_and_outputs_are_taken_over() -> None:
    model = model_of("llama")
    mixer = seqloom.swap(model, {1: "gated_delta"}).model.layers[1].self_attn.mixer
    old = model.model.layers[1].self_attn
    k, v = (w.view(2, 1, 4, 16).expand(2, 2, 4, 16).reshape(16, 16) for w in (old.k_proj.weight, old.v_proj.weight))
    assert torch.equal(mixer.w_qkv.weight, torch.cat([old.q_proj.weight, k, v]))
    assert torch.equal(mixer.w_o.weight, old.o_proj.weight)
    assert torch.equal(mixer.conv.weight[0], torch.ones(48).double())
    fresh = seqloom.swap(model, {1: "gated_delta"}, init="fresh").model.layers[1].self_attn.mixer
    assert not torch.equal(fresh.w_o.weight, old.o_proj.weight)


def test_the_mixers_look_back_as_far_as_asked() -> None:
    taps = swap_with_context(model_of("llama"), {1: "he"}, context=5).model.layers[1].self_attn.mixer.w_ext
    assert len(taps) == 5
    assert len(swapped("llama", "he", (1,)).model.layers[1].self_attn.mixer.w_ext) == CONTEXT


@pytest.mark.parametrize(
    ("family", "layers", "message"),
    [
        ("llama", {3: "he"}, "there is no layer 3"),
        ("llama", {}, "no layer is named"),
        ("llama", {0: "fnet"}, "bidirectional"),
        ("llama", {0: "gated_dleta"}, "gated_delta"),
        ("llama", {0: "adaptive_span"}, "adds span to the loss"),
        ("llama", {0: {"kind": "linear", "heads": 3}}, "not divisible"),
        ("t5", {0: "he"}, "owns the bias"),
    ],
)
def test_swaps_that_do_not_fit_are_refused(family: str, layers: dict[int, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        seqloom.swap(model_of(family), layers)


def test_models_without_a_place_for_mixers_are_refused() -> None:
    config = transformers.MambaConfig(vocab_size=11, hidden_size=8, num_hidden_layers=1, state_size=4)
    with pytest.raises(ValueError, match="'mamba' cannot be replaced"):
        seqloom.swap(transformers.MambaForCausalLM(config), {0: "he"})
    with pytest.raises(TypeError, match="one of seqloom or of transformers"):
        seqloom.swap(torch.nn.Linear(2, 2), {0: "he"})
    with pytest.raises(ValueError, match="replaced before"):
        seqloom.swap(swapped("llama", "he"), {1: "he"})


def test_a_folder_with_a_missing_weight_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    swapped("llama", "gated_delta").save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    del weights["model.layers.0.self_attn.mixer.w_o.weight"]
    save_file(weights, path, {"format": "pt"})
    with pytest.raises(ValueError, match=r"missing keys, first model.layers.0.self_attn.mixer.w_o.weight"):
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path)


@pytest.mark.slow
def test_without_seqloom_the_architecture_is_unknown(tmp_path: Path) -> None:
    swapped("llama", "gated_delta").save_pretrained(tmp_path)
    program = f"from transformers import AutoModelForCausalLM as A; A.from_pretrained({str(tmp_path)!r})"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "model type `seqloom_swap`" in answer.stderr


def test_it_trains_by_the_trainer_and_what_changes_between_steps_changes(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    model = seqloom.swap(model_of("llama"), {0: "gated_delta", 1: "routing"}).float()
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers() if ".mixer." in name}
    rows = [{"input_ids": row, "labels": row} for row in (torch.arange(16) % 5 + offset for offset in range(8))]
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), max_steps=8, per_device_train_batch_size=4, learning_rate=1e-2, report_to=[],
        use_cpu=True, save_strategy="no", disable_tqdm=True, logging_steps=1, gradient_checkpointing=True,
    )  # fmt: skip
    trainer = transformers.Trainer(model, arguments, train_dataset=rows, callbacks=[seqloom.hf.AfterUpdate()])
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < losses[0]
    assert any(not torch.equal(buffer, dict(model.named_buffers())[name]) for name, buffer in buffers.items())
