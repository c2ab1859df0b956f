"""The views that a comparison keeps of a trained model."""

import seqloom
from seqloom.data.tokenizer import Tokenizer
from seqloom.experiments.pictures import views

TEXT = "the cat sat on the mat and the dog lay by the door of the old house near the sea " * 3


def test_each_layer_that_is_shown_ends_with_its_reach() -> None:
    tokenizer = Tokenizer.train([TEXT], 270)
    model = seqloom.decoder("she", vocab=270, dim=8, depth=4, context=40).eval()
    shown = views(model, tokenizer, tokenizer.encode(TEXT))
    last = {view["layer"]: view for view in shown}
    assert list(last) == [0, 1, 3]
    for view in last.values():
        assert view["name"] == "reach"
        assert len(view["values"]) == len(view["values"][0]) == len(view["labels"]) == 32
        assert not view["signed"]
        assert all(value == 0 for t, row in enumerate(view["values"]) for value in row[t + 1 :])
        assert max(map(max, view["values"])) == 3


def test_the_reach_of_a_memory_is_said() -> None:
    tokenizer = Tokenizer.train([TEXT], 270)
    mixer = {"kind": "compressive", "heads": 2, "memory": 6, "compressed": 5, "rate": 3}
    sizes = {"vocab": 270, "dim": 8, "depth": 3, "context": 12, "position": {"kind": "none"}}
    shown = views(seqloom.decoder([mixer], **sizes).eval(), tokenizer, tokenizer.encode(TEXT))
    said = [view["meaning"] for view in shown if view["name"] == "reach"]
    assert len(said) == 3
    assert all(each.endswith("A layer reaches 21 tokens back at most, all 3 layers 63 together.") for each in said)
