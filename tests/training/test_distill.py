"""Distillation on the one trainer: its stages, what learns in them, its memory, and that it continues bit for bit."""

from pathlib import Path
from typing import Any

import pytest
import torch

import seqloom
from seqloom.core.rest import Rest
from seqloom.models.swap import swap
from seqloom.runs.layout import find_run
from seqloom.training.config import RunConfig
from seqloom.training.preparation import learner_of, prepare_run
from seqloom.training.settings import resolve
from seqloom.training.step import Learner
from seqloom.training.train import train

IDS = torch.randint(0, 200, (3, 9), generator=torch.Generator().manual_seed(0))
LLAMA = ["model.dim=16", "model.depth=3", "model.context=16", "model.ffn.width=24", "data.vocab=300"]


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("distill") / "teacher"
    changes = [*LLAMA, "training.batches=60", "training.lr=0.01", "training.evaluate_every=0"]
    train(resolve("llama/small", changes, source="stories:60"), folder)
    return folder


@pytest.fixture(scope="module")
def start(teacher: Path) -> Path:
    model = seqloom.load(teacher)
    swapped = seqloom.swap(model, {0: "gated_delta", 2: "gated_delta"})
    return seqloom.save(swapped, teacher.parent / "start")


def settings(teacher: Path, start: Path, *changes: str) -> RunConfig:
    model = find_run(start).settings["model"]
    values = {
        "model": model,
        "data": {"source": "stories:60", "tokenizer": str(teacher / "tokenizer.json"), "vocab": None},
        "training": {
            "batches": 8, "batch": 4, "lr": 3e-3, "begin": str(start), "save_every": 3,
            "objective": {"kind": "distill", "teacher": str(teacher), "sublayers": 2, "states": 2, "logits": 2},
        },
    }  # fmt: skip
    for change in changes:
        name, _, value = change.partition("=")
        values["training"][name] = value if not value.isdigit() else int(value)
    return RunConfig.model_validate(values)


def learner(teacher: Path, start: Path) -> Learner:
    config, corpus = prepare_run(settings(teacher, start))
    made = learner_of(config, corpus)
    made.model.load_state_dict(seqloom.load(start).state_dict())
    return made.train()


def losses(made: Learner, step: int) -> torch.Tensor:
    return made(made.objective.batch(0, step, made.model), {}).losses["loss"]


def test_with_attention_back_in_place_the_model_is_its_teacher(teacher: Path, start: Path) -> None:
    made = learner(teacher, start)
    expected = seqloom.load(teacher)(IDS)
    student = made.model(IDS)
    with Rest(made.model), made.objective.replaced.in_place(made.model):
        torch.testing.assert_close(made.model(IDS), expected)
    assert torch.equal(made.model(IDS), student)
    assert not torch.allclose(student, expected)


@pytest.mark.parametrize(("step", "stage"), [(0, "sublayers"), (2, "states"), (4, "logits"), (6, "loss")])
def test_in_each_stage_the_right_weights_learn(teacher: Path, start: Path, step: int, stage: str) -> None:
    made = learner(teacher, start)
    losses(made, step).backward()
    names = {name for name, parameter in made.named_parameters() if parameter.grad is not None}
    new = {
        name for name, _ in made.named_parameters() if name.startswith(("model.layers.0.mixer", "model.layers.2.mixer"))
    }
    assert names >= new
    assert (names == new) == (stage != "loss")
    assert not any(name.startswith("objective") for name in names)


def test_a_student_that_computes_what_attention_does_has_no_loss(teacher: Path, tmp_path: Path) -> None:
    """A window as long as the context is attention itself, so that the first three losses are 0."""
    model = seqloom.load(teacher)
    same = {"kind": "attention", "heads": 4, "kv_heads": 2, "window": 16, "bias": "none"}
    swapped, _ = swap(model, {1: same})
    swapped.mixers[1].load_state_dict(model.mixers[1].state_dict())
    swapped.tokenizer = model.tokenizer
    made = learner(teacher, seqloom.save(swapped, tmp_path / "start"))
    for step in (0, 2, 4):
        assert losses(made, step).item() == pytest.approx(0, abs=1e-6)
    assert losses(made, 6).item() > 1


def test_the_loss_of_a_sublayer_is_its_relative_error(teacher: Path, start: Path) -> None:
    made = learner(teacher, start)
    ids = made.objective.batch(0, 0, made.model)["ids"][:, :-1]
    old, x, total = seqloom.load(teacher), None, 0.0
    with torch.no_grad():
        x = old.token(ids)
        for number, block in enumerate(old.blocks):
            z = block.norm_1(x)
            y = block.mixer(z)
            if number != 1:
                found = made.model.mixers[number](z)
                total += ((found - y) ** 2).mean() / y.var()
            x = x + y
            x = x + block.ffn(block.norm_2(x))
    assert losses(made, 0).item() == pytest.approx(float(total), rel=1e-4)


def test_it_goes_on_bit_for_bit_through_the_stages(teacher: Path, start: Path, tmp_path: Path) -> None:
    whole = train(settings(teacher, start), tmp_path / "whole")
    for batches in (3, 5, 8):
        part = train(settings(teacher, start, f"batches={batches}"), tmp_path / "parts")
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, part.model.state_dict()[name]), name
    assert part.first == 5


def test_the_first_stages_hold_one_model_and_the_new_sublayers_memory(teacher: Path, start: Path) -> None:
    """Bytes of weights are those of the model and of attention, gradients and moments those of the new sublayers."""
    from seqloom.training.optimizers import optimizer

    made = learner(teacher, start)
    config = settings(teacher, start)
    adam = optimizer(made.model, config.training, made.objective)
    for step in (0, 2, 4):
        losses(made, step).backward()
        adam.step()
    new = sum(parameter.nbytes for number in (0, 2) for parameter in made.model.mixers[number].parameters())
    attention = sum(parameter.nbytes for parameter in made.objective.replaced.parameters())
    weights = sum(parameter.nbytes for parameter in made.parameters())
    assert weights == sum(parameter.nbytes for parameter in made.model.parameters()) + attention
    gradients = sum(parameter.grad.nbytes for parameter in made.parameters() if parameter.grad is not None)
    moments = sum(tensor.nbytes for name, tensor in adam.tensors().items() if not name.endswith(".step"))
    assert gradients <= new
    assert moments == 2 * new


def test_the_first_stage_keeps_only_the_inputs_of_the_sublayers(teacher: Path, start: Path) -> None:
    """The tensors that the backward needs: inputs and outputs of attention, not what is inside of the new sublayers."""
    made = learner(teacher, start)
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    weights = {parameter.untyped_storage().data_ptr() for parameter in made.parameters()}
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = losses(made, 0)
    activations = sum(size for pointer, size in kept.items() if pointer not in weights)
    stream = 4 * 16 * 16 * 4  # rows, tokens, dim, bytes
    assert activations <= 2 * 2 * stream + 1024
    loss.backward()


@pytest.mark.slow
def test_layers_that_are_computed_again_learn_the_same(teacher: Path, start: Path, tmp_path: Path) -> None:
    whole = train(settings(teacher, start), tmp_path / "whole").model.state_dict()
    again = train(settings(teacher, start, "recompute=layer"), tmp_path / "again").model.state_dict()
    for name, weight in whole.items():
        torch.testing.assert_close(again[name], weight, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"begin": None}, "begins with the swapped model"),
        ({"objective": {"kind": "distill"}}, "needs training.objective.teacher"),
    ],
)
def test_settings_that_do_not_fit_are_refused(teacher: Path, start: Path, change: dict[str, Any], message: str) -> None:
    values = settings(teacher, start).model_dump(mode="json")
    values["training"] |= change
    with pytest.raises(ValueError, match=message):
        RunConfig.model_validate(values)


def test_another_teacher_is_refused(teacher: Path, start: Path, tmp_path: Path) -> None:
    values = settings(teacher, start).model_dump(mode="json")
    values["training"]["objective"]["teacher"] = str(start)
    with pytest.raises(ValueError, match="no layer differs"):
        prepare_run(RunConfig.model_validate(values))
    values["training"]["objective"]["teacher"] = str(teacher)
    values["data"]["tokenizer"] = "bytes"
    with pytest.raises(ValueError, match="another tokenizer"):
        prepare_run(RunConfig.model_validate(values))
    other = seqloom.decoder("attention", vocab=300, dim=8, depth=3, context=16)
    values["training"]["objective"]["teacher"] = str(seqloom.save(other, tmp_path / "other"))
    with pytest.raises(ValueError, match="the teacher has dim 8, this model 16"):
        prepare_run(RunConfig.model_validate(values))
