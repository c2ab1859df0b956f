"""A model that counts: `fit` in place of loss and update, passes, rows, checkpoints, kills, errors."""

import math
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import seqloom
from seqloom.data.tokens import Tokens
from seqloom.data.windows import Windows
from seqloom.models.kinds import KINDS
from seqloom.training.settings import resolve
from tests.training import counted
from tests.training.counted import CHANGES, Unigram
from tests.training.running import SMALL, apart, at_row, newest, rows, same, tiny

SECOND_PASS = 0
"""stands for the first step of a run's second pass, which the run itself tells"""


@dataclass
class Registered:
    """Makes the kind known in a process, then arms it."""

    arm: Callable[[], None]

    def __call__(self) -> None:
        counted.register()
        self.arm()


@pytest.fixture(autouse=True)
def unigram(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "unigram", counted.UnigramConfig)


def text(count: int) -> Tokens:
    ids = np.arange(count, dtype=np.uint16)
    return Tokens(ids, np.zeros(1, np.int64), np.ones(1, np.int64))


def test_a_pass_reads_each_window_once_and_ends_with_a_batch() -> None:
    windows = Windows(text(4 * 10 + 2), 4, seed=3, disjoint=True)
    assert (windows.starts, windows.pass_steps(3)) == (10, 4)
    passes = [[windows.pass_batch(step, 3) for step in range(4 * n, 4 * n + 4)] for n in (0, 1)]
    assert [len(batch) for batch in passes[0]] == [3, 3, 3, 1]
    targets = [torch.cat(batches)[:, 1:] for batches in passes]
    assert [target.flatten().tolist() for target in targets] == [list(range(1, 41))] * 2, "in the order of the text"


@pytest.mark.slow
def test_counts_are_those_of_the_text(tmp_path: Path) -> None:
    outcome = tiny(tmp_path / "run", *CHANGES, "training.batches=1000")
    assert outcome.corpus is not None
    assert outcome.score is not None
    tokens, held = outcome.corpus.train, outcome.corpus.held_out
    read = tokens.ids[1 : 1 + (len(tokens) - 1) // 16 * 16]
    model = seqloom.load(tmp_path / "run")
    assert isinstance(model, Unigram)
    counts = np.bincount(read, minlength=model.config.vocab)
    assert model.counts.tolist() == counts.tolist()
    steps = math.ceil((len(tokens) - 1) // 16 / 8)
    assert outcome.step == steps, "one pass, and not 1000 batches"
    p = (counts + 1) / (counts.sum() + len(counts))
    assert outcome.score["held_out"] == pytest.approx(-np.log(p[held.ids]).mean(), rel=1e-6)
    losses = [row["loss"] for row in rows(tmp_path / "run") if "loss" in row]
    assert losses == pytest.approx([math.log(len(counts))] * steps), "what is collected counts from the next pass on"
    assert len(model.seen) == steps


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "number"),
    [
        (4, signal.SIGTERM),
        pytest.param(2, signal.SIGKILL, marks=pytest.mark.slow),
        pytest.param(SECOND_PASS, signal.SIGKILL, marks=pytest.mark.slow),
    ],
)
def test_a_run_that_was_killed_within_a_pass_resumes_bit_for_bit(tmp_path: Path, step: int, number: int) -> None:
    changes = (
        *("model={kind: unigram, context: 16, passes: 2}", *CHANGES[1:]),
        *("training.batch=32", "training.batches=1000"),
    )
    whole = tiny(tmp_path / "whole", *changes).run.folder
    last = newest(whole).step
    folder = tmp_path / "killed"
    code = apart(folder, *changes, arm=Registered(at_row(last // 2 + 1 if step == SECOND_PASS else step, number)))
    assert code == (-number if number == signal.SIGKILL else 128 + number)
    tiny(folder, *changes)
    same(folder, whole)
    assert newest(whole).tensors["model"]["passed"] == 2
    done = tiny(whole, *changes)
    assert done.step == last, "nothing is left to count"


def test_stretches_are_read_on_by_models_with_a_state() -> None:
    with pytest.raises(ValueError, match=r"cannot be trained with training.memory=carry"):
        resolve("tiny", [*SMALL, CHANGES[0], "training.memory=carry"])


REFUSED = [
    (["data.disjoint=false"], "model.kind=unigram counts each token of the text at most once: set data.disjoint=true"),
    (["training.objective.kind=probe"], "counts each token of the text at most once"),
    (["training.lr=0.1"], "counts, without gradients: leave training.lr out"),
    (["training.accumulate=2"], "counts, without gradients: leave training.accumulate out"),
    (["training.optimizer=muon"], "leave training.optimizer out"),
    (["model={kind: unigram, dim: 4}"], "unknown setting 'model.dim'; there is context, kind, passes, vocab"),
    (["model={kind: bigram}"], "unknown kind 'bigram' of a model; did you mean 'unigram'"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_what_does_not_go_with_it(changes: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve("tiny", [*SMALL, *CHANGES, *changes])


def test_a_model_of_layers_does_not_count() -> None:
    model = seqloom.decoder("he", vocab=8, dim=8, depth=1, context=4)
    with pytest.raises(ValueError, match="a model of kind decoder cannot learn without gradients"):
        model.fit({})


def test_commands_about_layers_name_the_kind() -> None:
    with pytest.raises(ValueError, match="a model of kind unigram has no layers of mixers"):
        _ = resolve("tiny", [*SMALL, *CHANGES]).layered_model
