"""The memory of a step, counted without values, against what torch's profiler saw of a step with values."""

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from seqloom.training.live_bytes import count_pass
from seqloom.training.preparation import new_learner
from seqloom.training.settings import resolve
from tests.training.running import mixer

TEXT = ("data.source=stories", "data.vocab=600", "training.batch=4")
PASSES = {
    "llama": ("llama/small", "model.context=64"),
    "recomputed": ("llama/small", "training.recompute=layer", "training.precision=bf16"),
    "hybrid": ("gated_delta/small", "model.context=64"),
    "pieces": ("tiny", mixer("gated_delta"), "model.context=128", "training.pieces=4"),
    "chunks of logits": ("tiny", mixer("he"), "model.context=512", "data.vocab=5000"),
    "dropout": ("paper/small", "model.context=128"),
    "encoder": ("encoder/small", "model.depth=2"),
    "universal": ("universal/small",),
}
QUICK = ("llama", "recomputed")


def peak(profiled: profile) -> int:
    """The most bytes that torch's allocator had given at once since the profile began."""
    assert profiled.profiler is not None
    events = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in PASSES]
)
def test_a_pass_has_the_bytes_that_were_counted(name: str) -> None:
    preset, *changes = PASSES[name]
    config = resolve(preset, [*TEXT, *changes])
    objective = config.training.objective.build_on_random(config.model, config.training.batch)
    model = config.model.build().train()
    if config.training.recompute == "layer":
        model.recompute_layers()
    learner = new_learner(model, objective, config.training)
    batch = objective.batch(0, 0, model)
    for _ in range(2):  # the first makes what is kept
        learner.zero_grad(set_to_none=True)
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
            with config.training.autocast(torch.device("cpu")):
                result = learner(batch, {})
            losses = [*result.losses.values(), *result.extras.losses.values()]
            sum(losses[1:], losses[0]).backward()
    assert count_pass(config, config.training.batch).with_gradients == pytest.approx(peak(profiled), rel=0.05)


def test_the_random_numbers_of_the_process_stay() -> None:
    before = torch.get_rng_state()
    needed = count_pass(resolve("tiny", ["data.source=stories"]), 2)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_default_dtype() == torch.float32
    assert needed.with_gradients >= needed.without_gradients > 0


def test_twice_the_rows_have_about_twice_the_bytes() -> None:
    config = resolve("tiny", [mixer("gru"), "data.source=stories"])
    assert count_pass(config, 64).without_gradients == pytest.approx(
        2 * count_pass(config, 32).without_gradients, rel=0.1
    )
