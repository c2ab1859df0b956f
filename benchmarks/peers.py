"""Whole Mamba and RWKV-4 models next to public implementations: a training step, and one generated token.

python benchmarks/peers.py [mamba | rwkv] [train | token]        default: all; needs seqloom[peers]
"""

import sys

import torch
from harness import append, compare, gate
from torch.nn import functional as F

import seqloom
from seqloom.training.memory import keep_freed_memory

DIM, DEPTH, VOCAB, BATCH = 256, 2, 1000, 4
LENGTHS, BATCHES, TOKENS = (512, 2048), (1, 16), 64
HF, HF_MAMBAPY, MAMBAPY = "transformers", "transformers with mambapy", "mambapy"
WHOLE = {
    "mamba": {"channel": "none", "norm": "rms", "position": "none"},
    "rwkv": {"channel": "channel_mix", "embed_norm": True, "position": "none"},
}


def ours(kind):
    return seqloom.decoder(kind, vocab=VOCAB, dim=DIM, depth=DEPTH, context=max(LENGTHS), dropout=0.0, **WHOLE[kind])


def theirs(kind, mambapy=False):
    import transformers

    sizes = {"hidden_size": DIM, "num_hidden_layers": DEPTH, "vocab_size": VOCAB}
    if kind == "rwkv":
        return transformers.RwkvForCausalLM(transformers.RwkvConfig(**sizes, context_length=max(LENGTHS)))
    config = transformers.MambaConfig(**sizes, use_mambapy=mambapy, pad_token_id=0, bos_token_id=1, eos_token_id=None)
    return transformers.MambaForCausalLM(config)


class MambaPy(torch.nn.Module):
    """mambapy's layers between an embedding and a norm with an output, as its own language model has them."""

    def __init__(self):
        super().__init__()
        from mambapy.mamba import Mamba, MambaConfig, RMSNorm

        self.embedding, self.layers = torch.nn.Embedding(VOCAB, DIM), Mamba(MambaConfig(d_model=DIM, n_layers=DEPTH))
        self.norm, self.head = RMSNorm(DIM), torch.nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, ids):
        return self.head(self.norm(self.layers(self.embedding(ids))))


class Step:
    """Called, it trains on one batch of noise: forward, loss, backward, AdamW."""

    def __init__(self, model, length, logits):
        self.model, self.logits = model.train(), logits
        self.ids = torch.randint(2, VOCAB, (BATCH, length + 1))
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def __call__(self):
        self.optimizer.zero_grad()
        logits = self.logits(self.model, self.ids[:, :-1])
        F.cross_entropy(logits.flatten(0, 1), self.ids[:, 1:].flatten()).backward()
        self.optimizer.step()


def steps(kind, length):
    runs = {"seqloom": Step(ours(kind), length, lambda model, ids: model(ids))}
    slow = kind == "mamba" and length > 512  # its loop keeps a graph of every token: over a minute a step
    if not slow:
        runs[HF] = Step(theirs(kind), length, lambda model, ids: model(ids, use_cache=False).logits)
    if kind == "mamba":
        runs[HF_MAMBAPY] = Step(theirs(kind, True), length, lambda model, ids: model(ids, use_cache=False).logits)
        runs[MAMBAPY] = Step(MambaPy(), length, lambda model, ids: model(ids))
    return runs


class Reading:
    """Called, our model generates `TOKENS` tokens, the likeliest each time."""

    def __init__(self, kind, batch):
        self.model, self.first = ours(kind).eval(), torch.randint(2, VOCAB, (batch, 8))

    @torch.no_grad()
    def __call__(self):
        logits, state = self.model.extend(self.first, self.model.start(len(self.first)))
        ids, logits = [], logits[:, -1]
        for _ in range(TOKENS):
            ids.append(logits.argmax(-1))
            logits, state = self.model.step(ids[-1], state, reuse=True)
        return torch.stack(ids, 1)


class Generating:
    """Called, the peer's `generate` does the same."""

    def __init__(self, kind, batch):
        self.model, self.first = theirs(kind).eval(), torch.randint(2, VOCAB, (batch, 8))

    def __call__(self):
        mask = torch.ones_like(self.first)
        whole = self.model.generate(
            self.first, attention_mask=mask, do_sample=False, max_new_tokens=TOKENS, min_new_tokens=TOKENS
        )
        assert whole.shape[1] == 8 + TOKENS
        return whole


class Looping:
    """Called, the peer's model alone does the same, without what its `generate` does around it."""

    def __init__(self, kind, batch):
        self.model, self.first = theirs(kind).eval(), torch.randint(2, VOCAB, (batch, 8))
        self.cache = "state" if kind == "rwkv" else "cache_params"

    @torch.no_grad()
    def __call__(self):
        out, ids = self.model(self.first, use_cache=True), []
        for _ in range(TOKENS):
            ids.append(out.logits[:, -1].argmax(-1))
            out = self.model(ids[-1][:, None], use_cache=True, **{self.cache: out[self.cache]})
        return torch.stack(ids, 1)


def readings(kind, batch):
    return {
        "seqloom": Reading(kind, batch),
        f"{HF}, generate": Generating(kind, batch),
        f"{HF}, model alone": Looping(kind, batch),
    }


def rows(kind, what, repeats):
    for size in LENGTHS if what == "train" else BATCHES:
        torch.manual_seed(0)
        runs = steps(kind, size) if what == "train" else readings(kind, size)
        found = compare(runs, "seqloom", repeats)
        if what == "token":
            for spread in found["ms_median_quartiles"].values():
                spread[:] = [float(f"{ms / TOKENS:.4g}") for ms in spread]
        sizes = {"T": size, "batch": BATCH} if what == "train" else {"batch": size, "tokens": TOKENS}
        yield {"model": kind, "what": what, **sizes, "dim": DIM, "depth": DEPTH, "vocab": VOCAB, **found}


def main() -> None:
    words = sys.argv[1:]
    gate(
        "tests/ops/test_wkv_average.py",
        "tests/ops/test_selective_scan.py",
        "tests/mixers/test_rwkv.py",
        "tests/mixers/test_mamba.py",
    )
    keep_freed_memory()
    for kind in [word for word in words if word in WHOLE] or list(WHOLE):
        for what in [word for word in words if word in ("train", "token")] or ("train", "token"):
            for row in rows(kind, what, 5 if what == "train" else 9):
                append("peers", [row])


if __name__ == "__main__":
    main()
