"""What the page of the tour shows, as numbers of JSON: of the sentence, and of it with each other word.

A variant has, of the first layers:

    attention     weights [head][token][token]
    adjustment    [token][channel]
    delta         keys [head][token][K], changes [head][token][V], erased, decay, strength [head][token]

and beside them, the same for all variants, the taps of HE by lag and channel.
"""

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from torch import Tensor

from seqloom.core.model import Model
from seqloom.core.table import format_size
from seqloom.mixers.attention.attention import Attention
from seqloom.mixers.extractors.extractors import Extractor
from seqloom.mixers.linear.gated_delta import GatedDelta
from seqloom.tour import equations, layers
from seqloom.tour.models import Kind, Three
from seqloom.tour.sentence import Sentence, read_sentence, words_of

RUNS = Path(__file__).with_name("runs.jsonl")
LAGS = 64
"""lags of which the page has the taps of every channel"""
AFTER = (12, 512, 2048)
"""tokens after which the memory is given"""
BYTES = 4
"""of a number in float32"""
DIGITS = 3
CODE: dict[Kind, Callable[..., Any]] = {
    "attention": equations.attention,
    "he": equations.he_extractor,
    "gated_delta": equations.gated_delta,
}
"""the functions that the page prints"""


@final
@dataclass(frozen=True)
class Content:
    """The words of the page and its numbers."""

    sentence: Sentence
    described: str
    """where the models are from"""
    size: str
    memory: dict[Kind, str]
    data: dict[str, Any]


def look(three: Three, text: str, word: str | None = None) -> Content:
    """What the three models do with a text, and with a dozen other words in the place of one.

    ValueError for a text or a word that cannot be shown.
    """
    sentence = read_sentence(text, word, three.models["gated_delta"], three.tokenizer)
    config = three.models["attention"].config
    attention, he, delta = (first_layer(three.models[kind]) for kind in ("attention", "he", "gated_delta"))
    assert isinstance(attention, Attention)
    assert isinstance(he, Extractor)
    assert isinstance(delta, GatedDelta)
    variants = []
    for ids in sentence.variants:
        inputs = {kind: layers.input_of(model, ids) for kind, model in three.models.items()}
        writes = layers.delta_writes(delta, inputs["gated_delta"])
        variants.append(
            {
                "words": words_of(three.tokenizer, ids),
                "attention": round_numbers(layers.attention_weights(attention, inputs["attention"])),
                "adjustment": round_numbers(layers.extractor_adjustment(he, inputs["he"])),
                "delta": {
                    "keys": round_numbers(writes.keys),
                    "changes": round_numbers(writes.changes),
                    "erased": round_numbers(writes.erased),
                    "decay": round_numbers(writes.decay),
                    "strength": round_numbers(writes.strength),
                },
            }
        )
    taps = layers.extractor_taps(he, inputs["he"])
    data = {
        "place": sentence.place,
        "variants": variants,
        "taps": round_numbers(taps[:LAGS]),
        "magnitude": round_numbers(taps.abs().mean(1)),
    }
    size = f"{len(three.models['attention'].mixers)} layers, dim {attention.dim}, context {config.context:,}"
    return Content(sentence, three.described, size, {kind: memory(kind, three.models[kind]) for kind in CODE}, data)


def first_layer(model: Model) -> Any:
    """The mixer of the first layer."""
    return model.mixers[0]


def memory(kind: Kind, model: Model) -> str:
    """What a model keeps of one text, in words: its bytes in float32 after few tokens and after many."""
    sizes = [sum(mixer.cost(tokens, per="token").state for mixer in model.mixers) * BYTES for tokens in AFTER]
    steps = ", ".join(f"{format_size(size)} after {tokens:,}" for size, tokens in zip(sizes, AFTER, strict=True))
    built = f"{len(model.mixers)} layers, context {model.config.context:,}, one text, float32"
    return f"{WHAT[kind]} In this model ({built}): {steps} tokens."


WHAT: dict[Kind, str] = {
    "attention": "The keys and values of all tokens that it may still read: it grows with the text, up to the context.",
    "he": "The last inputs and the unfinished sums, one of each per lag: as large as the context it is built for.",
    "gated_delta": "One table per head, of the same size after ten tokens and after a million.",
}
"""what each model remembers"""


def source(kind: Kind) -> str:
    """The lines of PyTorch of a mixer, without its annotations and its docstring, to copy."""
    lines = inspect.getsource(CODE[kind]).splitlines()
    start = next(number for number, line in enumerate(lines) if '"""' in line)
    names = ", ".join(inspect.signature(CODE[kind]).parameters)
    return "\n".join([f"def {CODE[kind].__name__}({names}):", *lines[start + 1 :]])


def runs() -> list[dict[str, Any]]:
    """The two runs that are stored with the page, a row per model: pairs recalled, with origin and command."""
    return [json.loads(line) for line in RUNS.read_text(encoding="utf-8").splitlines()]


def round_numbers(values: Tensor) -> Any:
    """Nested lists of the numbers, to three digits."""
    return _to_digits(values.double().tolist())


def _to_digits(value: Any) -> Any:
    return [_to_digits(part) for part in value] if isinstance(value, list) else float(f"{value:.{DIGITS}g}")
