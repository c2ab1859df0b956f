"""The Extractor paper's claims that are counted: computed here by the prices of the mixers, at the paper's Table 1.

Source: Chen, arXiv:2308.07661, abstract and sections 6 to 8. What is misprinted is in docs/errata.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import final

import torch

from docs.making.paper.printed import epochs, formulas, numbers, passes, perplexity, verdict
from docs.making.paper.verdicts import Verdict
from seqloom.analysis.tables import training
from seqloom.core.cost import Cost
from seqloom.mixers import mixer_config
from seqloom.training.settings import resolve

D = L = 128
EXTRACTORS = ("she", "he", "we", "me")


@final
@dataclass(frozen=True)
class Count:
    """What is claimed, where, how it is counted, and a command that shows it."""

    says: str
    place: str
    count: Callable[[], Verdict]
    command: str


@cache
def sublayer(kind: str, heads: int = 1) -> Cost:
    """The price of a row at Table 1."""
    with torch.device("meta"):
        mixer = mixer_config({"kind": kind} | ({"heads": heads} if kind == "attention" else {})).build(D, L)
    return mixer.cost(L)


@cache
def whole(kind: str) -> Cost:
    """The price of a row by a whole model of Table 1."""
    config = resolve("paper/table1", [f"model.mixer.kind={kind}"]).model
    with torch.device("meta"):
        return config.build().cost(config.context)


def dearer() -> Verdict:
    """SHE beside 32 heads."""
    she, peer = sublayer("she"), sublayer("attention", 32)
    said = f"{she.total / peer.total:.1f} times the operations, {she.params / peer.params:.1f} times the parameters"
    return verdict(she.total > peer.total and she.params > peer.params, said)


def he_equal() -> Verdict:
    """HE beside 32 heads, as section 7 has it."""
    he, peer = sublayer("he"), sublayer("attention", 32)
    far = [f"{training(kind, D, 1024).params:,}" for kind in ("he", "attention")]
    said = f"{_beside(he, peer)}; equal only because l = d: at l = 1,024 {far[0]} parameters to {far[1]}"
    return verdict(he.total < peer.total and he.params == peer.params, said)


def he_less() -> Verdict:
    """HE beside 32 heads, as the conclusion has it."""
    he, peer = sublayer("he"), sublayer("attention", 32)
    return verdict(he.total < peer.total and he.params < peer.params, _beside(he, peer))


def we_less() -> Verdict:
    """WE beside 1 head."""
    we, peer = sublayer("we"), sublayer("attention")
    even = next(T for T in range(1, 1 << 20) if training("we", D, T).params >= training("attention", D, T).params)
    said = f"{_beside(we, peer)}; from l = {even} on it has as many parameters or more"
    return verdict(we.total < peer.total and we.params < peer.params, said)


def me_less() -> Verdict:
    """ME beside 1 head: a tenth and a 512th."""
    me, peer = sublayer("me"), sublayer("attention")
    near = math.isclose(10 * me.total, peer.total, rel_tol=0.05) and 512 * me.params == peer.params
    said = f"1/{peer.total / me.total:.2f} of the operations, 1/{peer.params / me.params:g} of the parameters"
    return verdict(near, said)


def paths() -> Verdict:
    """The critical path of a token."""
    found = {kind: len(sublayer(kind).path) for kind in ("attention", *EXTRACTORS)}
    said = ", ".join(f"{'self-attention' if kind == 'attention' else kind.upper()} {n}" for kind, n in found.items())
    shorter = all(found[kind] < found["attention"] for kind in EXTRACTORS)
    return verdict(shorter, f"operations that must follow each other: {said}")


def evidence() -> str:
    """Why the paper's own figures do not settle its headline."""
    times = whole("she").params / whole("attention").params
    return (
        "The paper's own figures do not settle that: they have no spread between runs, and only the loss of the text "
        f"that is trained on, after {passes()[1]:.1f} passes over it; and its SHE model has {times:.1f} times the "
        "parameters of its attention model."
    )


def alike() -> Verdict:
    """Whole models of equal settings: within 1% in parameters and multiplications?"""
    peer = whole("attention")
    even = [all(abs(getattr(whole(kind), q) / getattr(peer, q) - 1) <= 0.01 for q in ("params", "mul"))
            for kind in EXTRACTORS]  # fmt: skip
    each = ", ".join(
        f"{kind.upper()} {whole(kind).params / peer.params:.2f} and {whole(kind).mul / peer.mul:.2f}"
        for kind in EXTRACTORS
    )
    return verdict(all(even), f"parameters and multiplications of the whole model, times those of attention: {each}")


def _beside(own: Cost, peer: Cost) -> str:
    return f"{own.total:,} operations to {peer.total:,}, {own.params:,} parameters to {peer.params:,}"


COUNTS = (
    Count("Tables 3 to 6 give operations and parameters.", "section 7", formulas,
          "seqloom study paper table3 table4 table5 table6"),
    Count("Table 7 gives their values at d = l = 128.", "section 7, Table 7", numbers, "seqloom study paper table7"),
    Count("SHE takes many more operations and parameters than self-attention.", "section 7", dearer,
          "seqloom study paper table7"),
    Count("HE takes fewer operations than 32 heads, and as many parameters.", "section 7", he_equal,
          "seqloom study paper table7"),
    Count("HE takes fewer operations and fewer parameters than 32 heads.", "section 8", he_less,
          "seqloom study paper table7"),
    Count("WE takes fewer operations and parameters than 1 head.", "sections 7, 8", we_less,
          "seqloom study paper table7"),
    Count("ME takes about 1/10 of the operations and 1/512 of the parameters of 1 head.", "section 7", me_less,
          "seqloom study paper table7"),
    Count("The critical paths of the Extractors are much shorter.", "abstract; section 7", paths,
          "seqloom cost she --dim 128 --context 128"),
    Count("Training loss equals perplexity.", "section 6", perplexity, "seqloom evaluate RUN"),
    Count("60,000 batches are 0.457 epochs.", "Table 1", epochs, "pytest tests/analysis/test_errata.py"),
    Count("Equal settings make a fair comparison (here: models equal within 1%).", "section 6", alike,
          "seqloom cost paper/table1 --set model.mixer.kind=she"),
)  # fmt: skip
