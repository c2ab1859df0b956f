"""An encoder: every position reads all others, padding has no effect, and missing verbs raise one line."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import seqloom
from seqloom.core.model import Model
from seqloom.core.model_config import ModelConfig
from seqloom.evaluation.scores import score
from seqloom.generation.decode import generate
from seqloom.mixers import mixer_config
from seqloom.models.kinds import KINDS, model_config
from seqloom.training.preset import COUNTING
from tests.training.stepping import noise

SIZES: dict[str, Any] = {"vocab": 31, "dim": 8, "depth": 2, "context": 8, "ffn": 16, "dropout": 0.0, "std": 0.3}


def built(kind: str = "encoder", seed: int = 0, **settings: Any) -> Model:
    torch.manual_seed(seed)
    mixer = {"kind": "attention", "heads": 2}
    return model_config({"kind": kind, **SIZES, "mixer": mixer, **settings}).build().eval()


def ids_of(*shape: int) -> Tensor:
    return torch.randint(31, shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("kind", "reads"), [("encoder", 6), ("decoder", 3)])
def test_what_a_position_reads(kind: str, reads: int) -> None:
    model, ids = built(kind), ids_of(1, 6)
    x = model.token(ids).detach().requires_grad_()
    model.token.register_forward_hook(lambda *_: x)
    (gradient,) = torch.autograd.grad(model(ids)[0, 2].square().sum(), x)
    assert (gradient[0].abs().sum(1) > 0).tolist() == [position < reads for position in range(6)]


@pytest.mark.parametrize("mixer", [{"kind": "rwkv"}, {"kind": "rfa", "heads": 2}])
def test_a_causal_mixer_is_read_both_ways(mixer: dict[str, Any]) -> None:
    model = built(mixer=mixer)
    assert model.config.mixers[0] == mixer_config({"kind": "both_ways", "mixer": mixer})
    assert model_config(model.config.model_dump(mode="json")) == model.config
    x = torch.randn(1, 6, 8)
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(model.mixers[0](x)[0, 2].square().sum(), x)
    assert (gradient[0].abs().sum(1) > 0).all()


def test_dropped_tokens_of_encoder_change_nothing() -> None:
    model, ids = built(position="none"), ids_of(2, 6)
    keep = torch.tensor([[True, False, True, True, False, False], [True] * 6])
    logits = model(ids, keep)
    assert not logits[~keep].any()
    torch.testing.assert_close(logits[0][keep[0]], model(ids[:1, [0, 2, 3]])[0])
    torch.testing.assert_close(model.logits(model.features(ids, keep), keep), logits)


def test_traits_and_price() -> None:
    encoder, decoder = built(), built("decoder")
    assert (encoder.traits.generates, encoder.traits.streams, encoder.traits.longest) == (False, False, 8)
    assert (decoder.traits.generates, decoder.traits.streams, decoder.traits.longest) == (True, True, 8)
    assert encoder.cost(8).params == sum(weights.numel() for weights in encoder.parameters())
    assert encoder.cost(8).mul > decoder.cost(8).mul  # it reads the later tokens too
    with torch.device("meta"):
        pattern = encoder.config.build(layers=1)
    assert len(pattern.layers) == 1
    assert pattern.cost(8) == encoder.cost(8)
    assert pattern.inner_cost(8) == encoder.inner_cost(8)


@pytest.mark.parametrize(
    ("call", "lacks"),
    [
        (lambda model: model.start(1), "read on from a state"),
        (lambda model: model.extend(ids_of(1, 2), ()), "read on from a state"),
        (lambda model: model.read(ids_of(1, 2), ()), "read on from a state"),
        (lambda model: model.step(ids_of(1), ()), "read on from a state"),
        (lambda model: model.trim(()), "read on from a state"),
        (lambda model: generate(model, [1, 2]), "generate text"),
        (lambda model: score(model, noise()), "predict the next token"),
    ],
)
def test_limitations(call: Callable[[Model], object], lacks: str) -> None:
    with pytest.raises(ValueError, match=rf"^a model of kind encoder cannot {lacks}: use one of model\.kind=decoder$"):
        call(built())


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"channel": "channel_mix"}, "an encoder reads in both directions: choose ffn or none"),
        ({"channel": "channel_mix7"}, "channel_mix7 is causal, and an encoder reads in both directions"),
        ({"kind": "encodr"}, "unknown kind 'encodr' of a model; did you mean 'encoder'"),
        ({"kind": ["encoder"]}, "unknown kind \\['encoder'\\] of a model"),
        ({"dmi": 4}, "unknown setting 'dmi'; did you mean 'dim'"),
    ],
)
def test_settings_of_encoder_that_do_not_fit(settings: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        built(**settings)


@pytest.mark.slow
def test_every_kind_has_its_name_and_builds() -> None:
    transformers = ["decoder", "encoder", "classifier", "seq2seq", "universal", "universal_encoder"]
    others = ["universal_seq2seq", "ngram", "hmm", "textcnn", "decision", "spalm", "regressor", "patch_classifier"]
    assert list(KINDS) == [*transformers, *others]
    encoder = {"encoder": {"depth": 1, "mixer": {"kind": "attention", "heads": 2}}}
    for kind, config in KINDS.items():
        counts = kind in COUNTING
        sizes = {"kind": kind, "vocab": 31, "context": 8}
        own = encoder if "seq2seq" in kind else {}
        model = model_config(sizes).build() if counts or kind == "textcnn" else built(kind, **own)
        assert type(model.config) is config
        assert issubclass(config, ModelConfig)
        assert model.config.kind == kind
        again = model_config(model.config.model_dump(mode="json"))
        assert again == model.config


@pytest.mark.slow
def test_encoder_is_saved_and_loaded(tmp_path: Any) -> None:
    model = built()
    seqloom.save(model, tmp_path / "encoder")
    again = seqloom.load(tmp_path / "encoder")
    assert again.config == model.config
    assert torch.equal(again(ids_of(2, 6)), model(ids_of(2, 6)))


@pytest.mark.slow
def test_no_file_outside_models_names_a_class_of_it() -> None:
    """But the public face, which offers `seqloom.decoder`, and what exchanges the loop of a causal model."""
    package = Path(seqloom.__file__).parent
    names = re.compile(r"^from seqloom\.models\.(decoder|encoder) import|\b(Decoder|Encoder)(Config)?\(", re.MULTILINE)
    files = [path for path in package.rglob("*.py") if names.search(path.read_text(encoding="utf-8"))]
    outside = {path.relative_to(package).as_posix() for path in files if package / "models" not in path.parents}
    assert outside == {"face/models.py", "training/stretches.py"}
