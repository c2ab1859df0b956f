"""The advice that decisions of the comparison carry: quality at equal size, memory, long texts.

The decisions are those against attention that were fixed before the runs, with Holm's correction over all of them
(core/verdict.py). In long windows the same models and the same test are used.
"""

from docs.making.advice import UNCLEAR, Advice, join_words
from seqloom.core.table import format_size
from seqloom.core.verdict import Verdict, verdicts
from seqloom_studies.board.short import CONTEXT, LONG, Short
from seqloom_studies.board.standing import Standing


def quality(six: Short) -> Advice:
    """The model that needs the fewest bits of those that need significantly fewer than attention."""
    need = "quality at equal size"
    better = {model: verdict for model, verdict in six.verdict_by_model.items() if is_lower(verdict)}
    if not better:
        return Advice(need, UNCLEAR, "no model needs significantly fewer bits per byte than attention")
    best = min(better, key=lambda model: better[model].difference.estimate.mean)
    mean = six.standing(best).estimate.mean
    lower = [
        f"{six.prose(name)} {standing.estimate.mean:.3f} ({standing.estimate.seeds} runs)"
        for name, standing in six.books.standings.items()
        if standing.estimate.mean < mean
    ]
    others = f"lower, but not tested: {join_words(lower)}, where it has {mean:.3f}" if lower else ""
    return Advice(need, six.prose(best), against_attention(better[best]), others)


def memory(six: Short) -> Advice:
    """The model with the smallest state of those that need significantly fewer bits than attention."""
    need = "memory"
    better = {model: verdict for model, verdict in six.verdict_by_model.items() if is_lower(verdict)}
    attention = _state(six.standing(six.protocol.models[0]))
    sizes = {model: size for model in better if (size := _state(six.standing(model))) < attention}
    if not sizes:
        return Advice(need, UNCLEAR, "no model with less memory needs significantly fewer bits per byte than attention")
    best = min(sizes, key=lambda model: sizes[model])
    smaller = [
        f"{six.prose(name)} {format_size(_state(standing))}"
        for name, standing in six.books.standings.items()
        if 0 < _state(standing) < sizes[best]
    ]
    evidence = (
        f"{format_size(sizes[best])} of a text of {CONTEXT} tokens where attention keeps {format_size(attention)} "
        f"(float32); {against_attention(better[best])}"
    )
    others = f"smaller, but not tested: {join_words(smaller)}" if smaller else ""
    return Advice(need, six.prose(best), evidence, others)


def long_texts(six: Short) -> Advice:
    """The model of a decision that needs the fewest bits in long windows, if significantly fewer than attention."""
    need = "long texts"
    better = {model: verdict for model, verdict in _on_long_windows(six).items() if is_lower(verdict)}
    if not better:
        return Advice(need, UNCLEAR, f"no model needs significantly fewer bits per byte in windows of {LONG:,} tokens")
    best = min(better, key=lambda model: better[model].difference.estimate.mean)
    evidence = (
        f"{against_attention(better[best])}, in windows of {LONG:,} tokens after training on {CONTEXT} (attention uses "
        f"its last {CONTEXT}); the decisions are of windows of {CONTEXT}, and this is their test, made afterwards"
    )
    return Advice(need, six.prose(best), evidence, f"these books do not test long memory: {six.long_memory}")


def best_supported(six: Short) -> Advice:
    """Attention, by what libraries have: the line without rows."""
    size = format_size(_state(six.standing(six.protocol.models[0])))
    return Advice(
        "the oldest and best supported",
        "attention",
        "not measured: in use since 2017, with kernels in torch, in most [pretrained models that open here](hf.md)",
        f"its memory grows with the text: {size} of {CONTEXT} tokens (float32)",
    )


def is_lower(verdict: Verdict) -> bool:
    """Whether the first model needs significantly fewer bits."""
    return verdict.is_significant and verdict.difference.estimate.mean < 0


def is_higher(verdict: Verdict) -> bool:
    """Whether the first model needs significantly more bits."""
    return verdict.is_significant and verdict.difference.estimate.mean > 0


def against_attention(verdict: Verdict) -> str:
    """The difference to attention, its runs and the verdict."""
    return amount(verdict, " against attention")


def amount(verdict: Verdict, against: str = "") -> str:
    """A difference with its runs and the verdict."""
    estimate = verdict.difference.estimate
    return f"{estimate.signed_text} bits per byte{against}, {estimate.seeds} runs, {verdict.words}"


def _on_long_windows(six: Short) -> dict[str, Verdict]:
    """The verdicts of the same questions on bits per byte in long windows."""
    lineup = six.books.lineup
    runs = {
        name: {seed: bits for seed, row in standing.rows.items() if (bits := row.bits_per_byte_long) is not None}
        for name, standing in six.books.standings.items()
    }
    pairs = {str(number): (question.first, question.second) for number, question in enumerate(lineup.questions)}
    found = verdicts(runs, pairs, margin=lineup.margin, share=lineup.share)
    decided = six.verdict_by_model
    return {
        first: found[number]
        for number, (first, second) in pairs.items()
        if second == lineup.host and first in decided and number in found
    }


def _state(standing: Standing) -> int:
    return standing.first.state_bytes[str(CONTEXT)]
