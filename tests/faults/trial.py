"""One fault: drawn by its number, injected into a run of several processes, and what became of the run.

injected    the process met it
detected    every other process ended with one line that says why; a damaged checkpoint was moved aside with a line
recovered   the same command, on a drawn number of processes, ends with the losses and weights of one process
lost        a checkpoint whose save had ended is not there, or the run ends elsewhere
"""

import random
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

from seqloom.runs import checkpoint
from tests.faults.arming import AtStep, AtWrite, OfVersion
from tests.faults.ranks import Arm, Ends, launch, saved_steps
from tests.training.running import damage, newest, rows, saved

STEPS = 6
RUN = (
    *("model.mixer.kind=attention", "training.precision=float64", "training.batch=6", "training.save_every=2"),
    *("training.evaluate_every=0", "training.shard=fsdp"),
)
CALLS = {"killed at a write": (100, 12), "disk full": (50, 12)}
"""about how many calls of rank 0, and of another rank, change the file system or need space"""
CLOSE = 1e-11
REFUSALS = ("differs from rank 0", "holds a run of other settings", "would no longer be the same bit for bit")
"""what is said of a rank; and of rank 0, where it is the one that differs from the run"""


@final
@dataclass(frozen=True)
class Fault:
    """A fault of the process `rank` of `ranks`; `at` is its call or step, where it has one."""

    kind: str
    ranks: int
    rank: int
    at: int
    save: str
    then: int
    """processes that the run goes on with"""

    def __str__(self) -> str:
        return f"{self.kind}, rank {self.rank} of {self.ranks} at {self.at}, {self.save}, then {self.then}"


@final
@dataclass(frozen=True)
class Result:
    """What became of a run."""

    injected: bool
    detected: bool
    recovered: bool
    lost: bool
    why: str
    """the line that was printed, and what was not as it should be"""


def draw_fault(kind: str, seed: int, number: int) -> Fault:
    """The fault of a number."""
    draw = random.Random(f"{seed} {number} {kind}")
    ranks = draw.choice((2, 3))
    rank = draw.randrange(ranks)
    calls = CALLS.get(kind)
    at = draw.randrange(calls[rank > 0]) if calls else draw.randrange(1, STEPS)
    return Fault(kind, ranks, rank, at, draw.choice(("sync", "async")), draw.choice((1, 2, 3)))


def try_fault(fault: Fault, folder: Path, expected: Path) -> Result:
    """Injects a fault into a run in a new folder, and goes on; `expected` is the run that no fault met."""
    run = folder / "run"
    ends = KINDS[fault.kind](fault, run)
    finished = saved_steps(run)
    is_of_disk = fault.kind in DAMAGES
    faults = [] if is_of_disk else _unseen(fault, ends)
    lost = [] if is_of_disk or not finished else _torn(run, max(finished))
    again = launch(run, fault.then, (*changes_of(fault), f"training.batches={STEPS}"))
    moved = [line for line in again.said if "; moved to damaged-step_" in line]
    if is_of_disk and len(moved) != 1:
        faults.append(f"{len(moved)} lines say that a checkpoint was moved: {again.said}")
    if not is_of_disk and moved:
        lost.append(moved[0])
    wrong = [f"it does not go on: {again.codes} {again.messages}"] if again.reason or any(again.codes) else []
    wrong = wrong or _differences(run, expected)
    reason = moved[0] if is_of_disk and moved else ends.reason
    return Result(
        injected=is_of_disk or _was_met(fault, ends),
        detected=not faults,
        recovered=not wrong,
        lost=bool(lost) or bool(wrong),
        why="; ".join([reason, *faults, *lost, *wrong]),
    )


def changes_of(fault: Fault) -> tuple[str, ...]:
    return (*RUN, f"training.save={fault.save}", f"training.timeout={20 if fault.kind == 'stopped' else 60}")


def _arm(arm: Callable[[Fault], Arm]) -> Callable[[Fault, Path], Ends]:
    """A fault that a process meets while it runs."""
    return lambda fault, run: launch(
        run, fault.ranks, (*changes_of(fault), f"training.batches={STEPS}"), {fault.rank: arm(fault)}
    )


def _damage(how: Callable[[Fault, Path, Path], object]) -> Callable[[Fault, Path], Ends]:
    """Damage of the newest checkpoint of a run of which a part is done."""

    def inject(fault: Fault, run: Path) -> Ends:
        ends = launch(run, fault.ranks, (*changes_of(fault), "training.batches=4"))
        assert not ends.reason
        step = max((run / "checkpoints").glob("step_*"))
        files = sorted(path for path in step.iterdir() if path.suffix == ".safetensors")
        how(fault, run, files[fault.rank % len(files)])
        return ends

    return inject


def _of_another_step(fault: Fault, run: Path, file: Path) -> None:
    shutil.copyfile(min((run / "checkpoints").glob("step_*")) / file.name, file)


def _of_another_run(fault: Fault, run: Path, file: Path) -> None:
    other = run.with_name("other")
    ends = launch(other, fault.ranks, (*changes_of(fault), "training.batches=4", "training.seed=1"))
    assert not ends.reason
    shutil.copyfile(other / "checkpoints" / file.parent.name / file.name, file)


def _of_others(change: str) -> Callable[[Fault, Path], Ends]:
    """One rank is started with another setting, where a run is to go on."""

    def inject(fault: Fault, run: Path) -> Ends:
        changes = changes_of(fault)
        launch(run, fault.ranks, (*changes, "training.batches=2"))
        other = {rank: (change,) if rank == fault.rank else () for rank in range(fault.ranks)}
        return launch(run, fault.ranks, (*changes, f"training.batches={STEPS}"), more=other)

    return inject


def _of_another_version(fault: Fault, run: Path) -> Ends:
    changes = changes_of(fault)
    launch(run, fault.ranks, (*changes, "training.batches=2"))
    return launch(run, fault.ranks, (*changes, f"training.batches={STEPS}"), {fault.rank: OfVersion()})


DAMAGES: dict[str, Callable[[Fault, Path], Ends]] = {
    "a flipped bit": _damage(lambda fault, run, file: damage(file, "bit")),
    "a file cut": _damage(lambda fault, run, file: damage(file, "half")),
    "a file missing": _damage(lambda fault, run, file: damage(file, "gone")),
    "a file of another step": _damage(_of_another_step),
    "a file of another run": _damage(_of_another_run),
}
REFUSED: dict[str, Callable[[Fault, Path], Ends]] = {
    "other settings": _of_others("training.lr=0.01"),
    "other data": _of_others("data.source=stories:31:0"),
    "another version": _of_another_version,
}
KINDS: dict[str, Callable[[Fault, Path], Ends]] = {
    "killed at a write": _arm(lambda fault: AtWrite(fault.at, "kill")),
    "killed at a step": _arm(lambda fault: AtStep(fault.at, signal.SIGKILL)),
    "disk full": _arm(lambda fault: AtWrite(fault.at, "full")),
    "asked to stop": _arm(lambda fault: AtStep(fault.at, signal.SIGTERM)),
    "stopped": _arm(lambda fault: AtStep(fault.at, signal.SIGSTOP)),
    **DAMAGES,
    **REFUSED,
}


def expected_run(folder: Path) -> Path:
    """The run of one process that no fault meets."""
    ends = launch(folder, 1, (*RUN, f"training.batches={STEPS}"))
    assert not ends.reason, ends
    return folder


def _was_met(fault: Fault, ends: Ends) -> bool:
    """Whether the run met the fault: a call that is beyond its last one does not come."""
    return any(ends.codes)


def _unseen(fault: Fault, ends: Ends) -> list[str]:
    """What of a fault was not named as it should be."""
    if not _was_met(fault, ends):
        return []
    faults = [f"rank {rank} hung" for rank, code in enumerate(ends.codes) if code is None]
    faults += [
        f"rank {rank} ended with a traceback: {message}"
        for rank, message in enumerate(ends.messages)
        if "Traceback" in message
    ]
    if fault.kind == "asked to stop":
        return faults + [f"they ended with {ends.codes}"] * (set(ends.codes) != {128 + signal.SIGTERM})
    others = [rank for rank in range(fault.ranks) if rank != fault.rank]
    faults += [f"rank {rank} ended without an error" for rank in others if ends.codes[rank] == 0]
    if len([message for message in ends.messages if message]) != 1:
        faults.append(f"not one line: {ends.messages}")
    if fault.kind in REFUSED and not any(word in ends.reason for word in REFUSALS):
        faults.append("the rank that differs was not refused")
    if fault.kind == "disk full" and "No space left" not in ends.reason:
        faults.append("the full disk was not named")
    if fault.kind.startswith(("killed", "stopped")) and f"rank {fault.rank} d" not in ends.reason:
        faults.append("the rank was not named")
    return faults


def _torn(run: Path, last: int) -> list[str]:
    """What of the checkpoints is not as it was saved."""
    lines: list[str] = []
    seen = checkpoint.peek(run / "checkpoints", lines.append)
    if seen is None or seen.step < last:
        lines.append(f"the checkpoint of step {last} was lost")
    return lines


def _differences(run: Path, expected: Path) -> list[str]:
    """Where a run does not end as the one that no fault met."""
    if list(run.rglob("*.tmp-*")):
        return ["leftovers stayed"]
    if saved(run)[-1] != STEPS:
        return [f"its checkpoints are {saved(run)}"]
    losses = [{row["step"]: row["loss"] for row in rows(each) if "loss" in row} for each in (run, expected)]
    if losses[0].keys() != losses[1].keys():
        return ["its rows are of other steps"]
    differences = {f"loss {step}": abs(loss - losses[1][step]) for step, loss in losses[0].items()}
    actual, wanted = newest(run).tensors, newest(expected).tensors
    for group in ("model", "optimizer"):
        for name, tensor in wanted[group].items():
            differences[name] = (actual[group][name] - tensor).abs().max().item()
    return [f"{name} differs by {difference:.1e}" for name, difference in differences.items() if difference > CLOSE][:3]
