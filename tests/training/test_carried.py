"""Training with a memory: states carried over segments, losses and gradients of the whole text, resuming, errors."""

import json
import re
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import seqloom
from seqloom.cli import command
from seqloom.core.model import Model
from seqloom.core.objective import Batch
from seqloom.data.segments import Segments
from seqloom.data.tokens import Tokens
from seqloom.evaluation.reading import score_reading
from seqloom.mixers.attention.compressive import CompressiveAttention
from seqloom.training.objectives.carried import CarriedNextToken
from seqloom.training.settings import resolve
from tests.training.running import apart, at_row, newest, rows, tiny

B, T, VOCAB = 3, 4, 11
CARRY = ("training.memory=carry", "model.position.kind=none", "training.batch=4", "model.dropout=0.1")
KINDS = ("attention", "he", "gru", "linear", "rwkv", "mamba", "gated_delta")


def text(count: int, documents: int = 1) -> Tokens:
    ids = np.random.default_rng(5).integers(1, VOCAB, count).astype(np.uint16)
    starts = np.arange(documents) * (count // documents)
    ids[[*(starts[1:] - 1), -1]] = 0
    return Tokens(ids, starts.astype(np.int64), np.ones(documents, np.int64))


def model_of(kind: str, std: float = 0.01) -> Model:
    torch.manual_seed(0)
    position = "rotary" if kind == "attention" else "none"
    sizes = {"vocab": VOCAB, "dim": 8, "depth": 2, "context": T, "dropout": 0.0, "std": std}
    return seqloom.decoder(kind, **sizes, position={"kind": position}).double()


def test_segments_are_read_on_and_cover_every_stretch_once() -> None:
    tokens = text(1 + B * 5 * T + 3)
    segments = Segments(tokens, T, B, seed=7)
    assert segments.steps == 5
    batches = [segments.batch(step) for step in range(10)]
    assert [first for _, first in batches] == [True, *[False] * 4] * 2
    for (before, _), (after, first) in pairwise(batches):
        assert first or torch.equal(after[:, 0], before[:, -1])
    numbered = Tokens(np.arange(len(tokens), dtype=np.uint32), tokens.starts, tokens.sizes)
    for epoch in (0, 1):
        read = torch.cat([Segments(numbered, T, B, 7).batch(5 * epoch + step)[0][:, 1:] for step in range(5)], 1)
        assert sorted(read.flatten().tolist()) == list(range(int(read.min()), int(read.min()) + B * 5 * T))
    assert not torch.equal(Segments(tokens, T, B, seed=8).batch(0)[0], batches[0][0])


def test_a_text_shorter_than_its_rows() -> None:
    with pytest.raises(
        ValueError, match=r"12 tokens are less than 3 rows of 4 \+ 1: add text, or lower training.batch"
    ):
        Segments(text(12), T, B, 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_of_two_steps_is_that_of_both_segments_read_at_once(kind: str) -> None:
    model, objective = model_of(kind), CarriedNextToken(text(200), T, B, through=1)
    first, second = (objective.batch(3, step, model) for step in (0, 1))
    before = objective.losses(model, first, {})
    after = objective.losses(model, second, before.carried)
    expected = nats(model, torch.cat([first["ids"], second["ids"][:, 1:]], 1))
    actual = torch.stack([before.losses["loss"], after.losses["loss"]])
    torch.testing.assert_close(
        actual, torch.stack([expected[:, :T].mean(), expected[:, T:].mean()]), rtol=1e-9, atol=1e-9
    )
    assert all(not tensor.requires_grad for tensor in after.carried.values())


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_go_through_the_segments_of_a_step_and_no_further(kind: str) -> None:
    model = model_of(kind)
    both = CarriedNextToken(text(200), T, B, through=2)
    batch = both.batch(3, 0, model)
    actual = gradients(model, both.losses(model, batch, {}).losses["loss"])
    expected = gradients(model, nats(model, batch["ids"]).mean())
    torch.testing.assert_close(actual, expected, rtol=1e-8, atol=1e-10)
    one = CarriedNextToken(text(200), T, B, through=1)
    halves = [{**batch, "ids": batch["ids"][:, : T + 1]}, {"ids": batch["ids"][:, T:], "first": ~batch["first"]}]
    cut = gradients(model, in_turn(one, model, halves) / 2)
    assert not torch.allclose(cut, expected, rtol=1e-5)


def test_a_new_stretch_begins_without_a_state() -> None:
    model, objective = model_of("gru"), CarriedNextToken(text(200), T, B, through=1)
    batch = objective.batch(3, 0, model)
    carried = objective.losses(model, objective.batch(3, 1, model), {}).carried
    again = objective.losses(model, batch, carried).losses["loss"]
    assert torch.equal(again, objective.losses(model, batch, {}).losses["loss"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_held_out_documents_are_read_to_their_end(kind: str) -> None:
    """Documents of several lengths, in batches of two: each as if it were read alone and at once."""
    model, tokens = model_of(kind), text(50)
    tokens = Tokens(tokens.ids, np.array([0, 23, 30], np.int64), np.ones(3, np.int64))
    scored = score_reading(model, tokens, batch=2)
    losses: list[list[float]] = [[] for _ in range(T)]
    for start, end in zip(tokens.starts, tokens.ends, strict=True):
        ids = torch.tensor([tokens.eos, *tokens.ids[start:end].tolist()])[None]
        for t, loss in enumerate(nats(model, ids)[0].tolist()):
            losses[t % T].append(loss)
    assert scored.tokens == 50
    assert scored.loss == pytest.approx(sum(map(sum, losses)) / 50, rel=1e-9)
    assert scored.by_position == pytest.approx([sum(loss) / len(loss) for loss in losses], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("through", [1, 2])
@pytest.mark.parametrize("kind", [*KINDS, "memorizing", "fox"])
def test_within_documents_nothing_is_remembered_of_the_one_before(kind: str, through: int) -> None:
    """Documents of 1 to 13 tokens: the loss is that of every document read alone, and so are its gradients."""
    tokens, model = text(1 + B * 24), model_of(kind, std=0.4)
    tokens.ids[np.cumsum([3, 1, 13, 5, 9, 2, 11, 8, 6])] = 0
    tokens.ids[-1] = 0
    objective = CarriedNextToken(tokens, T, B, through, within_documents=True)
    steps = 24 // (T * through)
    batches = [objective.batch(3, step, model) for step in range(steps)]
    carried: dict[str, Tensor] = {}
    losses = []
    for batch in batches:
        result = objective.losses(model, batch, carried)
        carried = result.carried
        losses.append(result.losses["loss"])
    ids = torch.cat([batches[0]["ids"], *(batch["ids"][:, 1:] for batch in batches[1:])], 1)
    alone = []
    for row in ids:
        cuts = [0, *(at for at in range(1, len(row) - 1) if row[at] == 0), len(row) - 1]
        alone += [nats(model, row[start : end + 1][None])[0] for start, end in pairwise(cuts)]
    torch.testing.assert_close(torch.stack(losses).mean(), torch.cat(alone).mean(), rtol=1e-9, atol=1e-9)
    whole = CarriedNextToken(tokens, T, B, through).losses(model, batches[0], {}).losses["loss"]
    assert abs(float((whole - losses[0]).detach())) > 1e-6, "the documents before it made no difference"


@pytest.mark.slow
def test_a_run_within_documents(tmp_path: Path) -> None:
    changes = ("model.mixer={kind: memorizing, heads: 2, window: 4, memory: 8}", *CARRY, "data.within_documents=true")
    tiny(tmp_path / "whole", *changes)
    tiny(tmp_path / "parts", *changes, "training.batches=4")
    tiny(tmp_path / "parts", *changes)
    whole, parts = newest(tmp_path / "whole"), newest(tmp_path / "parts")
    assert all(torch.equal(tensor, parts.tensors["model"][name]) for name, tensor in whole.tensors["model"].items())


@pytest.mark.slow
def test_a_run_that_stopped_goes_on_bit_for_bit(tmp_path: Path) -> None:
    changes = ("model.mixer.kind=gru", "training.through=2", *CARRY)
    tiny(tmp_path / "whole", *changes)
    tiny(tmp_path / "parts", *changes, "training.batches=4")
    tiny(tmp_path / "parts", *changes)
    whole, parts = newest(tmp_path / "whole"), newest(tmp_path / "parts")
    assert whole.tensors["carried"].keys() == {"extra.length", "layers.0.0.h", "layers.0.0.length", "layers.0.1.length"}
    for group, tensors in whole.tensors.items():
        for name, tensor in tensors.items():
            assert torch.equal(tensor, parts.tensors[group][name]), name
    losses = [[row["loss"] for row in rows(tmp_path / name) if "loss" in row] for name in ("whole", "parts")]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 9


REFUSED = [
    (["model.position.kind=learned"], "absolute model.position=learned was not trained: choose a relative one"),
    (["training.accumulate=2"], "without training.accumulate=2, which reads rows one after the other: choose one"),
    (["training.compile=true"], "without training.compile: choose one"),
    (["data.packed=true"], "without data.packed: choose one"),
    (["training.objective.kind=probe"], "without training.objective.kind=probe: choose one"),
    (["training.memory=none", "training.through=2"], "set training.memory=carry as well"),
    (["training.through=0"], "training.through: input should be greater than or equal to 1"),
    (["training.stages=[{batches: 9, context: 8}]", "training.batches=9"], "without training.stages with a context"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_what_does_not_go_with_it(changes: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve("tiny", ["data.source=x", *CARRY, *changes])


def test_runs_without_it_keep_their_identity() -> None:
    plain = resolve("tiny", ["data.source=x"]).identity("text")["training"]
    assert not {"memory", "through"} & plain.keys()


def nats(model: Model, ids: Tensor) -> Tensor:
    """Of every token of ids (B, T + 1) but the first, read at once: (B, T)."""
    return cross_entropy(model(ids[:, :-1]).transpose(1, 2), ids[:, 1:], reduction="none")


def gradients(model: Model, loss: Tensor) -> Tensor:
    actual = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    return torch.cat([each.flatten() for each in actual if each is not None])


def in_turn(objective: CarriedNextToken, model: Any, batches: list[Batch]) -> Tensor:
    total, carried = torch.zeros((), dtype=torch.float64), {}
    for batch in batches:
        done = objective.losses(model, batch, carried)
        total, carried = total + done.losses["loss"], done.carried
    return total


XL = ("model.mixer.kind=transformer_xl", "model.mixer.memory=3", *CARRY)


@pytest.mark.slow
def test_transformer_xl_resumes_bit_for_bit_and_carries_its_inputs(tmp_path: Path) -> None:
    tiny(tmp_path / "whole", *XL, "training.batches=6")
    tiny(tmp_path / "parts", *XL, "training.batches=4")
    tiny(tmp_path / "parts", *XL, "training.batches=6")
    whole, parts = newest(tmp_path / "whole").tensors, newest(tmp_path / "parts").tensors
    for group, tensors in whole.items():
        for name, tensor in tensors.items():
            assert torch.equal(tensor, parts[group][name]), name
    carried = parts["carried"]
    assert {tuple(tensor.shape[1:2]) for name, tensor in carried.items() if name.endswith(".x")} == {(3,)}


COMPRESSIVE = (
    "model.mixer={kind: compressive, heads: 2, memory: 4, compressed: 3, rate: 2}",
    *(*CARRY, "data.within_documents=true"),
)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["attention", "autoencoding", "none"])
def test_compressive_that_is_killed_goes_on_bit_for_bit_with_both_memories(loss: str, tmp_path: Path) -> None:
    by = "most_used" if loss == "none" else "convolution"
    settings = (*COMPRESSIVE, f"model.mixer.loss={loss}", f"model.mixer.compression={by}", "training.batches=6")
    tiny(tmp_path / "whole", *settings)
    assert apart(tmp_path / "parts", *settings, arm=at_row(5, signal.SIGKILL)) == -signal.SIGKILL
    assert newest(tmp_path / "parts").step == 4
    tiny(tmp_path / "parts", *settings)
    whole, parts = newest(tmp_path / "whole").tensors, newest(tmp_path / "parts").tensors
    for group, tensors in whole.items():
        for name, tensor in tensors.items():
            assert torch.equal(tensor, parts[group][name]), name
    assert rows(tmp_path / "whole") == rows(tmp_path / "parts")
    sizes = {name.rsplit(".", 1)[-1]: tuple(tensor.shape[1:2]) for name, tensor in parts["carried"].items()}
    assert (sizes["x"], sizes["slots"]) == ((4,), (3,))
    assert ("received" in sizes) == (by == "most_used")


@pytest.mark.slow
def test_the_loss_of_the_compression_does_not_shrink_the_steps_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another weight of it leaves the first step of the others at the same bits: the norm that clips is without it."""
    after = {}
    for weight in (1.0, 30.0):
        weights = property(lambda self, weight=weight: {"attention_reconstruction": weight})
        monkeypatch.setattr(CompressiveAttention, "loss_weights", weights)
        tiny(tmp_path / str(weight), *COMPRESSIVE, "training.clip=1e-6", "training.batches=1")
        after[weight] = newest(tmp_path / str(weight)).tensors["model"]
    differ = {name for name, tensor in after[1.0].items() if not torch.equal(tensor, after[30.0][name])}
    assert differ
    assert all(name.endswith("compression.w_c.weight") for name in differ)


@pytest.mark.slow
def test_memory_of_another_length_in_evaluation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    tiny(folder, *XL, "training.batches=4", "data.source=stories:30:0")
    (tmp_path / "text.txt").write_text("One day Tom went out. " * 40)
    words = ["evaluate", str(folder), "--data", str(tmp_path / "text.txt"), "--json"]
    loss = {}
    for length in ("1", "3", "20"):
        assert command([*words, "--memory-length", length]) == 0
        row = json.loads(capsys.readouterr().out)
        assert row["memory_length"] == int(length)
        loss[length] = row["held_out"]
    assert command(words) == 0
    assert json.loads(capsys.readouterr().out)["held_out"] == loss["3"]
    assert len(set(loss.values())) == 3
    assert command([*words, "--memory-length", "0"]) == 2
    assert "--memory-length" in capsys.readouterr().err
    assert command([*words, "--memory-length", "3", "--memory", "none"]) == 2
    assert "add --memory carry" in capsys.readouterr().err


@pytest.mark.slow
def test_compressive_is_evaluated_with_a_memory_of_whole_blocks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    tiny(folder, *COMPRESSIVE, "training.batches=4", "data.source=stories:30:0")
    (tmp_path / "text.txt").write_text("One day Tom went out. " * 40)
    words = ["evaluate", str(folder), "--data", str(tmp_path / "text.txt"), "--json"]
    loss = {}
    for length in ("2", "4", "12"):
        assert command([*words, "--memory-length", length]) == 0
        loss[length] = json.loads(capsys.readouterr().out)["held_out"]
    assert len(set(loss.values())) == 3
    assert command([*words, "--memory-length", "5"]) == 2
    output = capsys.readouterr().err
    assert "a memory of 5 is not of whole blocks of rate 2: choose 4 or 6" in output
    assert len(output.splitlines()) == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("model.mixer.rate=3", "a memory of 128 is not of whole blocks of rate 3: choose 126 or 129"),
        ("model.mixer.compression=max", "max learns nothing: set loss: none, or compression: convolution"),
        ("model.mixer.dilation=50", "a dilation of 50 at rate 4 reads over 150 tokens"),
        ("model.position=learned", r"absolute model\.position=learned"),
    ],
)
def test_compressive_refuses_in_one_line(change: str, says: str, tmp_path: Path, capsys: Any) -> None:
    assert command(["train", "compressive/small", "--set", change, "--out", str(tmp_path / "new")]) == 2
    output = capsys.readouterr().err
    assert re.search(says, output), output
    assert len(output.splitlines()) == 1


@pytest.mark.slow
def test_memory_of_a_set_length_needs_a_mixer_that_has_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    tiny(folder, "model.mixer.kind=gru", *CARRY, "training.batches=2", "data.source=stories:30:0")
    (tmp_path / "text.txt").write_text("One day Tom went out. " * 40)
    assert command(["evaluate", str(folder), "--data", str(tmp_path / "text.txt"), "--memory-length", "3"]) == 2
    assert "gru has no memory of a set length" in capsys.readouterr().err


def test_transformer_xl_takes_no_absolute_positions() -> None:
    with pytest.raises(ValueError, match=r"absolute model\.position=sinusoidal"):
        resolve("transformer_xl/small", ["model.position=sinusoidal"])


@pytest.mark.slow
def test_a_run_is_evaluated_as_it_was_trained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    outcome = tiny(folder, "model.mixer.kind=gru", *CARRY, "training.batches=4", "data.source=stories:30:0")
    assert outcome.score is not None
    (tmp_path / "text.txt").write_text("One day Tom went out. " * 40)
    words = [str(folder), "--data", str(tmp_path / "text.txt"), "--json"]
    read = {}
    for memory in ([], ["--memory", "carry"], ["--memory", "none"]):
        assert command(["evaluate", *words, *memory]) == 0
        read[tuple(memory)] = json.loads(capsys.readouterr().out)
    assert read[()] == read["--memory", "carry"]
    assert read[()]["memory"] == "carry"
    assert read[()]["held_out"] != read["--memory", "none"]["held_out"]
    assert command(["evaluate", *words, "--stride", "3"]) == 2
    assert "add --memory none" in capsys.readouterr().err
