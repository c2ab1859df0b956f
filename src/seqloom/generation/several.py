"""Several texts at once: the continuations of prompts of any lengths, and several samples of each."""

from collections.abc import Sequence
from typing import Any

from seqloom.core.arguments import count
from seqloom.core.config import read
from seqloom.core.model import Model, require_generates
from seqloom.core.seeds import LIMIT
from seqloom.generation.batcher import Batcher
from seqloom.generation.decode import prompt_ids
from seqloom.generation.modes import Mode
from seqloom.generation.requests import Request
from seqloom.generation.sample import Sampling
from seqloom.generation.text import TextCutter, check_stop
from seqloom.models.arguments import check_flag


def generate_texts(
    model: Model,
    prompts: Sequence[str],
    *,
    samples: int = 1,
    rows: int = 32,
    max_tokens: int = 200,
    mode: Mode | None = None,
    hop: int = 1,
    stop: Sequence[str] = (),
    ignore_eos: bool = False,
    **sampling: Any,
) -> list[list[str]]:
    """`samples` continuations of each prompt, at most `rows` of them at once; other keywords are those of a Sampling.

    Sample n has the seed `seed + n`, and is the text that `generate` writes with it, but for rounding. Raises
    ValueError or TypeError at the call for arguments that do not fit, as `generate` does.
    """
    require_generates(model)
    check_flag("ignore_eos", ignore_eos)
    check_stop(stop)
    count("samples", samples, least=1)
    if isinstance(prompts, str) or not isinstance(prompts, Sequence) or not prompts:
        raise ValueError("prompts are a list of at least one text")
    settings: Sampling = read(Sampling, sampling)
    batcher = Batcher(model, rows=rows, mode=mode, hop=hop)
    texts = []
    for prompt in prompts:
        ids = prompt_ids(model, prompt)
        eos = None if ignore_eos else model.tokenizer.eos
        requests = [
            Request(ids, max_tokens, sampling_of(settings, number), eos, TextCutter(model.tokenizer, stop, ids))
            for number in range(samples)
        ]
        batcher.submit(requests)
        texts.append(requests)
    batcher.run()
    for request in (request for requests in texts for request in requests):
        if request.end == "failed":
            raise ValueError(request.error)
    return [[request.text for request in requests] for requests in texts]


def sampling_of(sampling: Sampling, number: int) -> Sampling:
    """The settings of sample `number`, whose seed is so many further."""
    return sampling.model_copy(update={"seed": (sampling.seed + number) % LIMIT})
