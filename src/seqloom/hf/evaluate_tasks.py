"""Tasks of lm-eval (extra `eval`) on a run, without a network: a folder of YAML files, and the data next to them.

    names.yaml     task: names, dataset_path: json, dataset_kwargs: {data_files: {validation: names.jsonl}}, …

Paths of data are relative to the folder.
"""

import contextlib
import os
from pathlib import Path
from typing import Any, NamedTuple, final

from seqloom.core.model import Model, require_generates
from seqloom.hf.export import fast_tokenizer
from seqloom.hf.register import wrap

OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
"""variables of the environment that keep data sets from being fetched"""


@final
class Score(NamedTuple):
    """One metric of one task."""

    task: str
    metric: str
    value: float
    error: float | None
    """its standard error, where lm-eval has one"""


def evaluate_tasks(model: Model, folder: Path, batch: int) -> list[Score]:
    """The scores of all tasks of the folder, by name. `batch` is the number of texts that are read at once.

    ValueError where the folder has no tasks, lm-eval is missing or cannot read one, or the model writes no text.
    """
    require_generates(model, "be scored by tasks")
    if model.tokenizer is None:
        raise ValueError("the run has no tokenizer.json, and tasks are texts")
    if not folder.is_dir() or not any(folder.rglob("*.yaml")):
        raise ValueError(f"{folder} is no folder of tasks: it has no .yaml")
    for name in OFFLINE:
        os.environ.setdefault(name, "1")
    try:
        from lm_eval import simple_evaluate
        from lm_eval.models.huggingface import HFLM
        from lm_eval.tasks import TaskManager
    except ImportError:
        raise ValueError("--tasks needs lm-eval: pip install 'seqloom[eval]'") from None
    tokenizer = fast_tokenizer(model.tokenizer)
    reader = HFLM(
        wrap(model),
        backend="causal",
        tokenizer=tokenizer,
        batch_size=batch,
        device=str(model.device),
        dtype=model.dtype,
    )
    tasks = TaskManager(include_path=str(folder.resolve()), include_defaults=False)
    with contextlib.chdir(folder):
        results = simple_evaluate(model=reader, tasks=tasks.all_tasks, task_manager=tasks, log_samples=False)
    return [score for task, metrics in sorted(results["results"].items()) for score in _scores(task, metrics)]


def _scores(task: str, metrics: dict[str, Any]) -> list[Score]:
    """The metrics of a task, which lm-eval names `acc,none`, with their errors, `acc_stderr,none`."""
    scores = []
    for name, value in metrics.items():
        metric, comma, sieve = name.partition(",")
        if comma and not metric.endswith("_stderr") and isinstance(value, float | int):
            error = metrics.get(f"{metric}_stderr,{sieve}")
            label = metric if sieve == "none" else f"{metric} ({sieve})"
            scores.append(Score(task, label, float(value), error if isinstance(error, float) else None))
    return scores
