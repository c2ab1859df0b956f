"""Continuations of several prompts, and several samples of each."""

from collections.abc import Callable
from typing import Any

import pytest

from seqloom.generation.decode import generate
from seqloom.generation.several import generate_texts
from seqloom.models.decoder import Decoder

Build = Callable[..., Decoder]


@pytest.mark.parametrize("position", ["none", "learned"])
def test_each_text_is_that_of_generate(decoder: Build, letters: Any, position: str) -> None:
    model = decoder("he", position=position)
    model.tokenizer = letters
    prompts, how = ["ab", "a", "c d ab a"], {"max_tokens": 30, "top_p": 0.9, "stop": ["ba"]}
    texts = generate_texts(model, prompts, samples=3, rows=4, seed=5, **how)
    assert texts == [["".join(generate(model, prompt, seed=5 + n, **how)) for n in range(3)] for prompt in prompts]
    assert len({text for row in texts for text in row}) > 3


def test_seeds_go_round() -> None:
    from seqloom.core.seeds import LIMIT
    from seqloom.generation.sample import Sampling
    from seqloom.generation.several import sampling_of

    assert sampling_of(Sampling(seed=LIMIT - 1), 1).seed == 0


@pytest.mark.parametrize(
    ("prompts", "settings", "words"),
    [
        ("ab", {}, "prompts are a list of at least one text"),
        ([], {}, "prompts are a list of at least one text"),
        (["ab", ""], {}, "the prompt is empty"),
        (["ab"], {"samples": 0}, "samples must be 1 or more"),
        (["ab"], {"topp": 0.5}, "did you mean 'top_p'"),
        (["ab"], {"stop": "x"}, "stop is a list of strings"),
    ],
)
def test_what_is_refused(decoder: Build, letters: Any, prompts: Any, settings: dict[str, Any], words: str) -> None:
    model = decoder("gru")
    model.tokenizer = letters
    with pytest.raises(ValueError, match=words):
        generate_texts(model, prompts, **settings)
