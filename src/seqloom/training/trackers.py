"""Experiment trackers: TensorBoard, Weights & Biases and trackio, fed with the rows of a run while it trains.

    start(folder, identity, settings, step) → log(row) → … → close()

`metrics.jsonl` stays the record of the run: a tracker gets a copy of the numbers, and one that fails is reported once,
switched off, and the training continues. Each is an extra of the package, imported only when it is asked for.

    tensorboard   <run>/tensorboard; steps after the checkpoint that a run continues from are purged
    wandb         project seqloom; WANDB_MODE=offline writes <run>/wandb without network
    trackio       project seqloom, in trackio's own folder (TRACKIO_DIR)
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any, final

from typing_extensions import override

from seqloom.core.config import suggestion
from seqloom.core.files import require_own

PROJECT = "seqloom"


class Tracker(ABC):
    """One tracker of one run."""

    @abstractmethod
    def start(self, folder: Path, identity: str, settings: Mapping[str, Any], step: int) -> None:
        """Opens the run in `folder`, with its settings, after `step` steps: more than 0 where the run continues.

        `identity` is `Run.identity`: folders of the same name, such as he/seed-0 and gru/seed-0, have different ones.
        """

    @abstractmethod
    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Adds the numbers of a step."""

    @abstractmethod
    def close(self) -> None:
        """Ends the run."""


@final
class TensorBoard(Tracker):
    """Event files in the run's folder."""

    @override
    def start(self, folder: Path, identity: str, settings: Mapping[str, Any], step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        path = require_own(folder, "tensorboard")
        self._writer = SummaryWriter(str(path), purge_step=step + 1 if step else None)
        if step == 0:
            self._writer.add_text("settings", "\n".join(f"    {name}: {value}" for name, value in settings.items()), 0)

    @override
    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    @override
    def close(self) -> None:
        self._writer.close()


@final
class WandB(Tracker):
    """A run of Weights & Biases, whose id is the identity of the run."""

    @override
    def start(self, folder: Path, identity: str, settings: Mapping[str, Any], step: int) -> None:
        import wandb

        require_own(folder, "wandb")
        quiet = wandb.Settings(silent=True)
        self._run = wandb.init(
            project=PROJECT,
            name=title(folder),
            id=identity,
            resume="allow",
            dir=folder,
            config=dict(settings),
            settings=quiet,
        )

    @override
    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    @override
    def close(self) -> None:
        self._run.finish()


@final
class Trackio(Tracker):
    """A run of trackio, which has no id: its name contains the beginning of the identity."""

    @override
    def start(self, folder: Path, identity: str, settings: Mapping[str, Any], step: int) -> None:
        import trackio

        name = f"{title(folder)} {identity[:8]}"
        self._run = trackio.init(project=PROJECT, name=name, resume="allow", config=dict(settings), embed=False)

    @override
    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    @override
    def close(self) -> None:
        self._run.finish()


TRACKERS: dict[str, type[Tracker]] = {"tensorboard": TensorBoard, "wandb": WandB, "trackio": Trackio}


def title(folder: Path) -> str:
    """What a tracker calls a run: the last two names of its path, such as he/seed-0 of a comparison."""
    return "/".join(folder.resolve().parts[-2:]).lstrip("/")


def require_trackers(names: Sequence[str]) -> None:
    """Raises ValueError, with the line that installs it, for a tracker that is unknown or not installed."""
    for name in names:
        if name not in TRACKERS:
            raise ValueError(f"unknown tracker {name!r}; {suggestion(name, TRACKERS)}")
        if find_spec(name) is None:
            raise ValueError(f"tracker {name} is not installed: pip install 'seqloom[{name}]'")


@contextmanager
def track_rows(
    names: Sequence[str],
    folder: Path,
    identity: str,
    settings: Mapping[str, Any],
    step: int,
    say: Callable[[str], None],
) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Yields the function that gives a row to all trackers of these names; what fails is reported through `say`."""
    open_trackers: dict[str, Tracker] = {}

    def attempt(name: str, action: Callable[[], None]) -> None:
        """Runs an action of a tracker; where it fails, reports that and switches the tracker off."""
        try:
            with redirect_stdout(sys.stderr):  # standard output is for results
                action()
        except Exception as error:
            open_trackers.pop(name, None)
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            say(f"tracker {name} failed and is switched off, the training goes on: {reason}")

    def log(row: Mapping[str, Any]) -> None:
        values = numbers(row)
        for name, tracker in list(open_trackers.items()):
            attempt(name, lambda tracker=tracker: tracker.log(row["step"], values))  # type: ignore[misc]  # bound now

    for name in dict.fromkeys(names):
        open_trackers[name] = TRACKERS[name]()
        attempt(name, lambda name=name: open_trackers[name].start(folder, identity, settings, step))  # type: ignore[misc]
    try:
        yield log
    finally:
        for name, tracker in list(open_trackers.items()):
            attempt(name, tracker.close)


def numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a row by name, without its step; other values are left to `metrics.jsonl`."""
    return {
        name: float(value)
        for name, value in row.items()
        if name != "step" and isinstance(value, int | float) and not isinstance(value, bool)
    }


def flatten_settings(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by dotted name, such as `training.lr`."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flat |= flatten_settings(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat
