"""The Extractor paper's claims that are counted, computed here by the prices of the mixers at its Table 1.

    seqloom study paper table7      shows the table, and the verdicts on what the paper claims of its numbers

Source: Chen, arXiv:2308.07661, abstract and sections 6 to 8. What is misprinted is in docs/errata.md.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import final

import torch

from seqloom.analysis.formulas import INFERENCE, TRAINING
from seqloom.analysis.tables import TABLE_7, training
from seqloom.core.cost import Cost
from seqloom.mixers import mixer_config
from seqloom.training.settings import resolve
from seqloom_studies.paper import tables
from seqloom_studies.paper.studies import TABLES
from seqloom_studies.paper.verdicts import Verdict

D = L = 128
CORPUS = 8_400_000
"""tokens, as section 6 has it"""
EXTRACTORS = ("she", "he", "we", "me")


@final
@dataclass(frozen=True)
class Count:
    """A claim, its section, the function that counts it, and a command that shows the numbers."""

    text: str
    section: str
    count: Callable[[], Verdict]
    command: str

    @property
    def tables(self) -> set[str]:
        """The tables that show the numbers, as `seqloom study paper` names them."""
        return {word for word in self.command.split() if word in TABLES}


@cache
def sublayer(kind: str, heads: int = 1) -> Cost:
    """The price of one sublayer for a row of Table 1."""
    with torch.device("meta"):
        mixer = mixer_config({"kind": kind} | ({"heads": heads} if kind == "attention" else {})).build(D, L)
    return mixer.cost(L)


@cache
def whole(kind: str) -> Cost:
    """The price of the whole model of Table 1 for a row."""
    config = resolve("paper/table1", [f"model.mixer.kind={kind}"]).model
    with torch.device("meta"):
        return config.build().cost(config.context)


def more() -> Verdict:
    """SHE against 32 heads: more operations and more parameters."""
    she, peer = sublayer("she"), sublayer("attention", 32)
    ratios = f"{she.total / peer.total:.1f} times the operations, {she.params / peer.params:.1f} times the parameters"
    return verdict(she.total > peer.total and she.params > peer.params, ratios)


def he_equal() -> Verdict:
    """HE against 32 heads, as section 7 has it: fewer operations, as many parameters."""
    he, peer = sublayer("he"), sublayer("attention", 32)
    parameters = [f"{training(kind, D, 1024).params:,}" for kind in ("he", "attention")]
    note = f"equal only because l = d: at l = 1,024 {parameters[0]} parameters to {parameters[1]}"
    return verdict(he.total < peer.total and he.params == peer.params, f"{_both(he, peer)}; {note}")


def he_less() -> Verdict:
    """HE against 32 heads, as the conclusion has it: fewer operations and fewer parameters."""
    he, peer = sublayer("he"), sublayer("attention", 32)
    return verdict(he.total < peer.total and he.params < peer.params, _both(he, peer))


def we_less() -> Verdict:
    """WE against 1 head: fewer operations and fewer parameters."""
    we, peer = sublayer("we"), sublayer("attention")
    equal = next(T for T in range(1, 1 << 20) if training("we", D, T).params >= training("attention", D, T).params)
    note = f"from l = {equal} on it has as many parameters or more"
    return verdict(we.total < peer.total and we.params < peer.params, f"{_both(we, peer)}; {note}")


def me_less() -> Verdict:
    """ME against 1 head: a tenth and a 512th."""
    me, peer = sublayer("me"), sublayer("attention")
    close = math.isclose(10 * me.total, peer.total, rel_tol=0.05) and 512 * me.params == peer.params
    ratios = f"1/{peer.total / me.total:.2f} of the operations, 1/{peer.params / me.params:g} of the parameters"
    return verdict(close, ratios)


def paths() -> Verdict:
    """The critical path of a token."""
    operations = {kind: len(sublayer(kind).path) for kind in ("attention", *EXTRACTORS)}
    lengths = ", ".join(
        f"{'self-attention' if kind == 'attention' else kind.upper()} {n}" for kind, n in operations.items()
    )
    shorter = all(operations[kind] < operations["attention"] for kind in EXTRACTORS)
    return verdict(shorter, f"operations that must follow each other: {lengths}")


def evidence() -> str:
    """Why the paper's own figures do not decide its main claim."""
    times = whole("she").params / whole("attention").params
    return (
        "The paper's own figures do not decide that: they have no spread between runs, and only the loss of the text "
        f"that is trained on, after {passes()[1]:.1f} passes over it; and its SHE model has {times:.1f} times the "
        "parameters of its attention model."
    )


def alike() -> Verdict:
    """Whether whole models of equal settings are within 1% in parameters and multiplications."""
    peer = whole("attention")
    equal = [all(abs(getattr(whole(kind), q) / getattr(peer, q) - 1) <= 0.01 for q in ("params", "mul"))
            for kind in EXTRACTORS]  # fmt: skip
    ratios = ", ".join(
        f"{kind.upper()} {whole(kind).params / peer.params:.2f} and {whole(kind).mul / peer.mul:.2f}"
        for kind in EXTRACTORS
    )
    return verdict(all(equal), f"parameters and multiplications of the whole model, times those of attention: {ratios}")


def _both(cost: Cost, peer: Cost) -> str:
    return f"{cost.total:,} operations to {peer.total:,}, {cost.params:,} parameters to {peer.params:,}"


def verdict(holds: bool, measured: str) -> Verdict:
    """The verdict on a claim that is counted, so that it needs no statistics."""
    return Verdict("holds" if holds else "does not hold", "", measured, 1)


def formulas() -> Verdict:
    """Tables 3 to 6: the closed form of each entry, in both versions of the text, against the mixers' prices."""
    entries = TRAINING + INFERENCE
    misprinted = [entry for entry in entries if all((seed, "closed") in entry.misprints for seed in ("000", "003"))]
    slips = sum(len(entry.misprints) > 0 for entry in entries) - len(misprinted)
    names = ", ".join(
        f"Table {entry.table}, {tables.QUANTITIES[entry.quantity]} of {tables.NAMES[entry.sublayer]}"
        for entry in misprinted
    )
    sentence = f"{len(entries) - len(misprinted)} of {len(entries)} formulas are right; wrong in both versions: {names}"
    return verdict(not misprinted, f"{sentence}; {slips} more has a slip in one version")


def numbers() -> Verdict:
    """Table 7 against the mixers' prices."""
    computed = tables.table7()
    equal = sum(a == b for row, printed in TABLE_7.items() for a, b in zip(computed[row], printed, strict=True))
    return verdict(
        computed == TABLE_7, f"{equal} of {sum(map(len, TABLE_7.values()))} numbers are what the mixers charge"
    )


def perplexity() -> Verdict:
    """Perplexity is e^loss, where the loss is the mean of -ln p in nats."""
    loss = 4.0
    measured = (
        f"perplexity is e^loss: at a loss of {loss:g} it is {math.exp(loss):.1f}; the order of models is the same"
    )
    return verdict(math.isclose(math.exp(loss), loss), measured)


def epochs() -> Verdict:
    """60,000 batches of Table 1, in epochs."""
    starts, times = passes()
    measured = (
        f"{starts:.3f} of all positions where a window can start; windows overlap, so that is {times:.1f} passes over "
        "the tokens"
    )
    return verdict(round(starts, 3) == 0.457, measured)


def passes() -> tuple[float, float]:
    """How much Table 1 reads: in epochs of the positions where a window can start, and in passes over the tokens."""
    config = resolve("paper/table1")
    windows = config.training.batches * config.training.batch
    return windows / CORPUS, windows * config.model.context / CORPUS


COUNTS = (
    Count("Tables 3 to 6 give operations and parameters.", "section 7", formulas,
          "seqloom study paper table3 table4 table5 table6"),
    Count("Table 7 gives their values at d = l = 128.", "section 7, Table 7", numbers, "seqloom study paper table7"),
    Count("SHE takes many more operations and parameters than self-attention.", "section 7", more,
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


def about(names: Sequence[str]) -> list[str]:
    """The verdicts on what the paper claims of these tables, as lines for a terminal."""
    lines = []
    for count in COUNTS:
        if count.tables & {*names}:
            result = count.count()
            lines += [f"{result.word}: {count.text} ({count.section})", f"  {result.measured}"]
    return ["What the paper claims of these numbers", "", *lines] if lines else []
