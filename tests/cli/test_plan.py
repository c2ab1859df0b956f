"""`seqloom plan`: what is printed, and mistakes."""

import pytest

from tests.cli.conftest import Seqloom


def test_the_plan_of_a_recipe(seqloom: Seqloom) -> None:
    answer = seqloom("plan", "tiny", "--gpus", "4", "--peak", "100", "--share-of-peak", "0.5")
    assert (answer.code, answer.err) == (0, "")
    first, *lines = answer.out.splitlines()
    assert first.startswith("tiny on 4 GPUs, training.shard=none, float32: ")
    for part in ("weights", "gradients", "optimizer", "activations", "logits", "gradients that are summed, a copy"):
        assert any(line.startswith(part) for line in lines), part
    assert any(line.startswith("each GPU sends ") for line in lines)
    assert any("at 50% of 100 · 10^12 operations a second a GPU" in line for line in lines)


def test_what_is_assumed_is_said(seqloom: Seqloom) -> None:
    answer = seqloom("plan", "tiny", "--set", "training.precision=bf16")
    assert "at 40% of 798 · 10^12 operations a second a GPU" in answer.out
    assert "measured on an NVIDIA H100" in answer.out
    assert "sends" not in answer.out
    unknown = seqloom("plan", "tiny").out
    assert "the speed is not known: no peak was measured in float32; add --peak" in unknown
    hybrid = seqloom("plan", "tiny", "--gpus", "4", "--per-machine", "2", "--shard", "hybrid").out
    assert hybrid.startswith("tiny on 4 GPUs of 2 machines, training.shard=hybrid")
    assert "weights of other GPUs, gathered" in hybrid


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["llama/125m", "gated_delta/125m", "hybrid/350m"])
def test_larger_recipes_fit_on_a_gpu(seqloom: Seqloom, recipe: str) -> None:
    answer = seqloom("plan", recipe, "--gpus", "8")
    assert answer.code == 0
    (line,) = [line for line in answer.out.splitlines() if line.startswith("all, at most at once")]
    assert 5 < float(line.split()[-1]) < 70


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["tinny"], "did you mean 'tiny'"),
        (["tiny", "--shard", "all"], "training.shard"),
        (["tiny", "--gpus", "7"], "7 processes cannot share training.batch="),
        (["tiny", "--share-of-peak", "1.5"], "--share-of-peak must lie above 0 and be at most 1, not 1.5"),
        (["tiny", "--share-of-peak", "nan"], "--share-of-peak must lie above 0"),
        (["tiny", "--peak", "inf"], "--peak must be a number"),
        (["ngram/hmm"], "is fitted without gradients"),
        (["decision/maze"], "this training has no plan: "),
        (["tiny", "--set", "model.dmi=3"], "did you mean 'dim'"),
    ],
)
def test_a_mistake_is_one_line(seqloom: Seqloom, arguments: list[str], says: str) -> None:
    answer = seqloom("plan", *arguments)
    assert answer.code == 2
    assert says in answer.err
    assert len(answer.err.splitlines()) == 1
