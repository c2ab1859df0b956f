"""The advice that solved probes carry: recall of what was read once, and state tracking."""

from pathlib import Path

from docs.making.advice import UNCLEAR, Advice, count_runs, join_words
from seqloom.core.table import format_size
from seqloom_studies.recall import recalled, tracked
from seqloom_studies.recall.tracked import model_name

SOLVED = recalled.SOLVED
"""the share of right answers, a mean over the runs, from which on a probe is solved"""
TRACKED = {"parity": "the parity of all bits so far", "swaps": "the order of five things after swaps"}


def recall(results: Path) -> Advice | None:
    """The models that solve the recall of the most pairs; None without rows."""
    cells = recalled.best_cells(results)
    if not cells:
        return None
    need = "recall of what was read once"
    solved = {
        pairs: {model: of[pairs] for model, of in cells.items() if pairs in of and of[pairs].share >= SOLVED}
        for pairs in sorted({pairs for of in cells.values() for pairs in of}, reverse=True)
    }
    numbers = [pairs for pairs, models in solved.items() if models]
    if not numbers:
        return Advice(need, UNCLEAR, "no model solves the probe")
    most, *fewer = numbers
    best = solved[most]
    widest = max(dim for _, dim in best)
    of_width = {mixer: of for (mixer, dim), of in cells.items() if dim == widest}
    evidence = [
        f"{most} pairs: {cell.share:.1%} right, {count_runs(cell.seeds)}, {recalled.DEPTH} layers of dim {dim}"
        for (_, dim), cell in best.items()
    ]
    missed = {mixer: of[most].share for mixer, of in of_width.items() if most in of and of[most].share < SOLVED}
    if missed:
        by_share = sorted(missed, key=lambda mixer: -missed[mixer])
        evidence.append(f"not solved: {join_words([f'{model_name(mixer)} {missed[mixer]:.1%}' for mixer in by_share])}")
    loses = f"it keeps {format_size(max(cell.state_bytes for cell in best.values()))} of these pairs (float32)"
    others = {model: cell for model, cell in solved[fewer[0]].items() if model not in best} if fewer else {}
    sizes = {mixer: cell.state_bytes for (mixer, dim), cell in others.items() if dim == widest}
    if sizes:
        by_size = sorted(sizes, key=lambda mixer: sizes[mixer])
        names = join_words([f"{model_name(mixer)} {format_size(sizes[mixer])}" for mixer in by_size])
        loses += f"; for {fewer[0]} pairs less is enough: {names}"
    take = join_words([model_name(mixer) for mixer in dict.fromkeys(mixer for mixer, _ in best)], "or")
    return Advice(need, take, "; ".join(evidence), loses)


def tracking(results: Path) -> Advice | None:
    """The mixer that solves the most probes of state tracking, of several that with the most right answers."""
    mixers = tracked.tracked_mixers(results)
    if not mixers:
        return None
    need = "state tracking"
    best = max(mixers, key=lambda mixer: sum(answers.share >= SOLVED for answers in mixers[mixer].values()))
    answers = mixers[best]
    if not any(tracked_probe.share >= SOLVED for tracked_probe in answers.values()):
        return Advice(need, UNCLEAR, "no model solves a probe beyond the trained length")
    evidence = [
        f"{words}: {answers[probe].text} right, {count_runs(len(answers[probe].shares))}, "
        f"{'solved' if answers[probe].share >= SOLVED else 'not solved'}"
        for probe, words in TRACKED.items()
        if probe in answers
    ]
    ahead = []
    for probe, words in TRACKED.items():
        others = {mixer: of[probe] for mixer, of in mixers.items() if probe in of}
        first = max(others, key=lambda mixer: others[mixer].share)
        if probe in answers and others[first].share > answers[probe].share:
            runs = count_runs(len(others[first].shares))
            ahead.append(f"{words}: {model_name(first)} has {others[first].text} right, {runs}")
    return Advice(need, model_name(best), "; ".join(evidence), "; ".join(ahead))
