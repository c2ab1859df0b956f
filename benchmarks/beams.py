"""Time of a beam search relative to greedy generation of the same number of tokens.

    beams     K rows read each token; all K·W continuations are ranked, and the state is reordered to the remaining rows
    greedy    one row reads it, and the most probable token is taken

Whole decoders of dim 128 and depth 4 over 5,000 tokens, a prompt of 16 tokens and 64 after it, generated from a state.
The goal is at most 2.5 times greedy for four beams.

python benchmarks/beams.py [mixer …]                     default: attention, he, mamba, gru, gated_delta
"""

import sys

import torch
from harness import append, compare, gate

import seqloom
from seqloom.generation.beams import Beams, beam_search
from seqloom.generation.decode import generate_ids
from seqloom.generation.sample import Sampling

MIXERS = {"attention": {"heads": 4}, "he": {}, "mamba": {}, "gru": {}, "gated_delta": {}}
DIM, DEPTH, VOCAB, CONTEXT, PROMPT, TOKENS, BEAMS = 128, 4, 5000, 128, 16, 64, 4


def row(kind):
    """The times of greedy and of the search, and their ratio within each round."""
    torch.manual_seed(0)
    sizes = {"vocab": VOCAB, "dim": DIM, "depth": DEPTH, "context": CONTEXT}
    model = seqloom.decoder(kind, **sizes, position="none", std=0.05, **MIXERS[kind]).eval()
    prompts = torch.randint(VOCAB, (1, PROMPT), generator=torch.Generator().manual_seed(1))
    settings = {"max_tokens": TOKENS, "mode": "stream"}
    runs = {
        "greedy": lambda: generate_ids(model, prompts, sampling=Sampling(temperature=0), **settings),
        "beams": lambda: beam_search(model, prompts, beams=Beams(beams=BEAMS), **settings),
    }
    sizes |= {"prompt": PROMPT, "tokens": TOKENS, "beams": BEAMS}
    return {"mixer": kind, **sizes, **compare(runs, peer="greedy", repeats=9)}


def main() -> None:
    gate("tests/generation/test_generation_beams.py", "-m", "not slow")
    append("beams", [row(kind) for kind in sys.argv[1:] or MIXERS])


if __name__ == "__main__":
    main()
