"""The registry of positions, and rotary positions in attention: relative, and the same through pieces and steps."""

import re
from typing import Any, ClassVar, Literal

import pytest
import torch

from seqloom.contracts import PROMISES
from seqloom.contracts.finding import Promise
from seqloom.contracts.subject import Subject
from seqloom.core import position as registry
from seqloom.core.config import read
from seqloom.core.mixer import Mixer
from seqloom.core.position import PositionConfig
from seqloom.counting.count import count
from seqloom.mixers import mixer_config
from seqloom.mixers.attention.attention import AttentionConfig
from seqloom.mixers.state_space.spade import SpadeConfig
from seqloom.models.decoder import Decoder, DecoderConfig
from seqloom.ops.backends import known_backends, use
from seqloom.positions import FILES, kinds
from seqloom.positions.learned import LearnedConfig
from seqloom.positions.none import NoPositionConfig
from seqloom.positions.rotary import RotaryConfig
from seqloom.training.settings import resolve

DIM, VOCAB = 8, 11
ATTENTION = {"kind": "attention", "heads": 2}


def built(**settings: Any) -> Decoder:
    torch.manual_seed(5)
    sizes = {"vocab": VOCAB, "dim": DIM, "depth": 2, "context": 12, "ffn": 16, "dropout": 0.0, "std": 0.5}
    return Decoder(DecoderConfig.model_validate({**sizes, "mixer": ATTENTION, **settings})).double().eval()


def test_every_file_registers_one() -> None:
    assert tuple(kinds()) == FILES
    assert {kind: config.place for kind, config in kinds().items()} == {
        "learned": "embedding",
        "learned_each_layer": "layers",
        "sinusoidal": "embedding",
        "rotary": "queries_keys",
        "xpos": "queries_keys",
        "t5": "scores",
        "alibi": "scores",
        "transformer_xl": "scores",
        "da": "scores",
        "shaw": "keys_values",
        "none": None,
    }


def test_a_name_stands_for_its_settings() -> None:
    assert built(position="rotary").config.position == RotaryConfig()
    assert built(position="none").config.position == NoPositionConfig()
    assert built().config.position == LearnedConfig()
    settings = built(position="rotary").config.model_dump(mode="json")
    assert settings["position"] == {"kind": "rotary", "base": 10000.0}
    assert DecoderConfig.model_validate(settings).position == RotaryConfig()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("rotery", "unknown position 'rotery'; did you mean 'rotary'"),
        ({"kind": "rotary", "bass": 3.0}, "unknown setting 'position.bass'; did you mean 'base'"),
        ({"base": 3.0}, "position needs a kind; there is learned, learned_each_layer"),
        (3, "position is given by its settings, such as {kind: alibi}, not 3"),
    ],
)
def test_what_is_no_position(value: Any, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        read(DecoderConfig, {"vocab": 5, "mixer": ATTENTION, "position": value})


def test_a_name_is_given_once() -> None:
    class Again(PositionConfig):
        kind: Literal["rotary"] = "rotary"
        place: ClassVar = None

        def build(
            self, width: int, context: int | None, heads: int = 1, kv_heads: int | None = None, causal: bool = True
        ) -> None:
            return

    with pytest.raises(ValueError, match=r"a position is called 'rotary' already, by seqloom\.positions\.rotary"):
        registry.register(Again)


def test_a_position_that_no_layer_has_a_place_for_is_an_error_that_names_both() -> None:
    for mixers, named in (({"kind": "she"}, "she"), ([{"kind": "she"}, {"kind": "linear", "heads": 2}], "linear, she")):
        with pytest.raises(
            ValueError, match=f"rotary positions act on queries_keys, and {named} has no place for them"
        ):
            built(mixer=mixers, position="rotary")
    with pytest.raises(ValueError, match="she has no place for rotary positions, which act on queries_keys"):
        mixer_config({"kind": "she"}).build(DIM, 4, position=RotaryConfig())
    with pytest.raises(ValueError, match="attention has no place for learned positions, which act on embedding"):
        mixer_config(ATTENTION).build(DIM, 4, position=LearnedConfig())


def test_it_acts_in_the_layers_that_have_the_place() -> None:
    model = built(mixer=[ATTENTION, {"kind": "she"}], position={"kind": "rotary", "base": 50.0})
    assert model.position is None
    assert model.blocks[0].mixer.position.base == 50.0
    assert not hasattr(model.blocks[1].mixer, "position")
    both = SpadeConfig(far=mixer_config({"kind": "s4"}), near=AttentionConfig(heads=2))
    assert built(mixer=both, position="rotary").blocks[1].mixer.near.position is not None


def test_products_depend_on_how_far_apart_tokens_are() -> None:
    model, ids = built(position="rotary"), torch.randint(VOCAB, (1, 5))
    plain = built(position="none")
    plain.load_state_dict(model.state_dict())
    assert not torch.allclose(plain(ids), model(ids))
    mixer, x = model.blocks[0].mixer, torch.randn(2, 5, DIM, dtype=torch.float64)
    q, k, _ = mixer.project(x)
    later_q, later_k, _ = mixer.project(x, torch.tensor([3, 700]))
    assert not torch.allclose(later_q, q)
    torch.testing.assert_close(later_q @ later_k.mT, q @ k.mT)


@pytest.mark.slow
@pytest.mark.parametrize("window", [None, 3])
def test_pieces_steps_and_dropped_tokens_count_on(window: int | None) -> None:
    model, ids = built(position="rotary", mixer={**ATTENTION, "window": window}), torch.randint(VOCAB, (2, 10))
    whole = model(ids)
    with torch.no_grad():
        logits, state = model.extend(ids[:, :3], model.start(2))
        result = [logits]
        for place in range(3, 7):
            logits, state = model.step(ids[:, place], state, reuse=place > 4)
            result.append(logits[:, None])
        result.append(model.extend(ids[:, 7:], state)[0])
    torch.testing.assert_close(torch.cat(result, 1), whole)
    keep = torch.rand(2, 10) < 0.6
    for row in range(2):
        torch.testing.assert_close(model(ids, keep)[row, keep[row]], model(ids[row, keep[row]][None])[0])


FORMS = {"causal": True, "bidirectional": False}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "promise", [promise for promise in PROMISES if promise.__name__ != "compiles"], ids=lambda each: each.__name__
)
def test_attention_with_it_keeps_the_contract(promise: Promise, form: str) -> None:
    def make(context: int | None, dtype: torch.dtype, /) -> Mixer:
        torch.manual_seed(2)
        return AttentionConfig(heads=2).build(DIM, context, FORMS[form], position=RotaryConfig()).to(dtype)

    result = promise(Subject(form, DIM, make, exact=True, lengths=(257,)))
    assert result.verdict == (
        "holds" if FORMS[form] or promise.__name__ not in ("pieces", "token_steps") else "does not apply"
    ), result


def test_a_model_of_it_is_priced_as_counted() -> None:
    model = built(position="rotary", dropout=0.0)
    ids = torch.randint(VOCAB, (1, 5))
    with torch.no_grad(), use(**{op: "reference" for op, names in known_backends().items() if "reference" in names}):
        executed = count(lambda: model(ids).softmax(-1))
    price = model.cost(5)
    assert (price.mul, price.add, price.exp) == (executed.mul, executed.add, executed.exp)
    assert price.params == sum(parameter.numel() for parameter in model.parameters())


def test_one_built_on_meta_computes_the_same() -> None:
    model, ids = built(position="rotary"), torch.randint(VOCAB, (1, 5))
    with torch.device("meta"):
        empty = Decoder(model.config).double()
    empty.to_empty(device="cpu").load_state_dict(model.state_dict())
    assert empty.eval()(ids).equal(model(ids))
    assert model.bfloat16().blocks[0].mixer.position.theta.dtype == torch.float64


def test_on_the_command_line() -> None:
    changes = ["data.source=stories", "model.mixer.kind=attention"]
    assert resolve("tiny", [*changes, "model.position=rotary"]).model.position == RotaryConfig()
    assert resolve("tiny", [*changes, "model.position={kind: rotary, base: 9.0}"]).model.position == RotaryConfig(
        base=9.0
    )
    with pytest.raises(ValueError, match="rotary positions act on queries_keys, and she has no place"):
        resolve("tiny", ["data.source=stories", "model.mixer.kind=she", "model.position=rotary"])
