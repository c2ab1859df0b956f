"""Every mixer that streams, inside of transformers: saved and loaded, and what `generate` writes with the cache."""

from pathlib import Path
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers")

import seqloom  # noqa: E402
import seqloom.hf  # noqa: E402
from seqloom.hf import SeqloomForCausalLM, state_cache  # noqa: E402
from tests.hf.streaming import CONTEXT, STREAMING, decoder_of  # noqa: E402

transformers.utils.logging.disable_progress_bar()
IDS = torch.tensor([[3, 7, 1, 9, 4, 8, 2], [5, 2, 2, 6, 30, 1, 9]])
BEYOND = CONTEXT + 4
"""new tokens, so that rings wrap"""
DECODING: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampling": {"do_sample": True, "temperature": 0.9, "top_p": 0.95},
    "beams": {"do_sample": False, "num_beams": 3, "num_return_sequences": 2},
}


def wrapped(kind: str) -> SeqloomForCausalLM:
    wrapper = seqloom.hf.wrap(decoder_of(kind), pad_token_id=0)
    assert isinstance(wrapper, SeqloomForCausalLM)
    return wrapper


def new_tokens(kind: str, most: int = BEYOND) -> int:
    """As many as asked, or as the mixer's table of positions has room for."""
    longest = decoder_of(kind).longest
    return most if longest is None else min(most, longest - IDS.shape[1])


def write(wrapper: SeqloomForCausalLM, ids: torch.Tensor, count: int, **settings: Any) -> torch.Tensor:
    """What `generate` writes, from a seed."""
    settings.setdefault("attention_mask", torch.ones_like(ids))
    torch.manual_seed(1)
    written: torch.Tensor = wrapper.generate(ids, max_new_tokens=count, eos_token_id=None, **settings)
    return written


def test_every_mixer_that_streams_is_tried() -> None:
    assert len(STREAMING) >= 64 - 5
    assert {"attention", "he", "gated_delta", "retention", "mla", "mamba2", "rwkv7", "gru"} <= set(STREAMING)


@pytest.mark.sample(6)
@pytest.mark.parametrize("kind", STREAMING)
def test_a_saved_model_is_loaded_exactly(kind: str, tmp_path: Path) -> None:
    wrapper = wrapped(kind)
    wrapper.save_pretrained(tmp_path)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float64)
    expected = wrapper.model(IDS)
    torch.testing.assert_close(loaded(IDS).logits, expected, rtol=0, atol=1e-12)


@pytest.mark.sample(18)
@pytest.mark.parametrize("decoding", DECODING)
@pytest.mark.parametrize("kind", STREAMING)
def test_the_cache_changes_no_token(kind: str, decoding: str) -> None:
    wrapper, count = wrapped(kind), new_tokens(kind)
    with_cache = write(wrapper, IDS, count, use_cache=True, **DECODING[decoding])
    without = write(wrapper, IDS, count, use_cache=False, **DECODING[decoding])
    assert with_cache.shape[1] == IDS.shape[1] + count
    assert torch.equal(with_cache, without)


@pytest.mark.sample(6)
@pytest.mark.parametrize("kind", STREAMING)
def test_padding_on_the_left_changes_no_token(kind: str) -> None:
    wrapper, count = wrapped(kind), new_tokens(kind, 12)
    mask = torch.ones_like(IDS)
    mask[0, :3] = 0
    alone = write(wrapper, IDS[:1, 3:], count)
    padded = write(wrapper, IDS, count, attention_mask=mask)
    assert torch.equal(padded[0, 3:], alone[0])


@pytest.mark.sample(6)
@pytest.mark.parametrize("kind", STREAMING)
def test_a_text_continues_from_its_cache(kind: str) -> None:
    wrapper, count = wrapped(kind), new_tokens(kind, 12)
    at_once = write(wrapper, IDS, count)
    cache = state_cache(wrapper.model)
    first = write(wrapper, IDS, 4, past_key_values=cache)
    continued = write(wrapper, first, count - 4, past_key_values=cache)
    assert torch.equal(continued, at_once)


@pytest.mark.sample(6)
@pytest.mark.parametrize("kind", STREAMING)
def test_logits_by_pieces_are_those_of_the_whole(kind: str) -> None:
    wrapper = wrapped(kind)
    whole = wrapper(IDS).logits
    cache = state_cache(wrapper.model)
    pieces = [wrapper(piece, past_key_values=cache).logits for piece in IDS.split([3, 1, 1, 2], dim=1)]
    torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=0, atol=1e-9)
    last = wrapper(IDS, logits_to_keep=1).logits
    torch.testing.assert_close(last, whole[:, -1:], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["attention", "he", "gated_delta", "rwkv7"])
def test_a_long_prompt_is_read_in_chunks(kind: str) -> None:
    wrapper = wrapped(kind)
    ids = torch.randint(1, 31, (1, CONTEXT + 9), generator=torch.Generator().manual_seed(0))
    chunked = write(wrapper, ids, 5, past_key_values=state_cache(wrapper.model), prefill_chunk_size=8)
    assert torch.equal(chunked, write(wrapper, ids, 5))


def test_drafts_of_a_smaller_model_are_verified_where_states_can_be_cropped() -> None:
    wrapper, assistant = wrapped("attention"), wrapped("attention")
    ids = IDS[:1]
    assert torch.equal(write(wrapper, ids, 12, assistant_model=assistant, do_sample=False), write(wrapper, ids, 12))


def test_drafts_are_refused_by_name_where_states_cannot_be_cropped() -> None:
    with pytest.raises(ValueError, match="not supported with stateful models"):
        write(wrapped("gated_delta"), IDS[:1], 4, assistant_model=wrapped("attention"))


def test_the_loss_is_that_of_the_next_token() -> None:
    wrapper = wrapped("he")
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
        wrapped("he")(IDS, attention_mask=torch.tensor(mask), use_cache=True)


def test_the_cache_of_another_model_is_refused() -> None:
    cache = state_cache(decoder_of("he"))
    with pytest.raises(ValueError, match="another model"):
        wrapped("he")(IDS, past_key_values=cache)
    with pytest.raises(TypeError, match="cache of seqloom"):
        wrapped("he")(IDS, past_key_values=transformers.DynamicCache())


def test_a_folder_with_a_missing_or_unknown_weight_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    wrapper = wrapped("he")
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
def test_it_trains_by_the_trainer(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    model = seqloom.decoder("he", vocab=31, dim=16, depth=1, context=CONTEXT)
    wrapper = seqloom.hf.wrap(model, pad_token_id=0)
    rows = [{"input_ids": row, "labels": row} for row in (torch.arange(24) % 5 + offset for offset in range(8))]
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), max_steps=20, per_device_train_batch_size=4, learning_rate=1e-2, report_to=[],
        use_cpu=True, save_strategy="no", disable_tqdm=True, logging_steps=1,
    )  # fmt: skip
    trainer = transformers.Trainer(wrapper, arguments, train_dataset=rows)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == 20
    assert losses[-1] < losses[0] - 0.5


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
    wrapper = wrapped("gated_delta").train()
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
