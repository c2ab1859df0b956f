"""What int8 costs and saves: loss on a text, time of a token and of a whole text, bytes, next to the model in float32.

python benchmarks/int8.py                                              the times
python benchmarks/int8.py valid.txt runs/he runs/attention …           the losses of runs on a text

The times are of untrained decoders, since a small run has too small products.
"""

import sys
from pathlib import Path

import torch
from harness import append, compare, gate

import seqloom

KINDS = ("attention", "gated_delta", "he", "mamba2")
DIMS, DEPTH, CONTEXT, TOKENS = (256, 512), 4, 128, 32
TEXT = 100_000
"""tokens of a text at most"""


@torch.no_grad()
def times(kind, dim):
    """A row: tokens at batch 1, and a text of CONTEXT tokens."""
    torch.manual_seed(0)
    model = seqloom.decoder(kind, vocab=8192, dim=dim, depth=DEPTH, context=CONTEXT, position="none").eval()
    models = {"float32": model, "int8": seqloom.quantize(model)}
    ids = torch.randint(0, 8192, (1, CONTEXT))

    def step(name):
        def tokens():
            state = models[name].start(1, capacity=CONTEXT)
            for t in range(TOKENS):
                _, state = models[name].step(ids[:, t], state, reuse=True)

        return tokens

    def whole(name):
        return lambda: models[name](ids)

    def bytes_of(name):
        tensors = (*models[name].parameters(), *models[name].buffers())
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    row = {"mixer": kind, "dim": dim, "depth": DEPTH, "context": CONTEXT, "bytes": {n: bytes_of(n) for n in models}}
    for what, make in ((f"{TOKENS} tokens", step), ("text", whole)):
        row[what] = compare({name: make(name) for name in models}, "float32", repeats=9)
    return row


@torch.no_grad()
def losses(run, text):
    """A row: the mean loss in nats per token of a run on a text, in windows of its context."""
    model = seqloom.load(run)
    ids = torch.tensor(model.tokenizer.encode(Path(text).read_text(encoding="utf-8")))
    context = model.config.context
    count = min((len(ids) - 1) // context, max(1, TEXT // context))
    batch = ids[: count * context + 1]
    found = {}
    for name, each in (("float32", model), ("int8", seqloom.quantize(model))):
        total = 0.0
        for start in range(0, count * context, context):
            window = batch[start : start + context + 1][None]
            loss, _ = each.loss_with_extras(window[:, :-1], window[:, 1:])
            total += loss.item()
        found[name] = total / count
    return {"run": str(run), "text": Path(text).name, "tokens": count * context, "loss": found}


def main():
    """Rows of loss for each run that is named, of time for each mixer and width where none is."""
    gate("tests/models/test_int8.py")
    text, *runs = sys.argv[1:] or [""]
    append("int8", [losses(run, text) for run in runs] or [times(kind, dim) for kind in KINDS for dim in DIMS])


if __name__ == "__main__":
    main()
