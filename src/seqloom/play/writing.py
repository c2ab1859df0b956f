"""What the page asks for: texts of several models side by side, the score of a text, what a token depends on."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

from pydantic import Field, field_validator

from seqloom.core.config import Config, read
from seqloom.core.model import Model
from seqloom.evaluation.surprise import Surprise
from seqloom.generation.price import price
from seqloom.generation.requests import Request, Token
from seqloom.generation.sample import Sampling
from seqloom.generation.several import sampling_of
from seqloom.generation.text import TextCutter, check_stop
from seqloom.play.engine import reading_of
from seqloom.play.errors import Refused
from seqloom.studies.pictures import plot_layer

OTHERS = 5
"""the likeliest tokens that are shown for each place"""
LENGTHS = (1, 4, 16, 64, 256, 1024, 4096, 16384)
"""tokens at which the state of a model is drawn"""
LONGEST = 20_000
"""the most characters of a text that is scored"""


@final
class Writing(Config):
    """Texts of one prompt."""

    models: list[str] = Field(min_length=1, max_length=4, description="names of models")
    prompt: str = Field(min_length=1, max_length=100_000, description="the text that is continued")
    max_tokens: int = Field(100, ge=1, le=4096, description="largest number of tokens")
    samples: int = Field(1, ge=1, le=10, description="texts of each model, with the seeds from `seed` on")
    temperature: float = Field(1.0, ge=0, le=100, description="divides the logits")
    top_k: int | None = Field(None, ge=1, description="draws from the k likeliest tokens")
    top_p: float | None = Field(None, gt=0, le=1, description="draws from the fewest tokens that reach it")
    min_p: float | None = Field(None, ge=0, le=1, description="least share of the largest probability")
    repetition_penalty: float = Field(1.0, gt=0, le=100, description="divides logits of tokens so far")
    presence_penalty: float = Field(0.0, ge=-10, le=10, description="subtracted for tokens written so far")
    seed: int = Field(0, ge=0, lt=2**32, description="the same seed gives the same text")
    stop: list[str] = Field([], max_length=16, description="texts before which it ends")
    half: bool = Field(False, description="whether models of pictures are given the upper half of one, by the seed")

    @field_validator("stop")
    @classmethod
    def _stops(cls, stop: list[str]) -> list[str]:
        check_stop(stop)
        return stop

    def sampling(self) -> Sampling:
        """How tokens are drawn."""
        names = Sampling.model_fields.keys() & type(self).model_fields.keys()
        sampling: Sampling = read(Sampling, {name: getattr(self, name) for name in names})
        return sampling

    def requests(self, model: Model) -> Sequence[Request]:
        """The texts of one model."""
        ids = list(model.tokenizer.encode(self.prompt))
        eos = int(model.tokenizer.eos)
        return [
            Request(
                ids,
                self.max_tokens,
                sampling_of(self.sampling(), number),
                eos,
                TextCutter(model.tokenizer, self.stop, ids),
                OTHERS,
            )
            for number in range(self.samples)
        ]

    def command(self, folder: Path, model: Model) -> str:
        """The `seqloom generate` that prints the first text."""
        plain = Sampling()
        words = ["seqloom", "generate", str(folder), self.prompt, "--max-tokens", str(self.max_tokens)]
        for name in ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty", "seed"):
            value = getattr(self, name)
            if value != getattr(plain, name):
                words += [f"--{name.replace('_', '-')}", str(value)]
        for stop in self.stop:
            words += ["--stop", stop]
        reading = reading_of(model)
        if reading["hop"] != 1:
            words += ["--hop", str(reading["hop"])]
        if self.prompt.startswith("-"):
            words = [*words[:3], *words[4:], "--", self.prompt]
        return shlex.join(words)


@final
class Scoring(Config):
    """A text to be scored."""

    model: str = Field(description="the name of a model")
    text: str = Field(min_length=1, max_length=LONGEST, description="the text")


@final
class Depending(Config):
    """A token of a text, of which the page asks what it depends on."""

    model: str = Field(description="the name of a model")
    ids: list[int] = Field(min_length=2, max_length=LONGEST, description="the tokens of the text")
    position: int = Field(ge=1, description="the number of the token")


@final
class Plotting(Config):
    """A text at which the page looks at the numbers of one mixer."""

    model: str = Field(description="the name of a model")
    ids: list[int] = Field(min_length=1, max_length=LONGEST, description="the tokens of the text")
    layer: int = Field(0, ge=0, description="the number of the layer, from 0 on")


def require_ids(model: Model, ids: Sequence[int]) -> None:
    """ValueError for ids outside of the vocabulary."""
    if not all(0 <= id < model.config.vocab for id in ids):
        raise ValueError(f"token ids lie in 0 … {model.config.vocab - 1}")


def read_asked(kind: type[Config], body: dict[str, Any]) -> Any:
    """The body of a request, checked. Refused for what is wrong."""
    try:
        return read(kind, body)
    except (ValueError, TypeError) as error:
        raise Refused(str(error)) from None


def describe_token(model: Model, token: Token) -> dict[str, Any]:
    """A token as the page shows it."""
    others = [[str(model.tokenizer.decode([id])), log_p] for id, log_p in token.others]
    return {"id": token.id, "piece": token.text, "log_p": token.log_p, "others": others}


def describe_score(score: Surprise) -> dict[str, Any]:
    """A scored text as the page shows it."""
    tokens = [list(each) for each in zip(score.pieces, score.nats, strict=True)]
    return {"bits_per_byte": score.bits_per_byte, "tokens": tokens, "ids": score.ids, "bytes": score.bytes}


def describe_layer(model: Model, asked: Plotting) -> dict[str, Any]:
    """What the mixer of a layer computes by itself, as the page draws it."""
    require_ids(model, asked.ids)
    return {"layers": len(model.mixers), **plot_layer(model, model.tokenizer, asked.ids, asked.layer)}


def describe_model(model: Model) -> dict[str, Any]:
    """A model as the page shows it: mixers, parameters, and the bytes of its state by the length of the text."""
    reading = reading_of(model)
    longest = model.traits.longest
    lengths = [length for length in LENGTHS if reading["mode"] == "slide" or longest is None or length <= longest]
    state = [[length, price(model, 1, length, **reading).state_bytes] for length in lengths]
    return {
        "mixers": sorted({mixer.kind for mixer in model.config.mixers}) or [model.config.kind],
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "context": model.config.context,
        "mode": reading["mode"],
        "device": str(model.device),
        "state": state,
    }
