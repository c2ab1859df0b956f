"""Time of a token in transformers' `generate` next to ours, of the same models at batch 1, greedy.

python benchmarks/hf_loop.py

A row has `ms_a_token_more`, what transformers' loop takes more than ours; the models are small, so that loops show.
"""

import torch
from harness import append, compare, gate

import seqloom
import seqloom.hf

KINDS = ("attention", "gated_delta", "he", "gru")
TOKENS = 100


@torch.no_grad()
def row(kind):
    """The times of TOKENS tokens after 8."""
    torch.manual_seed(0)
    model = seqloom.decoder(kind, vocab=257, dim=64, depth=2, context=128, position="none").eval()
    wrapper = seqloom.hf.wrap(model, pad_token_id=0)
    ids = torch.arange(8)[None]
    mask = torch.ones_like(ids)

    def ours():
        list(seqloom.generate(model, ids[0].tolist(), max_tokens=TOKENS, temperature=0, ignore_eos=True))

    def theirs():
        wrapper.generate(ids, attention_mask=mask, max_new_tokens=TOKENS, do_sample=False, eos_token_id=None)

    times = compare({"ours": ours, "transformers": theirs}, "ours", repeats=9)
    medians = {name: spread[0] for name, spread in times["ms_median_quartiles"].items()}
    more = (medians["transformers"] - medians["ours"]) / TOKENS
    return {"mixer": kind, "dim": 64, "depth": 2, "tokens": TOKENS, "ms_a_token_more": round(more, 4), **times}


def main():
    """A row for each mixer."""
    gate("tests/hf/test_causal_lm.py")
    append("hf_loop", [row(kind) for kind in KINDS])


if __name__ == "__main__":
    main()
