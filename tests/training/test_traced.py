"""A training step of every causal mixer is one graph: model, losses and backward, traced without a break."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.fx._lazy_graph_module import _use_lazy_graph_module

from seqloom.core.graphs import as_in_a_graph, without_reading
from seqloom.ops.backends import record_backends, use
from seqloom.training.step import Learner
from tests.contract.cases import CASES, Case
from tests.training.test_step import updates

CAUSAL = [case for case in CASES if case.first and case.causal]


@pytest.fixture(autouse=True, scope="module")
def without_reports() -> Iterator[None]:
    """As in the contract's tests of graphs."""
    quiet = torch._dynamo.config.patch(side_effect_replay_policy="silent")
    with pytest.MonkeyPatch.context() as patch, _use_lazy_graph_module(True), quiet:
        patch.setattr(torch.fx.config, "do_not_emit_stack_traces", True)
        patch.setattr(torch._dynamo.guards, "profile_guard_manager", lambda *_: 0.0)
        yield


def losses_and_gradients(learner: Learner, run, batch: dict[str, Tensor]) -> list[Tensor]:
    """The losses of a batch and the gradients of their sum to all parameters."""
    learner.zero_grad()
    with without_reading():
        result = run(batch, {})
    losses = [*result.losses.values(), *result.extras.losses.values()]
    torch.stack(losses).sum().backward()
    gradients = [parameter.grad for parameter in learner.parameters()]
    return [*(loss.detach() for loss in losses), *(grad.clone() for grad in gradients if grad is not None)]


@pytest.mark.slow
@pytest.mark.parametrize("case", CAUSAL, ids=str)
def test_a_step_of_every_causal_mixer_is_one_graph(case: Case) -> None:
    """Backward included, with the numbers of the step as it is by the same backends."""
    torch._dynamo.reset()
    learner = updates(case, "next_token").learner.double()
    for module in learner.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    batch = learner.objective.batch(0, 0, learner.model)
    with as_in_a_graph(True), record_backends() as ran:
        learner(batch, {})
    with use(**{op: names[0] for op, names in ran.items() if len(names) == 1}):
        expected = losses_and_gradients(learner, learner, batch)
    graph = torch.compile(learner, fullgraph=True, backend="aot_eager")
    for one, other in zip(losses_and_gradients(learner, graph, batch), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)
