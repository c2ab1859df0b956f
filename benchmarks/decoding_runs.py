"""Whole models that read one cached token after others at batch 1: ours, and GPT-2, RWKV-4, Mamba of `transformers`.

All models of a `Sizes` have the same sizes; the ids that they read are drawn before timing, so that sampling is not
timed. Attention and other mixers are in the paper's Transformer, with learned positions as in GPT-2; RWKV-4 and Mamba
are whole models, as their authors build them. `he` computes blocks of its sums ahead, from time to time a long one: its
run reads to the end of the context, so that every block is included. No run copies its cache while it is timed.

GPT-2 runs in the fastest configuration that we know: SDPA, and the activation as one operation (`gelu_pytorch_tanh`,
the same function as its default `gelu_new`).
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

import seqloom
from seqloom.generation.compiled import CompiledStep
from seqloom.mixers import kinds

TOLERANCE = 1e-5
"""largest difference of a logit between cached and whole reading, as a share of the largest logit"""
WHOLE = {
    "rwkv": {"channel": "channel_mix", "embed_norm": True, "position": "none"},
    "mamba": {"channel": "none", "norm": "rms", "position": "none"},
}
"""what makes a mixer its authors' whole model"""


@dataclass(frozen=True)
class Sizes:
    """Of all models that are compared; `read` tokens are in a cache, and a run reads `tokens` more."""

    dim: int = 128
    read: int = 2048
    context: int = 4096
    tokens: int = 64
    depth: int = 4
    heads: int = 4
    vocab: int = 2000


class Run:
    """Called, it reads `tokens` ids one by one from a cache that holds `sizes.read`; returns the last logits (W,)."""

    def __init__(self, model, sizes, tokens):
        self.model, self.tokens = loud(model, sizes.dim).eval(), tokens
        self.sizes = sizes
        shape = (1, sizes.read + tokens)
        self.ids = torch.randint(2, sizes.vocab, shape, generator=torch.Generator().manual_seed(0))
        with torch.inference_mode():
            self.full = self.prompt(self.ids[:, : sizes.read])
        self.moved = True
        self.rewind()

    def rewind(self):
        """The cache is again as it was after the first tokens."""
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


def loud(model, dim):
    """The model with matrices that keep variance: under a fresh model's small ones a wrong cache would not show."""
    for part in model.modules():
        if type(part).__name__ in ("Linear", "Conv1D", "Embedding"):
            torch.nn.init.normal_(part.weight, std=dim**-0.5)
    return model


def settings_of(kind, sizes):
    """The settings with which a mixer is in a whole model: its authors', else the first with which it is tested."""
    if kind == "attention":
        return {"heads": sizes.heads}
    if kind in WHOLE:
        return WHOLE[kind]
    config = kinds()[kind]
    needs_settings = any(field.is_required() for field in config.model_fields.values())
    return config.examples[0] if needs_settings else {}


class Ours(Run):
    """A decoder of seqloom, by its mixer."""

    def __init__(self, kind, sizes):
        shape = {"vocab": sizes.vocab, "dim": sizes.dim, "depth": sizes.depth, "context": sizes.context}
        model = seqloom.decoder(kind, **shape, dropout=0.0, **settings_of(kind, sizes))
        super().__init__(model, sizes, sizes.context - sizes.read if kind == "he" else sizes.tokens)

    def prompt(self, ids):
        return self.model.extend(ids, self.model.start(1, capacity=self.sizes.read + self.tokens))[1]

    def pieces(self):
        return self.ids[0, self.sizes.read :].split(1)

    def token(self, id):
        logits, self.cache = self.model.step(id, self.cache, reuse=True)
        return logits

    def whole(self, ids):
        return self.model(ids)


class Compiled(Ours):
    """The same with a compiled step; `agree` compiles it, before anything is timed."""

    def __init__(self, kind, sizes):
        super().__init__(kind, sizes)
        self.step = CompiledStep(self.model)

    def token(self, id):
        logits, self.cache = self.step(id, self.cache)
        return logits


class Theirs(Run):
    """A model of `transformers`, which calls its cache `cache_name`."""

    def __init__(self, model, sizes, cache_name="past_key_values", empty=None):
        self.cache_name, self.empty = cache_name, empty
        super().__init__(model, sizes, sizes.tokens)

    def prompt(self, ids):
        given = {} if self.empty is None else {self.cache_name: self.empty}
        return self.model(ids, use_cache=True, **given)[self.cache_name]

    def pieces(self):
        return self.ids[:, self.sizes.read :].split(1, 1)

    def token(self, id):
        out = self.model(id, use_cache=True, **{self.cache_name: self.cache})
        self.cache = out[self.cache_name]
        return out.logits

    def whole(self, ids):
        return self.model(ids, use_cache=False).logits


def gpt2(cache, sizes):
    """With a cache of this class."""
    import transformers

    config = transformers.GPT2Config(
        **{"n_embd": sizes.dim, "n_layer": sizes.depth, "n_head": sizes.heads, "n_inner": 4 * sizes.dim},
        **{"n_positions": sizes.context, "vocab_size": sizes.vocab, "bos_token_id": 1, "eos_token_id": 1},
        **{"activation_function": "gelu_pytorch_tanh", "attn_implementation": "sdpa"},
    )
    room = {"max_cache_len": sizes.read + sizes.tokens} if cache == "StaticCache" else {}
    empty = getattr(transformers, cache)(config=config, **room)
    return Theirs(transformers.GPT2LMHeadModel(config), sizes, empty=empty)


def rwkv(sizes):
    """RWKV-4."""
    import transformers

    shape = {"hidden_size": sizes.dim, "num_hidden_layers": sizes.depth, "vocab_size": sizes.vocab}
    config = transformers.RwkvConfig(**shape, context_length=sizes.context)
    return Theirs(transformers.RwkvForCausalLM(config), sizes, "state")


def mamba(sizes):
    """Mamba, which runs in torch on a CPU."""
    import transformers

    shape = {"hidden_size": sizes.dim, "num_hidden_layers": sizes.depth, "vocab_size": sizes.vocab}
    config = transformers.MambaConfig(**shape, pad_token_id=0, bos_token_id=1, eos_token_id=None)
    return Theirs(transformers.MambaForCausalLM(config), sizes, "cache_params")


def build_runs(builders: Mapping[str, Callable[[Sizes], Run]], sizes):
    """The runs by name, checked and warm."""
    found = {}
    for name, build in builders.items():
        torch.manual_seed(0)
        found[name] = build(sizes)
        found[name].agree()
    return found
