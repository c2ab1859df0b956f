"""A1: whether this machine computes what it should, in half a minute; after a fault nothing else runs.

    versions · a captured step of each queued model against the same uncaptured · each of fla's rules against float64

A captured step must be captured, and change the weights as the uncaptured one does. Sums and rules of fla, whose
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
from seqloom.studies.random_batches import random_updates
from seqloom.studies.study import Row, Study
from seqloom.training.captured import chosen_steps
from seqloom.training.config import RunConfig
from seqloom.training.loop import Updates
from seqloom.training.settings import resolve
from seqloom_studies.gpu.on_card import OnCard
from seqloom_studies.gpu.queue import Place

STEPS = 3
"""steps after which weights are compared"""
CLOSE_WEIGHTS = 0.5
"""‖captured - eager‖ / ‖eager - start‖ of the weights. They are the same bits where a card's sums have a fixed order;
where not, AdamW makes a whole step of the rounding of a gradient near 0. Steps on another batch, or none, give 1 or
more."""
CLOSE_LOSSES = 1e-2
"""the most by which a loss may differ, of itself"""
CLOSE_SUMS = 2e-2
"""‖ours - reference‖ / ‖reference‖ that products in bfloat16, of 8 bits, may give"""
B, H, T, K, V = 2, 2, 70, 24, 40
"""a chunk and a part of the next; widths that are no powers of 2"""
Run: TypeAlias = Callable[..., tuple[Tensor, Tensor]]
Rule: TypeAlias = tuple[str, Run, list[Tensor | None]]
"""an op, a function of its inputs, and these, the state last"""


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
                rows += _check_step(name, config, self.card.device)
                advance(note=name)
            if self.card.device == "cuda" and (reason := gpu.why()):
                raise ValueError(reason)
            for name, make in RULES.items():
                rows.append(_check_rule(name, make) if not fla.why() else Check(what=name, note=fla.why()))
                advance(note=name)
        for row in rows:
            if row.fault:
                raise ValueError(f"{row.what} are off by {row.difference:.2g}, and at most {row.bound:g} is right")
        return rows

    def text(self, rows: Sequence[Check]) -> str:
        """The versions and the number of checks."""
        return f"{rows[0].note}; {sum(row.difference is not None for row in rows)} checks passed"


@final
@dataclass(frozen=True)
class Trained:
    """A model after steps."""

    start: Tensor
    """all its weights before them"""
    weights: Tensor
    losses: list[float]
    graph: str


def _check_step(name: str, config: RunConfig, device: str) -> list[Check]:
    """The weights and losses of captured steps next to the same uncaptured. ValueError where nothing was captured."""
    eager, captured = (_train_steps(name, config, graph, device) for graph in ("none", "auto"))
    moved = (captured.weights - eager.weights).norm() / (eager.weights - eager.start).norm()
    losses = [abs(ours / there - 1) for ours, there in zip(captured.losses, eager.losses, strict=True)]
    note = "the same bits" if torch.equal(captured.weights, eager.weights) else ""
    if captured.graph != "capture":
        note = "not captured, which needs a GPU"
    dropped = config.layered_model.dropout > 0  # whether a graph draws the same bits is a question, and no fault
    weights_bound, losses_bound = (None, None) if dropped else (CLOSE_WEIGHTS, CLOSE_LOSSES)
    return [
        Check(what=f"weights after captured steps of {name}", difference=float(moved), bound=weights_bound, note=note),
        Check(what=f"losses of captured steps of {name}", difference=max(losses), bound=losses_bound, note=note),
    ]


def _train_steps(name: str, config: RunConfig, graph: str, device: str) -> Trained:
    """The model after steps. ValueError where they should be captured and were not."""
    said: list[str] = []
    with torch.random.fork_rng():
        torch.manual_seed(0)
        updates = random_updates(config.model, config.training.model_copy(update={"graph": graph}))
        start = _weights(updates)
        steps = chosen_steps(updates, None, said.append)
        done = [*(steps(number) for number in range(STEPS)), steps.wait()]
    if takes_graphs(torch.device(device)) and graph != "none" and steps.graph != "capture":
        raise ValueError(f"a step of {name} was not captured: {said[-1] if said else 'for no reason'}")
    losses = [update.loss for update in done if update is not None and update.loss is not None]
    return Trained(start, _weights(updates), losses, steps.graph)


def _weights(updates: Updates) -> Tensor:
    """A copy of all weights, as one list of numbers."""
    return torch.cat([parameter.detach().double().flatten() for parameter in updates.learner.parameters()])


def _check_rule(name: str, make: Callable[[], Rule]) -> Check:
    """The outputs and gradients of fla's kernels next to those of the reference in float64."""
    op, run, inputs = make()
    exact, ours = (_everything(op, backend, run, inputs) for backend in ("reference", "fla"))
    pairs = zip(ours, exact, strict=True)
    difference = max(((y.double() - there).norm() / there.norm().clamp_min(1e-6)).item() for y, there in pairs)
    return Check(what=name, difference=difference, bound=CLOSE_SUMS)


def _everything(op: str, backend: str, run: Run, inputs: list[Tensor | None]) -> list[Tensor]:
    """The outputs, and the gradients of all inputs; for fla these are narrow, but decays and the state are float32."""
    leaves = []
    for number, x in enumerate(inputs):
        wide = number == len(inputs) - 1 or (x is not None and bool((x <= 0).all()))
        dtype = torch.float64 if backend == "reference" else torch.float32 if wide else fla.NARROW[0]
        leaves.append(None if x is None else x.detach().to(dtype).requires_grad_())
    with use(**{op: backend}):
        outputs = run(*leaves)
    total = torch.stack([(y.double() * _draw(*y.shape, seed=99)).sum() for y in outputs]).sum()
    return [*outputs, *torch.autograd.grad(total, [leaf for leaf in leaves if leaf is not None])]


def _draw(*shape: int, seed: int) -> Tensor:
    """Numbers that narrow dtypes hold exactly, on the card."""
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return drawn.to(fla.NARROW[0]).double().to("cuda" if torch.cuda.is_available() else "cpu")


def _unit(seed: int) -> Tensor:
    x = _draw(B, H, T, K, seed=seed)
    return (x / x.norm(dim=-1, keepdim=True)).to(fla.NARROW[0]).double()


def _decay(*shape: int) -> Tensor:
    return -_draw(*shape, seed=5).square() / 8


def _sum(log_decay: Callable[[], Tensor | None]) -> Callable[[], Rule]:
    """The decaying sum."""

    def make() -> Rule:
        q, k, v = _draw(B, H, T, K, seed=0), _draw(B, H, T, K, seed=1), _draw(B, H, T, V, seed=2)
        return "linear_decay", decay, [q, k, v, log_decay(), _draw(B, H, K, V, seed=9)]

    return make


def _rule(log_decay: Callable[[], Tensor | None], write: bool = False) -> Callable[[], Rule]:
    """The delta rule; `write`: with keys to write that are not those to read."""

    def make() -> Rule:
        q, v = _draw(B, H, T, K, seed=0), _draw(B, H, T, V, seed=2)
        k, erase, written = _unit(1), _unit(3), _unit(4) if write else None
        return "delta_rule", delta, [q, k, v, erase, written, log_decay(), _draw(B, H, K, V, seed=9)]

    return make


RULES: dict[str, Callable[[], Rule]] = {
    "fla's sum without decay": _sum(lambda: None),
    "fla's sum, a decay per token": _sum(lambda: _decay(B, H, T)),
    "fla's sum, a decay per channel": _sum(lambda: _decay(B, H, T, K)),
    "fla's rule without decay": _rule(lambda: None),
    "fla's rule, a decay per token": _rule(lambda: _decay(B, H, T)),
    "fla's rule, a decay per channel": _rule(lambda: _decay(B, H, T, K), write=True),
}


def smoke_study(place: Place, code: str) -> Study:
    """A1: the models of A2 and A3 without dropout, and one with."""
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
    dropout = [*place.sizes.table1, f"training.device={place.card.device}", "model.mixer={kind: he}"]
    models["he of A2 with dropout"] = resolve("paper/table1", dropout)
    cell = Smoke(name="checks", models=models, card=place.card, code_digest=code)
    return Study("A1", {}, lambda results: iter([[cell]]))
