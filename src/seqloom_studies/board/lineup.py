"""The comparison's texts, models, rates and decisions, fixed before anything was trained (PROTOCOL.md says why).

    FORMS         forms of attention; the validation text chooses one of them, which is the baseline
    DECIDED       models of decisions: ten folds
    EXPLORATORY   further models: three folds, no decision
    DECISIONS     pairs that are tested together, with Holm's correction

This module needs no torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import final

from seqloom.studies.candidate import Candidate

RECIPE = "board/small"
FOLDS = 10
"""groups of authors, each the test text of one result run of a model"""
FEW_FOLDS = 3
"""folds of the models that are in no decision"""
FIRST_SEED = 10
"""the result run on fold k has seed 10 + k; seed 0 chooses forms and rates and is no result"""
RATES = (1e-3, 2e-3, 4e-3, 8e-3)
"""learning rates of every model"""
FURTHER = 2
"""the most rates that are added, by factors of 2, where the best is the first or the last"""
MIDDLE = 2e-3
"""the rate at which the form of attention is chosen"""
CHOOSING = 600
"""batches of a run that chooses a form or a rate"""
CONTROLLED = ("attention", "gated_delta")
"""models whose rate is chosen a second time with the batches of a result, to test whether CHOOSING suffices"""
SLOPE = ("attention", "gated_delta", "he")
SLOPE_BATCHES = (320, 5000)
"""batches before and beyond those of a result: 1.3 and 20.5 million tokens"""
MARGIN = 0.01
"""bits per byte: smaller differences do not matter here"""
SHARE = 1 / (FOLDS - 1)
"""tested texts per training text"""


@final
@dataclass(frozen=True)
class Text:
    """A text that all models are trained on."""

    name: str
    changes: tuple[str, ...]
    """its changes of the recipe"""


TEXTS = {
    "books": Text("books", ()),  # the recipe is that of the books: 7 authors validate
    "code": Text("code", ("data.unwrap=false", "data.held_out=0.14")),  # so that 10 projects validate
}
BASELINE, PLAIN, WINDOW = "attention", "llama", "attention-window"
LLAMA = "{kind: attention, heads: 4, kv_heads: 2, bias: none}"
"""attention as in the recipe"""


def _form(heads: int, qk_norm: bool, kernel: int) -> Candidate:
    norm, convolution = "heads" if qk_norm else "none", "-convolution" if kernel > 1 else ""
    settings = f"heads: {heads}, kv_heads: {heads // 2}, bias: none, qk_norm: {norm}, kernel: {kernel}"
    name = f"attention-{heads}{'-norm' if qk_norm else ''}{convolution}"
    return Candidate(name, (f"model.mixer={{kind: attention, {settings}}}",))


FORMS = tuple(_form(heads, norm, kernel) for heads, norm, kernel in product((2, 4, 8), (False, True), (1, 4)))
DEFAULT_FORM = _form(4, False, 1)
"""what the baseline is in a plan while none is chosen"""


def _mixer(form: Candidate) -> str:
    """The mixer of a form, as `{kind: attention, …}`."""
    return form.changes[0].partition("=")[2]


def _kind(kind: str) -> Candidate:
    return Candidate(kind, (f"model.mixer.kind={kind}",))


def decision_models(form: Candidate) -> tuple[Candidate, ...]:
    """The models of decisions, where the baseline has this form."""
    attention = _mixer(form)

    def three_to_one(kind: str) -> Candidate:
        mixers = ", ".join([f"{{kind: {kind}}}"] * 3)
        return Candidate(f"{kind}-3-1", (f"model.mixer=[{mixers}, {attention}]",))

    return (
        Candidate(BASELINE, form.changes),
        Candidate(PLAIN, (f"model.mixer={LLAMA}",)),
        Candidate(WINDOW, (f"model.mixer={attention.removesuffix('}')}, window: 64}}",)),
        _kind("gated_delta"),
        _kind("he"),
        three_to_one("gated_delta"),
        three_to_one("he"),
    )


DECIDED = tuple(contender.name for contender in decision_models(DEFAULT_FORM))
EXPLORATORY = tuple(_kind(kind) for kind in ("mamba2", "rwkv7", "kda", "mlstm", "gla", "gru", "we", "identity"))


@final
@dataclass(frozen=True)
class Decision:
    """A question about two models: the difference of their bits per byte on the test folds, first minus second."""

    question: str
    first: str
    second: str


DECISIONS = (
    Decision("gated_delta in place of attention?", "gated_delta", BASELINE),
    Decision("the HE Extractor in place of attention?", "he", BASELINE),
    Decision("gated_delta in three of four layers?", "gated_delta-3-1", BASELINE),
    Decision("the HE Extractor in three of four layers?", "he-3-1", BASELINE),
    Decision("attention to the last 64 tokens in place of all?", WINDOW, BASELINE),
)
TITLES = {
    BASELINE: "attention",
    PLAIN: "Llama attention",
    WINDOW: "attention, last 64 tokens",
    "he": "HE",
    "he-3-1": "HE 3 : attention 1",
    "gated_delta-3-1": "gated_delta 3 : attention 1",
    "we": "WE",
}
"""titles of the models whose title is not their kind"""


def title(name: str) -> str:
    """A model's name in tables."""
    return TITLES.get(name, name)


def folds(name: str) -> int:
    """The number of folds that a model is tested on."""
    return FOLDS if name in DECIDED else FEW_FOLDS


def seed(fold: int) -> int:
    """The seed of the weights and the order of the batches of the result run on a fold."""
    return FIRST_SEED + fold


def rates_to_try(tried: Sequence[float], best: float) -> list[float]:
    """The rate that is tried next: none where the best is neither first nor last, or two were added at its end."""
    ordered = sorted(tried)
    if best == ordered[0] and RATES[0] / ordered[0] < 2**FURTHER:
        return [best / 2]
    if best == ordered[-1] and ordered[-1] / RATES[-1] < 2**FURTHER:
        return [best * 2]
    return []
