"""One cached token after 2,048 others, whole models at batch 1: time relative to GPT-2, RWKV-4, Mamba in
`transformers`.

All models have the same sizes and a context of 4,096; the ids that they read are drawn before timing, so that sampling
is not timed. Attention and `he` are in the paper's Transformer, with learned positions as in GPT-2; RWKV-4 and Mamba
are whole models, as their authors build them. A run reads 64 tokens. `he` computes blocks of its sums ahead, from time
to time a long one: its run has all 2,048 tokens to the end of the context, so that every block is included. No run
copies its cache while it is timed. Our models read with their own step, and with that of `generate --compile`.

GPT-2 runs in the fastest configuration that we know: SDPA, the activation as one operation (`gelu_pytorch_tanh`, the
same function as its default `gelu_new`), and the faster of its two caches, which a short measurement selects first.

python benchmarks/decoding_peers.py [repeats]           default: 15; needs seqloom[peers]
"""

import copy
import sys
from functools import partial

import torch
from harness import append, compare, gate

import seqloom
from seqloom.generation.compiled import CompiledStep
from seqloom.mixers import kinds
from seqloom.training.memory import keep_freed_memory

DIM, DEPTH, HEADS, VOCAB = 128, 4, 4, 2000
READ, CONTEXT, TOKENS = 2048, 4096, 64
TOLERANCE = 1e-5
"""largest difference of a logit between cached and whole reading, as a share of the largest logit"""
WHOLE = {
    "attention": {"heads": HEADS},
    "he": {},
    "rwkv": {"channel": "channel_mix", "embed_norm": True, "position": "none"},
    "mamba": {"channel": "none", "norm": "rms", "position": "none"},
}
GOALS = {"attention": 0.7, "he": 0.4, "rwkv": 0.4, "mamba": 0.4}
"""shares of GPT-2's token, at most, of the compiled step"""
CACHES = ("DynamicCache", "StaticCache")


class Run:
    """Called, it reads `tokens` ids one by one from a cache that holds `READ`, and returns the last logits (W,)."""

    def __init__(self, model, tokens):
        self.model, self.tokens = loud(model).eval(), tokens
        self.ids = torch.randint(2, VOCAB, (1, READ + tokens), generator=torch.Generator().manual_seed(0))
        with torch.inference_mode():
            self.full = self.prompt(self.ids[:, :READ])
        self.moved = True
        self.rewind()

    def rewind(self):
        """The cache is again as it was after `READ` tokens."""
        if self.moved:
            self.cache, self.moved = copy.deepcopy(self.full), False

    def __call__(self):
        assert not self.moved, "rewind first"
        self.moved = True
        with torch.inference_mode():
            for id in self.pieces():
                logits = self.token(id)
        return logits.flatten()

    def agree(self):
        """Raises RuntimeError unless cached reading gives what the model gives that reads the same ids at once."""
        cached = self()
        self.rewind()
        with torch.inference_mode():
            whole = self.whole(self.ids)[0, -1]
        error = float((cached - whole).abs().max() / whole.abs().max())
        if not error <= TOLERANCE:
            raise RuntimeError(f"{type(self.model).__name__}: cached and whole reading differ by {error:.2g}: no time")


def loud(model):
    """The model with matrices that keep variance: under a fresh model's small ones a wrong cache would not show."""
    for part in model.modules():
        if type(part).__name__ in ("Linear", "Conv1D", "Embedding"):
            torch.nn.init.normal_(part.weight, std=DIM**-0.5)
    return model


def set_sizes(dim, read, context):
    """For other programs: the channels, the tokens in a cache, and the context of all models that are built next."""
    global DIM, READ, CONTEXT
    DIM, READ, CONTEXT = dim, read, context


def settings_of(kind):
    """The settings with which a mixer is in a whole model: its authors', else the first with which it is tested."""
    if kind in WHOLE:
        return WHOLE[kind]
    config = kinds()[kind]
    needs_settings = any(field.is_required() for field in config.model_fields.values())
    return config.examples[0] if needs_settings else {}


class Ours(Run):
    """A decoder of seqloom, by its mixer."""

    def __init__(self, kind):
        sizes = {"vocab": VOCAB, "dim": DIM, "depth": DEPTH, "context": CONTEXT, "dropout": 0.0}
        model = seqloom.decoder(kind, **sizes, **settings_of(kind))
        super().__init__(model, CONTEXT - READ if kind == "he" else TOKENS)

    def prompt(self, ids):
        return self.model.extend(ids, self.model.start(1, capacity=READ + self.tokens))[1]

    def pieces(self):
        return self.ids[0, READ:].split(1)

    def token(self, id):
        logits, self.cache = self.model.step(id, self.cache, reuse=True)
        return logits

    def whole(self, ids):
        return self.model(ids)


class Compiled(Ours):
    """The same with a compiled step; `agree` compiles it, before anything is timed."""

    def __init__(self, kind):
        super().__init__(kind)
        self.step = CompiledStep(self.model)

    def token(self, id):
        logits, self.cache = self.step(id, self.cache)
        return logits


class Theirs(Run):
    """A model of `transformers`, which calls its cache `cache_name`."""

    def __init__(self, model, cache_name="past_key_values", empty=None):
        self.cache_name, self.empty = cache_name, empty
        super().__init__(model, TOKENS)

    def prompt(self, ids):
        given = {} if self.empty is None else {self.cache_name: self.empty}
        return self.model(ids, use_cache=True, **given)[self.cache_name]

    def pieces(self):
        return self.ids[:, READ:].split(1, 1)

    def token(self, id):
        out = self.model(id, use_cache=True, **{self.cache_name: self.cache})
        self.cache = out[self.cache_name]
        return out.logits

    def whole(self, ids):
        return self.model(ids, use_cache=False).logits


def gpt2(cache):
    import transformers

    config = transformers.GPT2Config(
        **{"n_embd": DIM, "n_layer": DEPTH, "n_head": HEADS, "n_inner": 4 * DIM, "n_positions": CONTEXT},
        **{"vocab_size": VOCAB, "bos_token_id": 1, "eos_token_id": 1},
        **{"activation_function": "gelu_pytorch_tanh", "attn_implementation": "sdpa"},
    )
    room = {"max_cache_len": READ + TOKENS} if cache == "StaticCache" else {}
    return Theirs(transformers.GPT2LMHeadModel(config), empty=getattr(transformers, cache)(config=config, **room))


def rwkv():
    import transformers

    sizes = {"hidden_size": DIM, "num_hidden_layers": DEPTH, "vocab_size": VOCAB, "context_length": CONTEXT}
    return Theirs(transformers.RwkvForCausalLM(transformers.RwkvConfig(**sizes)), "state")


def mamba():
    import transformers

    sizes = {"hidden_size": DIM, "num_hidden_layers": DEPTH, "vocab_size": VOCAB}
    config = transformers.MambaConfig(**sizes, pad_token_id=0, bos_token_id=1, eos_token_id=None)
    return Theirs(transformers.MambaForCausalLM(config), "cache_params")


def runs(builders):
    """The runs by name, checked and warm."""
    found = {}
    for name, build in builders.items():
        torch.manual_seed(0)
        found[name] = build()
        found[name].agree()
    return found


def timed(group, peer, repeats):
    """See `harness.compare`: every run begins at the same token, and is rewound off the clock."""

    def rewind():
        for run in group.values():
            run.rewind()

    return compare(group, peer, repeats, warm=0, after=rewind)


def rows(repeats=15, trial=3):
    """A row for each model and peer: milliseconds a token, and how often as long as the peer's in the same round."""
    ours = runs({kind: partial(Ours, kind) for kind in WHOLE})
    ours |= runs({compiled(kind): partial(Compiled, kind) for kind in WHOLE})
    caches = runs({f"transformers gpt2, {cache}": partial(gpt2, cache) for cache in CACHES})
    times = timed(caches, min(caches), trial)["ms_median_quartiles"]
    yield from paired({**caches, **ours}, min(times, key=lambda name: times[name][0]), repeats)
    for kind, build in {"rwkv": rwkv, "mamba": mamba}.items():
        peer = f"transformers {kind}"
        own = {name: ours[name] for name in (kind, compiled(kind))}
        yield from paired({**runs({peer: build}), **own}, peer, repeats)


def compiled(kind):
    """The name of a run with a compiled step."""
    return f"{kind}, compiled"


def paired(group, peer, repeats):
    found = timed(group, peer, repeats)
    for name, run in group.items():
        share = group[peer].tokens / run.tokens
        median, *quartiles = (float(f"{ms / run.tokens:.4g}") for ms in found["ms_median_quartiles"][name])
        ratio, *between = (float(f"{share * each:.4g}") for each in found["ratio_median_quartiles"][name])
        goal = {compiled(kind): share for kind, share in GOALS.items()}.get(name) if "gpt2" in peer else None
        yield {
            "model": name,
            "read": READ,
            "tokens": run.tokens,
            **{"batch": 1, "dim": DIM, "depth": DEPTH, "vocab": VOCAB},
            "ms_a_token_median": median,
            "ms_a_token_quartiles": quartiles,
            "peer": peer,
            "ratio_median": ratio,
            "ratio_quartiles": between,
            "goal": goal,
            "met": None if goal is None else ratio <= goal,
            "repeats": found["repeats"],
            "loaded": found["loaded"],
        }


def main() -> None:
    peers = (f"tests/mixers/test_{kind}.py" for kind in ("rwkv", "mamba"))
    gate(*peers, "tests/models/test_reading.py")
    keep_freed_memory()
    for row in rows(*(int(word) for word in sys.argv[1:2])):
        append("decoding_peers", [row])


if __name__ == "__main__":
    main()
