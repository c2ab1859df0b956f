"""The lower bound of stories from their own probabilities, and the share of grammatical sentences."""

import math
from typing import Any

import pytest
import torch

from seqloom.data.documents import Document
from seqloom.data.prepare import encode_documents
from seqloom.data.stories import derive, entropy, sentences
from seqloom.data.tokenizer import Tokenizer
from seqloom.data.tokens import Tokens
from seqloom.evaluation import stories
from seqloom.evaluation.stories import Judged, floor, judge_stories
from seqloom.models.decoder import Decoder, DecoderConfig

DERIVED = [derive(3, number) for number in range(12)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train([derived.text for derived in DERIVED], 300)


def encoded(texts: list[str], tokenizer: Tokenizer) -> Tokens:
    return encode_documents([Document(str(number), text) for number, text in enumerate(texts)], tokenizer)


def decoder(tokenizer: Tokenizer) -> Decoder:
    torch.manual_seed(0)
    model = Decoder(DecoderConfig(vocab=tokenizer.vocab, dim=8, depth=1, context=16, ffn=16, mixer={"kind": "we"}))
    model.tokenizer = tokenizer
    return model.eval()


def test_the_floor_is_the_probability_of_the_derivations(tokenizer: Tokenizer) -> None:
    tokens = encoded([derived.text for derived in DERIVED], tokenizer)
    expected = -sum(math.log(choice.probability) for derived in DERIVED for choice in derived.choices) / len(tokens)
    actual = floor(tokens, tokenizer)
    assert actual == pytest.approx(expected, rel=1e-12)
    assert actual is not None
    assert 0.5 * entropy() < actual * len(tokens) / len(DERIVED) < 2 * entropy()


@pytest.mark.parametrize("other", ["Call me Ishmael.", "Once upon a time"])
def test_other_text_has_no_floor(tokenizer: Tokenizer, other: str) -> None:
    texts = [derived.text for derived in DERIVED]
    assert floor(encoded([*texts, other], tokenizer), tokenizer) is None
    assert floor(encoded([texts[0] + " And more.", *texts], tokenizer), tokenizer) is None


def test_sentences_are_counted(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = DERIVED[0].text, DERIVED[1].text
    stranger = two.removesuffix(sentences(two)[-1]) + sentences(one)[-1]  # ends with a sentence of another story
    texts = [one, "The the of. " * 3, stranger]
    asked: dict[str, Any] = {}

    def written(model: Decoder, prompts: torch.Tensor, **settings: Any) -> list[list[int]]:
        asked.update(settings, prompts=prompts)
        return [tokenizer.encode(text) for text in texts]

    monkeypatch.setattr(stories, "generate_ids", written)
    result = judge_stories(decoder(tokenizer), stories=3, tokens=50, top_p=0.9, seed=4)
    assert (len(sentences(one)), len(sentences(two))) == (10, 10)
    assert result == Judged(written=10 + 3 + 10, grammatical=20, agreeing=19)
    assert asked["prompts"].equal(torch.full((3, 1), tokenizer.eos))
    assert (asked["max_tokens"], asked["sampling"].seed, asked["eos"], asked["hop"]) == (50, 4, tokenizer.eos, 4)
    assert asked["sampling"].top_p == 0.9


@pytest.mark.slow
def test_an_untrained_model_writes_nothing_grammatical(tokenizer: Tokenizer) -> None:
    model = decoder(tokenizer)
    result = judge_stories(model, stories=2, tokens=60, top_p=1.0)
    assert (result.grammatical, result.agreeing) == (0, 0)
    assert result.written >= 0
    assert judge_stories(model, stories=2, tokens=60, top_p=1.0) == result


def test_nothing_written_is_nothing_counted(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stories, "generate_ids", lambda *values, **settings: [[], []])
    assert judge_stories(decoder(tokenizer), stories=2, tokens=5, top_p=0.9) == Judged(0, 0, 0)
