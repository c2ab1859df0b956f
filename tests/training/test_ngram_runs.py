"""Runs of models that count n-grams: what they have counted, kills, fewer batches than a pass, wrong settings."""

import json
import signal
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import seqloom
from seqloom.cli.work.runs import format_runs
from seqloom.models.ngram.interpolated import Interpolated
from seqloom.models.ngram.kneser_ney import kneser_ney
from seqloom.runs.metrics import Metrics
from seqloom.training.settings import resolve
from tests.training.running import apart, newest, same, tiny

COUNTED = ("model={kind: ngram, order: 4, context: 16}", "data.disjoint=true", "training.batch=4")
LAST = 0
"""stands for a run's last step, which the run itself tells"""


@dataclass
class AtStep:
    """Kills a process as soon as the row of a step was appended."""

    step: int

    def __call__(self) -> None:
        append = Metrics.append

        def watched(rows: Metrics, row: dict[str, object]) -> None:
            append(rows, row)
            if row["step"] == self.step:
                signal.raise_signal(signal.SIGKILL)

        Metrics.append = watched  # type: ignore[method-assign, assignment]


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        "kind: ngram, estimator: kneser_ney, order: 4",
        "kind: ngram, estimator: context_tree, order: 4",
        "kind: hmm, states: 3, passes: 2, tolerance: 0",
    ],
)
@pytest.mark.parametrize("step", [7, *(pytest.param(each, marks=pytest.mark.slow) for each in (2, LAST))])
def test_a_run_that_was_killed_goes_on_bit_for_bit(tmp_path: Path, model: str, step: int) -> None:
    changes = (f"model={{{model}, context: 16}}", COUNTED[1], "training.batch=32", "training.batches=1000")
    whole = tiny(tmp_path / "whole", *changes)
    assert whole.step < 1000, "it ends after its passes"
    folder = tmp_path / "killed"
    assert apart(folder, *changes, arm=AtStep(whole.step if step == LAST else step)) == -signal.SIGKILL
    tiny(folder, *changes)
    same(folder, whole.run.folder)


@pytest.mark.slow
def test_the_tables_of_a_run_are_those_of_its_text(tmp_path: Path) -> None:
    outcome = tiny(tmp_path / "run", *COUNTED, "training.batches=1000")
    assert outcome.corpus is not None
    again = tiny(tmp_path / "run", *COUNTED, "training.batches=1000")
    assert (again.first, again.summary) == (outcome.step, outcome.summary)
    assert again.score is not None
    assert outcome.score is not None
    assert again.score.keys() == outcome.score.keys()
    (row,) = json.loads(format_runs(tmp_path, as_json=True))["runs"]
    assert (row["state"], row["batches"]) == ("done", outcome.step), "it ends after its pass"
    steps = (len(outcome.corpus.train) - 1) // 16
    library = kneser_ney(outcome.corpus.train.ids[: 1 + 16 * steps].astype(np.int64), 4, outcome.model.config.vocab)
    model = seqloom.load(tmp_path / "run")
    assert isinstance(model, Interpolated)
    torch.testing.assert_close(model.p_4, torch.from_numpy(library.orders[3].probabilities).float())


@pytest.mark.slow
def test_a_run_of_fewer_batches_counts_what_it_has_read(tmp_path: Path) -> None:
    outcome = tiny(tmp_path / "run", *COUNTED, "training.batches=3")
    assert outcome.corpus is not None
    tables = newest(tmp_path / "run").tensors["model"]
    ids = outcome.corpus.train.ids[: 1 + 3 * 4 * 16].astype(np.int64)
    assert tables["keys_2"].tolist() == kneser_ney(ids, 4, outcome.model.config.vocab).orders[1].keys.tolist()
    with pytest.raises(ValueError, match="other settings"):
        tiny(tmp_path / "run", *COUNTED, "training.batches=4")


REFUSED = [
    ("model.order=9", "model.order: input should be less than or equal to 8, not 9"),
    ("model.order=0", "model.order: input should be greater than or equal to 1, not 0"),
    ("model.estimator=kneser", "model.estimator: input should be 'kneser_ney' or 'context_tree'"),
    ("model.cutoff=2.0", "cutoff prunes the contexts of estimator=context_tree, not of kneser_ney"),
    ("model.dim=8", "unknown setting 'model.dim'"),
    ("training.lr=0.1", "counts, without gradients: leave training.lr out"),
    ("training.memory=carry", "cannot be trained with training.memory=carry"),
    ("data.disjoint=false", "counts each token of the text at most once: set data.disjoint=true"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_arguments_that_do_not_fit_raise_one_line(change: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        resolve("ngram/kneser_ney", [change])
    assert "\n" not in str(error.value)
