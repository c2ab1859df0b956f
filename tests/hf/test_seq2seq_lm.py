"""Encoder-decoders inside of transformers: saved and loaded, written with and without the cache, trained."""

from pathlib import Path

import pytest
import torch

transformers = pytest.importorskip("transformers")

import seqloom.hf  # noqa: E402
from seqloom.hf import SeqloomForSeq2SeqLM  # noqa: E402
from seqloom.models.kinds import model_config  # noqa: E402

transformers.utils.logging.disable_progress_bar()
EOS, COUNT = 2, 9
SOURCE = torch.tensor([[3, 7, 1, 9, 4, 8], [5, 2, 6, 30, 0, 0]])
MASK = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])


def wrapped(kind: str, model: str = "seq2seq") -> SeqloomForSeq2SeqLM:
    mixer = {"kind": kind, **seqloom.mixers.kinds()[kind].examples[0]}
    values = {"kind": model, "vocab": 31, "dim": 16, "depth": 2, "context": 16, "ffn": 16, "mixer": mixer}
    built = model_config({**values, "encoder": {"depth": 1, "mixer": mixer}}).build().double().eval()
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    for mixer in built.mixers:
        mixer.rebuild()
    wrapper = seqloom.hf.wrap(built, pad_token_id=0, eos_token_id=EOS)
    assert isinstance(wrapper, SeqloomForSeq2SeqLM)
    return wrapper


@pytest.mark.parametrize("decoding", [{}, {"num_beams": 3, "num_return_sequences": 2}])
@pytest.mark.parametrize("kind", ["attention", "gated_delta"])
def test_the_cache_changes_no_token(kind: str, decoding: dict[str, int]) -> None:
    wrapper = wrapped(kind)
    settings = {"attention_mask": MASK, "max_new_tokens": COUNT, "do_sample": False, **decoding}
    with_cache = wrapper.generate(SOURCE, **settings)
    assert torch.equal(with_cache, wrapper.generate(SOURCE, use_cache=False, **settings))
    assert (with_cache[:, 0] == EOS).all()
    assert with_cache.shape[1] > 2


def test_it_writes_what_seqloom_writes() -> None:
    from seqloom.generation.translation import translate

    wrapper = wrapped("gru")
    expected = translate(wrapper.model, SOURCE, MASK.bool(), eos=EOS, max_tokens=COUNT)
    written = wrapper.generate(SOURCE, attention_mask=MASK, max_new_tokens=COUNT, do_sample=False)
    for row, ids in zip(written[:, 1:].tolist(), expected, strict=True):
        assert row[: len(ids)] == ids


def test_saved_and_loaded(tmp_path: Path) -> None:
    wrapper = wrapped("gru")
    wrapper.save_pretrained(tmp_path)
    loaded = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path, dtype=torch.float64)
    target = torch.tensor([[2, 5, 6], [2, 9, 1]])
    given = {"input_ids": SOURCE, "attention_mask": MASK, "decoder_input_ids": target}
    expected = wrapper.model(target, source=SOURCE, source_keep=MASK.bool())
    torch.testing.assert_close(loaded(**given).logits, expected, rtol=0, atol=1e-12)


def test_the_loss_is_that_of_the_labels() -> None:
    wrapper = wrapped("gru")
    labels = torch.tensor([[5, 6, EOS], [9, EOS, -100]])
    logits = wrapper.model(torch.tensor([[EOS, 5, 6], [EOS, 9, EOS]]), source=SOURCE, source_keep=MASK.bool())
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    loss = wrapper(input_ids=SOURCE, attention_mask=MASK, labels=labels).loss
    torch.testing.assert_close(loss, expected)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match="a target is missing"):
        wrapped("gru")(input_ids=SOURCE)
