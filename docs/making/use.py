"""When to use a mixer and when not, from its traits, the comparison at equal parameters, and the trained probes.

Good for: what its state allows, and each probe that a model of the mixer solves. Not for: what its traits exclude, and
each probe in which none of its models is halfway between guessing and all right.
"""

from docs.making.by_probes import SOLVED, TRACKED
from docs.making.results import RESULTS
from seqloom.core.mixer import Traits
from seqloom_studies.board import section
from seqloom_studies.recall import recalled, tracked
from seqloom_studies.recall.tracked import model_name

HALF = 0.5
"""the part of the way from guessing to all answers right, below which a probe is listed as what the mixer is not for"""
FOR = {
    "constant": "generation of any length: its state has a constant size",
    "window": "a fixed window: its state holds at most its context",
    "grows": "tasks that need every earlier token: its state holds all of them",
}
AGAINST = {
    "window": "dependencies longer than its context",
    "grows": "texts of unbounded length: its state and the time of a token grow with the text",
    "none": "generation token by token: it has no state",
}


def use(kind: str, traits: Traits) -> dict[str, object]:
    """The uses that a mixer is good for, those that it is not for, and where it was measured."""
    recalls, misses = _recall(kind)
    tracks, loses = _tracking(kind)
    by_traits = [FOR[traits.state]] if traits.state in FOR else []
    probed = bool(recalls or misses or tracks or loses)
    return {
        "good": [*by_traits, *recalls, *tracks],
        "bad": [*_limits(traits), *misses, *loses],
        "measured": _measured(kind, probed=probed),
    }


def _recall(kind: str) -> tuple[list[str], list[str]]:
    """The most pairs that a model of the mixer recalls, and the fewest that none of its models does."""
    best: dict[int, tuple[float, str]] = {}
    for (mixer, dim), cells in recalled.best_cells(RESULTS).items():
        if _kind(mixer) == kind:
            for pairs, cell in cells.items():
                model = f"{cell.share:.1%} right as {model_name(mixer)} of dim {dim}"
                best[pairs] = max(best.get(pairs, (0.0, "")), (cell.share, model))
    solved = [pairs for pairs, (share, _) in best.items() if share >= SOLVED]
    missed = [pairs for pairs, (share, _) in best.items() if share < HALF]
    good = [f"recall of {max(solved)} pairs that were seen once ({best[max(solved)][1]})"] if solved else []
    bad = [f"recall of {min(missed)} pairs that were seen once ({best[min(missed)][1]})"] if missed else []
    return good, bad


def _tracking(kind: str) -> tuple[list[str], list[str]]:
    """The probes of state tracking that a model of the mixer solves, and those that none of its models does."""
    good, bad = [], []
    models = {mixer: of for mixer, of in tracked.tracked_mixers(RESULTS).items() if _kind(mixer) == kind}
    for probe, words in TRACKED.items():
        answers = {mixer: of[probe] for mixer, of in models.items() if probe in of}
        if not answers:
            continue
        best = max(answers, key=lambda mixer: answers[mixer].share)
        line = f"{words} ({answers[best].text} right as {model_name(best)}, beyond the trained length)"
        if answers[best].share >= SOLVED:
            good.append(line)
        elif answers[best].share < answers[best].chance + HALF * (1 - answers[best].chance):
            bad.append(line)
    return good, bad


def _kind(mixer: str) -> str:
    return mixer.partition("-")[0]


def _measured(kind: str, *, probed: bool) -> str:
    """Where it was measured: its result in the comparison, and the probes."""
    result = section.result(kind, RESULTS)
    sentences = [f"In [the comparison](../results.md#the-comparison) at equal parameters: {result}."] if result else []
    if probed:
        sentences.append(
            "Recall and state tracking are of small models that were trained on that task alone "
            "([results](../results.md#how-many-pairs-are-recalled))."
        )
    if sentences:
        return " ".join(sentences)
    command = f"seqloom compare attention:heads=4 {kind} --data books/ --out runs/compare"
    return f"The comparison at equal parameters does not have it: `{command}`."


def _limits(traits: Traits) -> list[str]:
    """Uses that its traits exclude."""
    limits = ["generation: it reads whole sequences"] if traits.causal == "never" else []
    if traits.longest is not None:
        limits.append("texts longer than its context")
    if traits.state in AGAINST and (traits.causal != "never" or traits.state != "none"):
        limits.append(AGAINST[traits.state])
    return limits
