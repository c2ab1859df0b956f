"""Recipes: functions that return the settings of a run, each number with its reason or its source.

Source: the Extractor paper's Table 1 and section 6; the paper's 32-head attention unless another mixer is set.
"""

from collections.abc import Callable
from typing import Any

from seqloom.core.config import near

Values = dict[str, Any]


def table1() -> Values:
    """The paper's Table 1: depth 18, context 128, 60,000 batches."""
    return {
        "model": {
            "dim": 128,
            "depth": 18,
            "context": 128,
            "ffn": 512,
            "dropout": 0.1,
            "mixer": {"kind": "attention", "heads": 32},
        },
        "data": {"source": "gutenberg-children", "vocab": 5000},
        "training": {"batches": 60000, "batch": 64, "lr": 1e-3, "evaluate_every": 2000},
    }


def small() -> Values:
    """The paper's Figures 10 and 11 where they meet: depth 2, context 32, 30,000 batches."""
    values = table1()
    values["model"] |= {"depth": 2, "context": 32}
    values["training"] |= {"batches": 30000}
    return values


def demo() -> Values:
    """Stories from a known grammar, learned in under a minute on two CPU cores: what `make demo` trains.

    Few batches must do, so the learning rate is three times the paper's and dropout is left out; neither is tuned.
    """
    return {
        "model": {
            "dim": 64,
            "depth": 2,
            "context": 64,
            "ffn": 256,
            "dropout": 0.0,
            "mixer": {"kind": "attention", "heads": 32},
        },
        "data": {"source": "stories:12000:0", "vocab": 512, "held_out": 0.02},
        "training": {"batches": 1800, "batch": 32, "lr": 3e-3, "save_every": 600},
    }


def tiny() -> Values:
    """Everything at its smallest, to try a setting or to test: a few seconds."""
    return {
        "model": {"dim": 32, "depth": 1, "context": 16, "ffn": 64, "mixer": {"kind": "she"}},
        "data": {"source": "stories:200:0", "vocab": 300},
        "training": {"batches": 20, "batch": 4, "save_every": 10},
    }


def spade() -> Values:
    """SPADE (Zuo et al., arXiv:2212.08136) scaled down: S4 beside local attention at the bottom, local attention above.

    The paper's windows are of 512 tokens in texts of 3,072; these keep that share. A model of another
    depth is given its own list of mixers, as a shorter one would be repeated.
    """
    local = {"kind": "attention", "heads": 4, "window": 32}
    bottom = {"kind": "spade", "far": {"kind": "s4"}, "near": dict(local)}
    values = table1()
    values["model"] |= {"depth": 4, "context": 192, "mixer": [bottom, *(dict(local) for _ in range(3))]}
    values["training"] |= {"batches": 30000, "batch": 16}
    return values


def encoder() -> Values:
    """BERT's objective (Devlin et al., arXiv:1810.04805) at the depth of paper/small, on windows of 128 tokens.

    From BERT: masked tokens, initial weights N(0, 0.02²), a warm-up and then a line down to 0. The sizes are ours.
    """
    values = small()
    values["model"] |= {"kind": "encoder", "context": 128, "std": 0.02, "mixer": {"kind": "attention", "heads": 4}}
    schedule = {"kind": "linear", "warmup": 1000}
    values["training"] |= {"objective": {"kind": "masked_token"}, "schedule": schedule}
    return values


RECIPES: dict[str, Callable[[], Values]] = {
    "paper/table1": table1,
    "paper/small": small,
    "paper/spade": spade,
    "encoder/small": encoder,
    "demo": demo,
    "tiny": tiny,
}


def recipe(name: str) -> Values:
    """The settings of a recipe, free to be changed. ValueError for an unknown one, with what was near."""
    if name not in RECIPES:
        raise ValueError(f"unknown preset {name!r}, and no .yaml file; {near(name, RECIPES)}")
    return RECIPES[name]()
