"""The views of a trained model that a comparison stores."""

import pytest

import seqloom
from seqloom.data.tokenizer import Tokenizer
from seqloom.studies.pictures import FILLED, LONGEST, plot_layer, plot_model, tokens_of_views

TEXT = "the cat sat on the mat and the dog lay by the door of the old house near the sea " * 3


@pytest.mark.slow
def test_each_layer_that_is_shown_ends_with_its_reach() -> None:
    tokenizer = Tokenizer.train([TEXT], 270)
    model = seqloom.decoder("she", vocab=270, dim=8, depth=4, context=40).eval()
    shown = plot_model(model, tokenizer, tokenizer.encode(TEXT))
    last = {view["layer"]: view for view in shown}
    assert list(last) == [0, 1, 3]
    for view in last.values():
        assert view["name"] == "reach"
        assert len(view["values"]) == len(view["values"][0]) == len(view["labels"]) == 32
        assert not view["signed"]
        assert all(value == 0 for t, row in enumerate(view["values"]) for value in row[t + 1 :])
        assert max(map(max, view["values"])) == 3


@pytest.mark.slow
def test_the_reach_of_a_memory_is_stated() -> None:
    tokenizer = Tokenizer.train([TEXT], 270)
    mixer = {"kind": "compressive", "heads": 2, "memory": 6, "compressed": 5, "rate": 3}
    sizes = {"vocab": 270, "dim": 8, "depth": 3, "context": 12, "position": {"kind": "none"}}
    shown = plot_model(seqloom.decoder([mixer], **sizes).eval(), tokenizer, tokenizer.encode(TEXT))
    meanings = [view["meaning"] for view in shown if view["name"] == "reach"]
    assert len(meanings) == 3
    assert all(each.endswith("A layer reaches 21 tokens back at most, all 3 layers 63 together.") for each in meanings)


@pytest.mark.slow
def test_attention_by_region_is_of_a_text_that_fills_both_memories() -> None:
    """The last segment looks at what is compressed, at the memory and at itself, and at nothing else."""
    tokenizer = Tokenizer.train([TEXT], 270)
    mixer = {"kind": "compressive", "heads": 2, "memory": 6, "compressed": 5, "rate": 3}
    sizes = {"vocab": 270, "dim": 8, "depth": 2, "context": 12, "position": {"kind": "none"}}
    model = seqloom.decoder([mixer, {"kind": "transformer_xl", "heads": 2}], **sizes).eval()
    ids = tokenizer.encode(TEXT)
    shown = plot_model(model, tokenizer, ids)
    shares = {view["name"]: view["values"] for view in shown if view["layer"] == 0 and view["name"] != "reach"}
    assert list(shares) == [f"attention to the {name}" for name in ("compressed", "memory", "sequence")]
    assert tokens_of_views(model.config) == 12 + 6 + 3 * 5 <= len(ids)
    assert {len(values) for values in shares.values()} == {33}
    assert all(abs(sum(of_token) - 1) < 1e-3 for of_token in zip(*shares.values(), strict=True))
    compressed, memory, sequence = shares.values()
    assert compressed[:7] == memory[:7] == [0] * 7
    assert min(compressed[7:]) > 0
    assert memory[24] > 0
    assert min(sequence) > 0
    assert {len(view["values"]) for view in shown if view["layer"] == 1 and "weights" in view["name"]} == {12}


def test_the_text_of_other_views_is_no_longer_than_a_context() -> None:
    sizes = {"vocab": 270, "dim": 8, "depth": 1, "position": {"kind": "none"}}
    assert tokens_of_views(seqloom.decoder("gru", context=12, **sizes).config) == 12
    assert tokens_of_views(seqloom.decoder([{"kind": "transformer_xl"}], context=500, **sizes).config) == LONGEST
    assert (
        tokens_of_views(seqloom.decoder([{"kind": "compressive", "memory": 4096}], context=12, **sizes).config)
        == FILLED
    )


@pytest.mark.parametrize(
    ("kind", "name"), [("attention", "weights of head 0"), ("gated_delta", "write"), ("he", "taps")]
)
def test_the_views_of_a_layer_are_of_the_end_of_the_text(kind: str, name: str) -> None:
    tokenizer = Tokenizer.train([TEXT], 270)
    model = seqloom.decoder(
        kind, vocab=270, dim=8, depth=2, context=20, **({"heads": 1} if kind == "attention" else {})
    )
    ids = tokenizer.encode(TEXT)
    layer = plot_layer(model.eval(), tokenizer, ids, 1)
    assert "".join(layer["tokens"]) == tokenizer.decode(ids[-20:])
    assert layer["views"][-1]["name"] == name
    with pytest.raises(ValueError, match="it has 2 layers of mixers"):
        plot_layer(model, tokenizer, ids, 2)
