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
