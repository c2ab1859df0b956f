"""Time of generation with a draft model, relative to without: speculative sampling, and Big-Little decoding.

python benchmarks/drafting.py runs/large runs/small

Both runs have the same tokenizer and generate from a state. Each generates 100 tokens after one prompt, or as many as
the window allows, at temperature 1 and 0; a row has the number of accepted drafts and the parameters of both models.
"""

import sys

from harness import append, compare, gate

import seqloom
from seqloom.generation.drafting import Draft, Drafting, draw_with_draft
from seqloom.generation.modes import window
from seqloom.generation.sample import Sampling

PROMPT, DRAFTS = "Once upon a time", 4
BOUNDS = {"confidence": 0.5, "take_back": 3.0}


def row(large, small, temperature):
    """Times and shares of the three."""
    tokens = min(100, window(large) - len(large.tokenizer.encode(PROMPT)))
    ids = large.tokenizer.encode(PROMPT)
    how = {"max_tokens": tokens, "mode": None, "hop": 1, "sampling": Sampling(temperature=temperature)}
    plain = {"max_tokens": tokens, "temperature": temperature, "ignore_eos": True}
    drafts = {
        "exact": Drafting(Draft(model=small, tokens=DRAFTS)),
        "big-little": Drafting(Draft(model=small, tokens=DRAFTS, **BOUNDS)),
    }

    def write(name):
        if name not in drafts:
            return lambda: list(seqloom.generate(large, ids, **plain))
        return lambda: list(draw_with_draft(large, ids, drafts[name], **how))

    times = compare({name: write(name) for name in ("plain", *drafts)}, "plain", repeats=9)
    worth = {}
    for name, draft in drafts.items():
        shares = {"stayed": (draft.stayed, draft.drafted), "per_reading": (draft.written, draft.readings)}
        shares["differing"] = (draft.differing, draft.written)
        worth[name] = {share: part / max(whole, 1) for share, (part, whole) in shares.items()}
    sizes = [sum(p.numel() for p in model.parameters()) for model in (large, small)]
    return {
        "tokens": tokens,
        "drafts": DRAFTS,
        "temperature": temperature,
        **BOUNDS,
        "parameters": sizes,
        **worth,
        **times,
    }


def main():
    """A row for each temperature."""
    gate("tests/generation/test_drafting.py")
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    large, small = (seqloom.load(folder) for folder in sys.argv[1:])
    append("drafting", [row(large, small, temperature) for temperature in (1.0, 0.0)])


if __name__ == "__main__":
    main()
