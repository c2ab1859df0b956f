"""The surprise of each token against the model's own logits, read at once, in pieces and in windows; and dependence."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

import seqloom
from seqloom.core.model import Model
from seqloom.evaluation import surprise as module
from seqloom.evaluation.surprise import dependence, surprise

CONTEXT = 8


class Letters:
    """A token for each letter from a to j; `<eos>` is 0."""

    eos = 0

    def encode(self, text: str) -> list[int]:
        return [ord(letter) - ord("a") + 1 for letter in text]

    def stream(self, after: Any = ()) -> Any:
        return SimpleNamespace(push=lambda id: chr(ord("a") + id - 1), finish=lambda: "")


def build(position: str) -> Model:
    torch.manual_seed(0)
    sizes = {"vocab": 11, "dim": 8, "depth": 2, "context": CONTEXT, "ffn": 16, "std": 0.5}
    model = seqloom.decoder("he", **sizes, position=position).double()  # type: ignore[arg-type]
    model.tokenizer = Letters()
    return model


def nats_of(model: Model, ids: list[int], token: int) -> float:
    """-ln p of a token after ids that are read at once."""
    return -float(model.eval()(torch.tensor([ids]))[0, -1].log_softmax(0)[token])


def test_a_text_that_is_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE", 5)
    model, text = build("none"), "abcdefghijabc"
    score = surprise(model, text)
    ids = [0, *score.ids]
    with torch.no_grad():
        whole = model.eval()(torch.tensor([ids]))[0].log_softmax(1)
    expected = [-float(whole[t, ids[t + 1]]) for t in range(len(text))]
    assert score.nats == pytest.approx(expected, abs=1e-10)
    assert score.bits_per_byte == pytest.approx(sum(expected) / 0.6931471805599453 / len(text))
    assert "".join(score.pieces) == text


def test_a_text_that_is_read_in_windows() -> None:
    """The first window whole, of later ones the second half."""
    model, text = build("learned"), "abcdefghijabcdefghi"
    score = surprise(model, text)
    ids = [0, *score.ids]
    starts = [0] * 8 + [4] * 4 + [8] * 4 + [11] * 3
    assert len(starts) == len(text)
    for t, start in enumerate(starts):
        assert score.nats[t] == pytest.approx(nats_of(model, ids[start : t + 1], ids[t + 1]), abs=1e-10)


def test_what_a_token_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS", 2)
    model, ids = build("learned"), [3, 1, 4, 1, 5, 9, 2]
    changes = dependence(model, ids, 5, seed=3)
    shift = torch.randint(1, 11, (5,), generator=torch.Generator().manual_seed(3)).tolist()
    for place in range(5):
        other = ids[:5]
        other[place] = (other[place] + shift[place]) % 11
        assert other[place] != ids[place]
        expected = nats_of(model, other, 9) - nats_of(model, ids[:5], 9)
        assert changes[place] == pytest.approx(expected, abs=1e-10)
    assert dependence(model, ids, 5, most=2, seed=3) != changes[-2:]
    assert len(dependence(model, ids, 5, most=2)) == 2
    assert len(dependence(model, ids * 3, 20)) == CONTEXT


def test_what_is_refused() -> None:
    model = build("none")
    with pytest.raises(ValueError, match="the text is empty"):
        surprise(model, "")
    with pytest.raises(ValueError, match="position 3 lies outside a text of 3 tokens"):
        dependence(model, [1, 2, 3], 3)
    with pytest.raises(ValueError, match="position must be 1 or more"):
        dependence(model, [1, 2, 3], 0)
    model.tokenizer = None
    with pytest.raises(ValueError, match="the model has no tokenizer"):
        surprise(model, "a")
