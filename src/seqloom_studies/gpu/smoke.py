"""A1: whether this machine computes what it should, in half a minute; after a fault nothing else runs.

    versions · a captured step of each queued model against the same uncaptured · each of fla's rules against float64

A captured step must be captured and change the weights as the uncaptured one does. Sums and rules of fla, whose
products are in bfloat16, must be within 2% of the reference in norm, outputs and gradients.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, final

import torch
from torch import Tensor

from seqloom.core.progress import Say, Show
from seqloom.core.recording import takes_graphs
from seqloom.ops import fla, gpu
from seqloom.ops.backends import use
from seqloom.ops.delta_rule import delta
from seqloom.ops.linear_decay import decay
from seqloom.studies.noise import noise_updates
from seqloom.studies.study import Row, Study
from seqloom.training.captured import chosen_steps
from seqloom.training.config import RunConfig
from seqloom.training.settings import resolve
from seqloom_studies.gpu.on_card import OnCard
from seqloom_studies.gpu.queue import Place

STEPS = 3
"""steps after which weights are compared"""
CLOSE_WEIGHTS = 1e-4
"""the most by which weights may differ, of the largest: sums on a card have no fixed order"""
CLOSE_SUMS = 2e-2
"""‖ours - reference‖ / ‖reference‖ that products in bfloat16, of 8 bits, may give"""
Rule: TypeAlias = tuple[str, Callable[..., tuple[Tensor, Tensor]], list[Tensor | None]]


@final
class Check(Row):
    """What was compared, by how much it differs, and how much it may."""

    what: str
    difference: float | None = None
    bound: float | None = None
    note: str = ""

    @property
    def fault(self) -> bool:
        """Whether it differs by more than it may."""
        return self.difference is not None and self.bound is not None and not self.difference <= self.bound


@final
@dataclass(frozen=True, kw_only=True)
class Smoke(OnCard):
    """All checks. ValueError, which names it, for the first that fails."""

    schema: ClassVar = Check

    def run(self, folder: Any, say: Say, show: Show) -> Sequence[Row]:
        """A row for each check."""
        versions = ", ".join(f"{name} {version or 'is not here'}" for name, version in self.card.versions.items())
        rows = [Check(what="versions", note=f"{self.card.name}, {versions}")]
        with show("checks", len(self.models) + len(RULES), "checks") as advance:
            for name, config in self.models.items():
                rows.append(_check_step(name, config, self.card.device))
                advance(note=name)
            if self.card.device == "cuda" and (reason := gpu.why()):
                raise ValueError(reason)
            for name, make in RULES.items():
                rows.append(_check_rule(name, make) if not fla.why() else Check(what=name, note=fla.why()))
                advance(note=name)
        for row in rows:
            if row.fault:
                raise ValueError(f"{row.what} differs by {row.difference:.2g}, and at most {row.bound:g} is right")
        return rows

    def text(self, rows: Sequence[Check]) -> str:
        """The versions and the number of checks."""
        return f"{rows[0].note}; {sum(row.difference is not None for row in rows)} checks passed"


@final
@dataclass(frozen=True)
class Trained:
    """A model after steps."""

    weights: list[Tensor]
    losses: list[float | None]
    graph: str


def _check_step(name: str, config: RunConfig, device: str) -> Check:
    """The weights after captured steps and after the same uncaptured. ValueError where nothing was captured."""
    eager, captured = (_trained(name, config, graph, device) for graph in ("none", "auto"))
    pairs = zip(eager.weights, captured.weights, strict=True)
    difference = max(_of_largest(other - one, one) for one, other in pairs)
    note = "losses are equal" if eager.losses == captured.losses else "losses differ"
    if captured.graph != "capture":
        note = "not captured, which needs a GPU"
    return Check(what=f"a captured step of {name}", difference=difference, bound=CLOSE_WEIGHTS, note=note)


def _trained(name: str, config: RunConfig, graph: str, device: str) -> Trained:
    """The model after steps. ValueError where they should be captured and were not."""
    said: list[str] = []
    with torch.random.fork_rng():
        torch.manual_seed(0)
        updates = noise_updates(config.model, config.training.model_copy(update={"graph": graph}))
        steps = chosen_steps(updates, None, said.append)
        done = [*(steps(number) for number in range(STEPS)), steps.wait()]
    if takes_graphs(torch.device(device)) and graph != "none" and steps.graph != "capture":
        raise ValueError(f"a step of {name} was not captured: {said[-1] if said else 'for no reason'}")
    losses = [update.loss for update in done if update is not None]
    return Trained([weight.detach().clone() for weight in updates.learner.parameters()], losses, steps.graph)


def _of_largest(error: Tensor, values: Tensor) -> float:
    return (error.abs().max() / values.abs().max().clamp_min(1e-30)).item()


def _check_rule(name: str, make: Callable[[], Rule]) -> Check:
    """The outputs and gradients of fla's kernels next to those of the reference in float64."""
    op, run, inputs = make()
    results = {}
    for backend, dtype in (("reference", torch.float64), ("fla", fla.NARROW[0])):
        leaves = [None if x is None else x.detach().to(dtype).requires_grad_() for x in inputs]
        with use(**{op: backend}):
            y, state = run(*leaves)
        variables = [leaf for leaf in leaves if leaf is not None]
        slopes = torch.autograd.grad([y, state], variables, [torch.ones_like(y), torch.ones_like(state)])
        results[backend] = [y, state, *slopes]
    pairs = zip(results["fla"], results["reference"], strict=True)
    difference = max(((ours.double() - there).norm() / there.norm()).item() for ours, there in pairs)
    return Check(what=name, difference=difference, bound=CLOSE_SUMS)


B, H, T, K, V = 2, 2, 128, 32, 64


def _draw(*shape: int, seed: int) -> Tensor:
    """Numbers that bfloat16 holds exactly, on the card."""
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return drawn.bfloat16().double().to("cuda" if torch.cuda.is_available() else "cpu")


def _unit(seed: int) -> Tensor:
    x = _draw(B, H, T, K, seed=seed)
    return (x / x.norm(dim=-1, keepdim=True)).bfloat16().double()


def _decay_of(*shape: int) -> Tensor:
    return (-_draw(*shape, seed=5).square() / 8).bfloat16().double()


def _sum(log_decay: Callable[[], Tensor | None]) -> Callable[[], Rule]:
    """The decaying sum."""

    def make() -> Rule:
        q, k, v = _draw(B, H, T, K, seed=0), _draw(B, H, T, K, seed=1), _draw(B, H, T, V, seed=2)
        return "linear_decay", decay, [q, k, v, log_decay()]

    return make


def _rule(log_decay: Callable[[], Tensor | None], write: bool = False) -> Callable[[], Rule]:
    """The delta rule; `write`: with keys to write that are not those to read."""

    def make() -> Rule:
        q, v = _draw(B, H, T, K, seed=0), _draw(B, H, T, V, seed=2)
        return "delta_rule", delta, [q, _unit(1), v, _unit(3), _unit(4) if write else None, log_decay()]

    return make


RULES: dict[str, Callable[[], Rule]] = {
    "fla's sum without decay": _sum(lambda: None),
    "fla's sum, a decay per token": _sum(lambda: _decay_of(B, H, T)),
    "fla's sum, a decay per channel": _sum(lambda: _decay_of(B, H, T, K)),
    "fla's rule without decay": _rule(lambda: None),
    "fla's rule, a decay per token": _rule(lambda: _decay_of(B, H, T)),
    "fla's rule, a decay per channel": _rule(lambda: _decay_of(B, H, T, K), write=True),
}


def smoke_study(place: Place, code: str) -> Study:
    """A1: the models of A2 and A3, without dropout."""
    off = ["model.dropout=0", f"training.device={place.card.device}"]
    table1, wide = [*place.sizes.table1, *off], [*place.sizes.wide, *off, "training.precision=bf16"]
    mixers = {"attention:heads=32": "{kind: attention, heads: 32}", "he": "{kind: he}", "she": "{kind: she}"}
    models = {
        f"{name} of A2": resolve("paper/table1", [*table1, f"model.mixer={mixer}"]) for name, mixer in mixers.items()
    }
    models |= {
        f"{name} of A3": resolve("board/small", [*wide, *changes])
        for name, changes in {
            "attention": [],
            "he": ["model.mixer={kind: he}"],
            "gated_delta": ["model.mixer={kind: gated_delta}"],
        }.items()
    }
    cell = Smoke(name="checks", models=models, card=place.card, code_digest=code)
    return Study("A1", {}, lambda results: iter([[cell]]))
