"""What is known of text from the grammar of `stories`: the floor of a held-out cost, and which sentences are of it."""

from typing import Protocol

import torch

from seqloom.data.stories import grammatical_share, log_probability
from seqloom.data.tokens import Tokens
from seqloom.generation.decode import generate_ids
from seqloom.generation.sample import Sampling
from seqloom.models.decoder import Decoder


class Decodes(Protocol):
    """A tokenizer, as far as reading ids goes."""

    def decode(self, ids: list[int]) -> str:
        """The text of the ids."""


def floor(tokens: Tokens, tokenizer: Decodes) -> float | None:
    """A lower bound on the held-out cost, nats a token: -log p of each derivation over the tokens; None for other text.

    It is a bound in expectation: on a finite text a lucky model can go below it by the noise of the sample.
    """
    nats = 0.0
    for first, end in zip(tokens.starts, tokens.ends, strict=True):
        try:
            nats -= log_probability(tokenizer.decode(tokens.ids[first : end - 1].tolist()))
        except ValueError:
            return None
    return nats / len(tokens)


def sampled_share(model: Decoder, *, stories: int, tokens: int, top_p: float, seed: int = 0) -> tuple[int, int]:
    """Sentences of the grammar among those that the model writes, and all that it writes.

    It writes `stories` texts of at most `tokens` tokens side by side, each begun after an `<eos>`. A full window drops
    a quarter of itself at once, which reads less often and looks back no less than three quarters.
    """
    eos = int(model.tokenizer.eos)
    prompts = torch.full((stories, 1), eos)
    hop = max(1, model.config.context // 4)
    rows = generate_ids(model, prompts, max_tokens=tokens, hop=hop, sampling=Sampling(top_p=top_p), seed=seed, eos=eos)
    shares = [grammatical_share(model.tokenizer.decode(row)) for row in rows]
    return sum(good for good, _ in shares), sum(written for _, written in shares)
