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
    best = solved[numbers[0]]
    evidence = [
        f"{numbers[0]} pairs: {cell.share:.1%} right, {count_runs(cell.seeds)}, {recalled.DEPTH} layers of dim {dim}"
        for (_, dim), cell in best.items()
    ]
    short_of = {
        mixer: of[numbers[0]].share
        for (mixer, dim), of in cells.items()
        if dim == max(dim for _, dim in best) and numbers[0] in of and of[numbers[0]].share < SOLVED
    }
    by_share = sorted(short_of, key=lambda mixer: -short_of[mixer])
    if by_share:
        names = [f"{model_name(mixer)} {short_of[mixer]:.1%}" for mixer in by_share]
        evidence.append(f"not solved: {join_words(names)}")
    kept = format_size(max(cell.state_bytes for cell in best.values()))
    loses = f"it keeps {kept} of these pairs (float32)"
    if len(numbers) > 1:
        widest = max(dim for _, dim in best)
        with_fewer = {model: cell for model, cell in solved[numbers[1]].items() if model not in best}
        others = {mixer: cell for (mixer, dim), cell in with_fewer.items() if dim == widest}
        by_size = sorted(others, key=lambda mixer: others[mixer].state_bytes)
        names = [f"{model_name(mixer)} {format_size(others[mixer].state_bytes)}" for mixer in by_size]
        loses += f"; for {numbers[1]} pairs less is enough: {join_words(names)}" if names else ""
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
