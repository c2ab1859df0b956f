"""`training.precision`: what `auto` stands for, that a run keeps it, and how matrices are multiplied meanwhile."""

from pathlib import Path
from typing import Any

import pytest
import torch

from seqloom.training import session
from seqloom.training.losses import Losses
from seqloom.training.objectives.next_token import NextToken
from seqloom.training.optimizers import optimizer
from seqloom.training.precision import matrix_products, resolve_precision
from seqloom.training.settings import resolve
from seqloom.training.step import Learner, Step
from tests.training.running import newest, rows, tiny
from tests.training.stepping import CONTEXT, decoder, noise

AUTO = "training.precision=auto"
GPU = torch.device("cuda")


def on_a_gpu(config: Any, device: torch.device, earlier: str | None) -> Any:
    return resolve_precision(config, GPU, earlier)


@pytest.mark.parametrize(("device", "expected"), [("cuda", "tf32"), ("cpu", "float32")])
def test_auto_is_the_device_s_or_what_the_run_began_in(device: str, expected: str) -> None:
    config = resolve("tiny", [AUTO]).training
    assert resolve_precision(config, torch.device(device), None).precision == expected
    for earlier in ("tf32", "float32"):
        assert resolve_precision(config, torch.device(device), earlier).precision == earlier
    for said in ("float32", "tf32", "bf16", "float64"):
        config = resolve("tiny", [f"training.precision={said}"]).training
        assert resolve_precision(config, torch.device(device), "tf32") == config
    assert resolve("tiny", [AUTO]).training.dtype == torch.float32


@pytest.mark.parametrize(("precision", "products"), [("float32", "highest"), ("tf32", "high"), ("bf16", "highest")])
def test_a_step_multiplies_in_its_precision_and_leaves_that_of_the_process(precision: str, products: str) -> None:
    """Its backward and its update too; also where the step ends with an error."""
    seen: list[str] = []
    model = decoder("he", depth=1)
    model.token.weight.register_hook(lambda grad: seen.append(torch.get_float32_matmul_precision()))
    config = resolve("tiny", [f"training.precision={precision}"]).training
    objective = NextToken(noise(), CONTEXT, 2)
    step = Step(Learner(model, objective), optimizer(model, config), config)
    batch = objective.batch(0, 0, model)

    def refuse(losses: Losses) -> None:
        seen.append(torch.get_float32_matmul_precision())
        raise ValueError("no")

    with matrix_products(resolve("tiny", ["training.precision=tf32"]).training):
        step([batch], [1.0], Losses.values)
        assert torch.get_float32_matmul_precision() == "high"
        with pytest.raises(ValueError, match="no"):
            step([batch], [1.0], refuse)
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == "highest"
    assert seen == [products] * 3


@pytest.mark.slow
def test_a_run_keeps_what_it_began_in_and_says_it(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(session, "resolve_precision", on_a_gpu)
        tiny(out, AUTO, "training.batches=3", say=lines.append)
    assert sum(" parameters in tf32; in " in line for line in lines) == 1
    assert newest(out).meta["surroundings"]["precision"] == "tf32"
    assert newest(out).meta["config"]["training"]["precision"] == "auto"
    for batches, drifts in ((6, False), (9, True)):
        lines.clear()
        tiny(out, AUTO, f"training.batches={batches}", say=lines.append, allow_drift=drifts)
        assert sum(" parameters in tf32; in " in line for line in lines) == 1
        assert newest(out).meta["surroundings"]["precision"] == "tf32"


@pytest.mark.slow
def test_a_run_of_a_stated_precision_is_stored_as_before(out: Path) -> None:
    lines: list[str] = []
    tiny(out / "plain", say=lines.append)
    assert sum(" parameters; in " in line for line in lines) == 1
    assert "precision" not in newest(out / "plain").meta["surroundings"]
    tiny(out / "auto", AUTO)
    assert rows(out / "auto") == rows(out / "plain")


@pytest.mark.slow
def test_a_checkpoint_with_a_precision_that_auto_never_stands_for_is_refused(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        session, "resolve_precision", lambda config, *given: config.model_copy(update={"precision": "bf16"})
    )
    tiny(out, AUTO, "training.batches=3")
    with pytest.raises(ValueError, match=r"does not say how its training goes on \(surroundings.precision: Input"):
        tiny(out, AUTO)
