"""A run that starts from another's weights: a memory for plain attention, other sizes, and runs that do not fit."""

from pathlib import Path
from typing import Any

import pytest
import torch

import seqloom
from seqloom.training.settings import resolve
from seqloom.training.train import Outcome, train
from tests.training.running import SMALL

pytestmark = pytest.mark.slow

PLAIN = "model.mixer={kind: attention, heads: 2, qk_norm: heads}"
MEMORY = (
    "model.mixer=[{kind: attention, heads: 2, qk_norm: heads}, "
    "{kind: memorizing, heads: 2, window: 4, memory: 8, neighbors: 2}]"
)


def trained(out: Path, *changes: str, lines: list[str] | None = None) -> Outcome:
    fixed = ("model.depth=2", "training.batches=1", "training.lr=1e-12", "training.weight_decay=0.0")
    small = [each for each in SMALL if not each.startswith(("training.batches", "training.lr"))]
    return train(resolve("tiny", [*small, *fixed, *changes]), out, say=lambda line: (lines or []).append(line))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "plain"
    trained(folder, PLAIN, "training.seed=5")
    return folder


def test_a_plain_run_goes_on_with_a_memory(plain: Path, tmp_path: Path) -> None:
    lines: list[str] = ["first"]
    outcome = trained(tmp_path / "memory", MEMORY, f"training.begin={plain}", lines=lines)
    (line,) = [line for line in lines if "tensors are those of" in line]
    assert line.endswith("step 1; new here: layers.1.mixer.gate")
    before, after = seqloom.load(plain).state_dict(), outcome.model.state_dict()
    assert set(after) - set(before) == {"layers.1.mixer.gate"}
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor, rtol=0, atol=1e-6)


def test_it_is_done_once(plain: Path, tmp_path: Path) -> None:
    """A run that goes on has its own weights, and the folder that it began with may be gone."""
    begun = f"training.begin={plain}"
    first = trained(tmp_path / "run", PLAIN, begun).model.state_dict()
    lines: list[str] = ["first"]
    again = trained(tmp_path / "run", PLAIN, begun, "training.batches=1", lines=lines).model.state_dict()
    assert not [line for line in lines if "tensors are those of" in line]
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_an_argument_that_does_not_fit_is_named(plain: Path, tmp_path: Path) -> None:
    lines: list[str] = ["first"]
    trained(tmp_path / "wide", PLAIN, "model.ffn=24", f"training.begin={plain}", lines=lines)
    (line,) = [line for line in lines if "tensors are those of" in line]
    assert "new here: layers.0.ffn.w_1.bias" in line
    assert "not taken: layers.0.ffn.w_1.bias" in line


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (("training.begin=nowhere",), "nowhere does not exist"),
        (("training.begin={plain}", "data.vocab=263"), "has another tokenizer: add --set data.tokenizer="),
    ],
)
def test_a_run_that_cannot_give_initial_weights(
    changes: tuple[str, ...], words: str, plain: Path, tmp_path: Path
) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match=words) as caught:
        trained(tmp_path / "new", PLAIN, *(change.format(plain=plain) for change in changes))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "new").exists()


def test_runs_without_a_common_weight(plain: Path, tmp_path: Path) -> None:
    other: Any = seqloom.decoder("me", vocab=11, dim=3, depth=1, context=5, ffn=7, embed_scale=False)
    seqloom.save(other, tmp_path / "other")
    with pytest.raises(ValueError, match="has no weight of the name and shape"):
        trained(tmp_path / "new", PLAIN, f"training.begin={tmp_path / 'other'}")
