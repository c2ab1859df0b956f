"""A run of another length: its schedule may need the number of batches, which is then part of the run's identity.

    allowed where share(t, N) = share(t, N') for each step t that is done        N batches before, N' now

So a run with a wsd schedule can be made longer, or shorter, until its decay begins, and goes on as the run of the new
length would have. Its identity stays that of the length with which it was begun.
"""

from seqloom.runs import checkpoint
from seqloom.runs.layout import Run
from seqloom.training.config import RunConfig


def with_first_length(config: RunConfig, run: Run) -> RunConfig:
    """The settings with the number of batches with which the run was begun, where another one may take its place.

    ValueError, which names the step, where a step that is done had another learning rate than in a run of the new
    length.
    """
    training = config.training
    has_fixed_length = training.objective.uses_length or config.model.fits or training.stages
    if not training.schedule.uses_length or has_fixed_length or not run.config.exists():
        return config
    stored = run.settings.get("training", {})
    begun = stored.get("batches")
    other_schedule = stored.get("schedule") != training.model_dump(mode="json")["schedule"]
    if other_schedule or not isinstance(begun, int) or begun == training.batches:
        return config
    saved = checkpoint.peek(run.checkpoints)
    if saved is not None:
        before = saved.meta.get("config", {}).get("training", {}).get("batches", begun)
        _require_equal_rates(config, run, before, saved.step)
    return config.model_copy(update={"training": training.model_copy(update={"batches": begun})})


def _require_equal_rates(config: RunConfig, run: Run, before: int, done: int) -> None:
    """ValueError where one of the steps that are done had another learning rate than it has now."""
    schedule, batches = config.training.schedule, config.training.batches
    for step in range(min(done, batches)):
        if schedule.share(step, before) != schedule.share(step, batches):
            raise ValueError(
                f"{run.folder} has done {done:,} steps, and step {step + 1:,} had another learning rate in a run of "
                f"{before:,} batches than in one of {batches:,}: set training.batches={before}, or another --out"
            )
