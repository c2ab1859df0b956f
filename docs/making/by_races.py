"""The advice that raced times carry: the shortest training step, on a CPU and on a GPU.

A step is the shortest where the upper quartile of its times is below the lower quartiles of all others in the race.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from docs.making.advice import UNCLEAR, Advice
from docs.making.by_decisions import against_attention, amount, is_higher, is_lower
from seqloom.report.stored import read_rows
from seqloom.training.settings import resolve
from seqloom_studies.board import lineup
from seqloom_studies.board.short import CONTEXT, Short

STEPS = "board_gpu_steps.jsonl"
GPU_NAMES = {"attention": "attention", "he": "the HE Extractor", "gated_delta": "`gated_delta`"}
OVERLAP = "the quartiles of the shortest steps overlap"
Times: TypeAlias = Mapping[str, tuple[float, float, float]]
"""median, lower and upper quartile of a step in milliseconds, by model"""


def step_on_cpu(six: Short) -> Advice | None:
    """The shortest step of attention and of the models that no decision found worse; None where nothing was raced."""
    decided = six.verdict_by_model
    names = {six.protocol.models[0], *(name for name, verdict in decided.items() if not is_higher(verdict))}
    times = {
        row.contender: (1e3 * row.step, 1e3 * row.step_quartiles[0], 1e3 * row.step_quartiles[1])
        for row in six.times
        if row.contender in names and row.step is not None and row.step_quartiles is not None
    }
    if not times:
        return None
    need = "the shortest training step on a CPU"
    best = shortest(times)
    if best is None:
        return Advice(need, UNCLEAR, OVERLAP)
    batch = resolve(lineup.RECIPE, []).training.batch
    machine = next(row.machine for row in six.times if row.contender == best and row.step is not None)
    race = _race({six.prose(name): times[name] for name in times}, six.prose(best))
    evidence = [f"{race}; one race, batch {batch} of {CONTEXT} tokens, float32, {machine}"]
    if best in decided:
        evidence.append(against_attention(decided[best]))
    loses = [*_fewer_bits(six, best), *_as_short(six, times[best], names)]
    return Advice(need, six.prose(best), "; ".join(evidence), "; ".join(loses))


def step_on_gpu(results: Path) -> Advice | None:
    """The shortest step of the newest race on a GPU; None where nothing was raced."""
    races = read_rows(results / STEPS)
    if not races:
        return None
    race = races[-1]
    times = {GPU_NAMES.get(name, f"`{name}`"): tuple(of) for name, of in race["ms_median_quartiles"].items()}
    need = "the shortest training step on a GPU"
    best = shortest(times)
    if best is None:
        return Advice(need, UNCLEAR, OVERLAP)
    sizes = dict(change.split("=") for change in race["sizes"])
    evidence = (
        f"{_race(times, best)}; one race, dim {sizes['model.dim']}, depth {sizes['model.depth']}, batch "
        f"{sizes['training.batch']} of {int(sizes['model.context']):,} tokens, {sizes['training.precision']}, "
        f"{race['machine'].rsplit(', ', 1)[-1]}"
    )
    return Advice(need, best, evidence, "bits per byte and memory (above); no other mixer was in this race")


def gpu_steps(results: Path) -> str:
    """A sentence with the newest raced steps on a GPU, with their sizes; "" where there are none."""
    races = read_rows(results / STEPS)
    if not races:
        return ""
    sizes = dict(change.split("=") for change in races[-1]["sizes"])
    times = races[-1]["ms_median_quartiles"]
    steps = ", ".join(f"{times[model][0]:.0f} ms with {title}" for model, title in GPU_NAMES.items() if model in times)
    gpu = "H100" if "H100" in races[-1]["machine"] else "GPU"
    size = (
        f"dim {sizes['model.dim']}, depth {sizes['model.depth']}, context {int(sizes['model.context']):,}, "
        f"batch {sizes['training.batch']}, {sizes['training.precision']}"
    )
    return f"On an {gpu} at {size} a training step takes {steps}."


def shortest(times: Times) -> str | None:
    """The model whose upper quartile is below the lower quartiles of all others; None where there is none."""
    best = min(times, key=lambda name: times[name][0])
    return best if all(times[best][2] < low for name, (_, low, _) in times.items() if name != best) else None


def _race(times: Times, best: str) -> str:
    """The step of the shortest with its quartiles, and those of the others, the shortest first."""
    median, low, high = times[best]
    others = sorted((of[0], name) for name, of in times.items() if name != best)
    rest = ", ".join(f"{ms:.0f} with {name}" for ms, name in others)
    return f"{median:.0f} ms (quartiles {low:.0f} and {high:.0f})" + (f", {rest}" if rest else "")


def _fewer_bits(six: Short, best: str) -> list[str]:
    """The models that a decision found better than this one."""
    found = []
    for answer in six.books.answers:
        question, verdict = answer.question, answer.verdict
        if verdict is None or answer.awaited:
            continue
        pair = f"{six.prose(question.first)} minus {six.prose(question.second)} {amount(verdict)}"
        if question.second == best and is_lower(verdict):
            found.append(f"{six.prose(question.first)} is better: {pair}")
        if question.first == best and is_higher(verdict):
            found.append(f"{six.prose(question.second)} is better: {pair}")
    return found


def _as_short(six: Short, times: tuple[float, float, float], names: set[str]) -> list[str]:
    """The models outside the decisions whose step is as short or shorter."""
    others = [
        f"{six.prose(row.contender)} {1e3 * row.step:.0f} ms"
        for row in six.times
        if row.step is not None and row.contender not in names and 1e3 * row.step <= times[2]
    ]
    return [f"as short or shorter, but not tested: {', '.join(others)}"] if others else []
