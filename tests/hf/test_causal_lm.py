"""Every mixer that streams, inside of transformers: saved and loaded, and what `generate` writes with the cache."""

import hashlib
from pathlib import Path

import pytest
import torch

transformers = pytest.importorskip("transformers")

import seqloom  # noqa: E402
import seqloom.hf  # noqa: E402
from seqloom.hf import SeqloomForCausalLM, state_cache  # noqa: E402
from tests.hf.matrix import CHECKS, IDS, SLOW_CHECKS, outcome, wrap, write  # noqa: E402
from tests.hf.streaming import CONTEXT, STREAMING, decoder_of  # noqa: E402

transformers.utils.logging.disable_progress_bar()
TEN = sorted(STREAMING, key=lambda kind: hashlib.sha256(kind.encode()).digest())[:10]
"""mixers by hash, for what takes seconds"""


def test_every_mixer_that_streams_is_tried() -> None:
    assert len(STREAMING) >= 64 - 5
    assert {"attention", "he", "gated_delta", "retention", "mla", "mamba2", "rwkv7", "gru"} <= set(STREAMING)


@pytest.mark.sample(24)
@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("kind", STREAMING)
def test_inside_of_transformers(kind: str, name: str) -> None:
    CHECKS[name](kind)


@pytest.mark.slow
@pytest.mark.graph
@pytest.mark.parametrize("name", SLOW_CHECKS)
@pytest.mark.parametrize("kind", TEN)
def test_trainer_and_graphs(kind: str, name: str) -> None:
    assert outcome(name, SLOW_CHECKS[name], kind) in ("yes", "")


@pytest.mark.parametrize("kind", ["attention", "he", "gated_delta", "rwkv7"])
def test_a_long_prompt_is_read_in_chunks(kind: str) -> None:
    wrapper = wrap(kind)
    ids = torch.randint(1, 31, (1, CONTEXT + 9), generator=torch.Generator().manual_seed(0))
    chunked = write(wrapper, ids, 5, past_key_values=state_cache(wrapper.model), prefill_chunk_size=8)
    assert torch.equal(chunked, write(wrapper, ids, 5))


def test_drafts_of_a_smaller_model_are_verified_where_states_can_be_cropped() -> None:
    wrapper, assistant = wrap("attention"), wrap("attention")
    ids = IDS[:1]
    assert torch.equal(write(wrapper, ids, 12, assistant_model=assistant, do_sample=False), write(wrapper, ids, 12))


def test_drafts_are_refused_by_name_where_states_cannot_be_cropped() -> None:
    with pytest.raises(ValueError, match="not supported with stateful models"):
        write(wrap("gated_delta"), IDS[:1], 4, assistant_model=wrap("attention"))


def test_the_loss_is_that_of_the_next_token() -> None:
    wrapper = wrap("he")
    labels = IDS.clone()
    labels[1, 4:] = -100
    output = wrapper(IDS, labels=labels)
    logits = wrapper.model(IDS)[:, :-1]
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
    torch.testing.assert_close(output.loss, expected.float() if output.loss.dtype == torch.float32 else expected)


def test_auxiliary_losses_are_part_of_the_loss() -> None:
    model = seqloom.decoder(
        "adaptive_span", vocab=31, dim=16, depth=2, context=CONTEXT, dropout=0.0, penalty=2.0, dynamic=True
    ).double()
    wrapper = seqloom.hf.wrap(model.train())
    plain = torch.nn.functional.cross_entropy(model(IDS)[:, :-1].flatten(0, 1), IDS[:, 1:].flatten())
    _, extras = model.features_with_extras(IDS)
    auxiliary = sum(2.0 * loss for loss in extras.losses.values())
    assert auxiliary > 0
    assert wrapper(IDS, labels=IDS).loss.item() == pytest.approx((plain + auxiliary).item(), rel=1e-6)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ([[1, 1, 0, 1, 1, 1, 1]] * 2, "between tokens"),
        ([[1, 1, 1, 1, 1, 0, 0]] * 2, "pad on the left"),
        ([[1, 1]] * 2, "at least 7 positions"),
    ],
)
def test_masks_that_cannot_be_followed_are_refused(mask: list[list[int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wrap("he")(IDS, attention_mask=torch.tensor(mask), use_cache=True)


def test_the_cache_of_another_model_is_refused() -> None:
    cache = state_cache(decoder_of("he"))
    with pytest.raises(ValueError, match="another model"):
        wrap("he")(IDS, past_key_values=cache)
    with pytest.raises(TypeError, match="cache of seqloom"):
        wrap("he")(IDS, past_key_values=transformers.DynamicCache())


def test_a_folder_with_a_missing_or_unknown_weight_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    wrapper = wrap("he")
    wrapper.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    name = sorted(weights)[0]
    save_file({key: value for key, value in weights.items() if key != name}, path, {"format": "pt"})
    with pytest.raises(ValueError, match="missing keys"):
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    save_file({**weights, "model.of_nothing": torch.ones(1)}, path, {"format": "pt"})
    with pytest.raises(ValueError, match="unexpected keys"):
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path)


def test_a_kind_of_model_without_a_wrapper_is_named() -> None:
    from seqloom.models.kinds import model_config

    model = model_config({"kind": "hmm", "vocab": 31, "context": 8}).build()
    with pytest.raises(ValueError, match="kind hmm has no wrapper"):
        seqloom.hf.wrap(model)


def test_the_class_name_changes_nothing_in_generate() -> None:
    """Names with these parts make `generate` pass the cache under another name, or refuse it."""
    for part in ("mamba", "rwkv", "reformer", "minimax", "xlnet", "xlstm"):
        assert part not in SeqloomForCausalLM.__name__.lower()


@pytest.mark.parametrize("name", ["_supports_default_dynamic_cache", "_prefill", "_prepare_cache_for_generation"])
def test_the_private_names_that_the_wrapper_leans_on_are_there(name: str) -> None:
    assert hasattr(transformers.GenerationMixin, name)


@pytest.mark.slow
def test_what_mixers_change_between_steps_is_changed_by_the_callback(tmp_path: Path) -> None:
    """Routing attention moves its centroids after each optimizer step, which the Trainer does not know of."""
    pytest.importorskip("accelerate")
    moved = []
    for callbacks in ([], [seqloom.hf.AfterUpdate()]):
        model = seqloom.decoder("routing", vocab=31, dim=16, depth=1, context=CONTEXT)
        wrapper = seqloom.hf.wrap(model, pad_token_id=0)
        before = {name: buffer.clone() for name, buffer in model.named_buffers()}
        rows = [{"input_ids": row, "labels": row} for row in (torch.arange(24) % 5 + offset for offset in range(4))]
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path), max_steps=2, per_device_train_batch_size=4, report_to=[],
            use_cpu=True, save_strategy="no", disable_tqdm=True,
        )  # fmt: skip
        transformers.Trainer(wrapper, arguments, train_dataset=rows, callbacks=callbacks).train()
        moved.append(any(not torch.equal(before[name], buffer) for name, buffer in model.named_buffers()))
    assert moved == [False, True]


def test_gradient_checkpointing_changes_no_gradient() -> None:
    wrapper = wrap("gated_delta").train()
    found = []
    for on in (False, True):
        wrapper.zero_grad()
        if on:
            wrapper.activation_checkpointing_enable()
            assert wrapper.is_activation_checkpointing
        torch.manual_seed(2)
        wrapper(IDS, labels=IDS).loss.backward()
        found.append({name: parameter.grad.clone() for name, parameter in wrapper.named_parameters()})
    for name, gradient in found[0].items():
        torch.testing.assert_close(found[1][name], gradient, rtol=1e-12, atol=1e-12)
    wrapper.activation_checkpointing_disable()
    assert not wrapper.is_activation_checkpointing
