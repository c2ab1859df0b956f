"""Kernels by turns: the backends of an op, forward and backward, in the sizes where its rule for a GPU is an estimate.

A backend whose outputs or gradients are not those of the first is left out, and so is one that cannot run here. A row
says which backend the rule chooses, so that a rule that the card contradicts is seen.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, final

import torch
from torch import Tensor

from seqloom.analysis.measure import race
from seqloom.core.progress import Say, Show
from seqloom.ops.attention import attend
from seqloom.ops.backends import record_backends, use
from seqloom.ops.delta_rule.gated import gated_delta
from seqloom.ops.lag_sum import lags
from seqloom.ops.linear_decay import decay
from seqloom.ops.scan import scan
from seqloom.ops.scan.selective_scan import selective
from seqloom.ops.wkv_average import wkv
from seqloom.studies.perform import reason
from seqloom.studies.study import Row, Study
from seqloom_studies.gpu.on_card import OnCard, free_memory
from seqloom_studies.gpu.queue import Place

CLOSE = {torch.float32: 2e-3, torch.bfloat16: 3e-2}
"""the most by which outputs and gradients may differ from those of the first backend, of its largest number"""
Draw: TypeAlias = Callable[..., Tensor]
"""random numbers of a shape, on the card"""


@final
class OpTime(Row):
    """The time of an op's forward and backward by one backend."""

    op: str
    case: str
    backend: str
    rule: bool
    """whether the op's rule chooses it here"""
    ms: float | None
    """the median; None where it is left out"""
    ms_quartiles: tuple[float, float] | None = None
    first: str
    """the backend to whose time the ratio is"""
    ratio: float | None = None
    difference: float | None = None
    """from the first backend's outputs and gradients, of the largest number"""
    left_out: str | None = None


@final
@dataclass(frozen=True)
class Case:
    """An op in one size."""

    op: str
    says: str
    backends: tuple[str, ...]
    run: Callable[..., Tensor]
    inputs: Callable[[Draw], list[Tensor]]


@final
@dataclass(frozen=True, kw_only=True)
class OpRace(OnCard):
    """The backends of one op in all its cases."""

    schema: ClassVar = OpTime
    cases: tuple[Case, ...]
    rounds: int

    @property
    def settings(self) -> dict[str, Any]:
        """As `OnCard`, and the cases."""
        cases = [[case.op, case.says, *case.backends] for case in self.cases]
        return {**super().settings, "cases": cases, "rounds": self.rounds}

    def run(self, folder: Any, say: Say, show: Show) -> Sequence[Row]:
        """A row for each case and backend."""
        rows: list[Row] = []
        with show("kernels", len(self.cases), "cases") as advance:
            for case in self.cases:
                rows += _race(case, self.card.device, self.rounds)
                free_memory(self.card)
                advance(note=case.says)
        return rows

    def text(self, rows: Sequence[OpTime]) -> str:
        """The fastest backend of each case."""
        fastest: dict[str, OpTime] = {}
        for row in rows:
            if row.ms is not None and (row.case not in fastest or row.ms < (fastest[row.case].ms or math.inf)):
                fastest[row.case] = row
        return "; ".join(
            f"{case}: {row.backend}{'' if row.rule else ' (not the rule)'}" for case, row in fastest.items()
        )


def _race(case: Case, device: str, rounds: int) -> list[OpTime]:
    """The rows of a case."""
    draws = torch.Generator(device).manual_seed(0)
    inputs = case.inputs(lambda *shape: torch.randn(*shape, generator=draws, device=device))
    leaves = [x.detach().requires_grad_() for x in inputs]
    with record_backends() as chosen:
        dy = torch.randn_like(case.run(*leaves).detach())
    shared: dict[str, Any] = {"op": case.op, "case": case.says, "first": case.backends[0]}
    expected: list[Tensor] = []
    differences: dict[str, float] = {}
    left_out: dict[str, str] = {}
    for backend in case.backends:
        try:
            results = _by(backend, case, leaves, dy)()
            expected = expected or results
            differences[backend] = _difference(results, expected)
            if differences[backend] > CLOSE[results[0].dtype]:
                left_out[backend] = f"it is off {case.backends[0]} by {differences[backend]:.2g}"
        except Exception as error:  # of a compiler, or of others' code
            left_out[backend] = reason(error)[:200]
    if case.backends[0] in left_out:
        raise ValueError(f"{case.op}, {case.says}: {case.backends[0]} does not run: {left_out[case.backends[0]]}")
    runs = {name: _by(name, case, leaves, dy) for name in case.backends if name not in left_out}
    times = race(runs, rounds, warm=2)
    rows = []
    for name in case.backends:
        which = {"backend": name, "rule": name in chosen.get(case.op, []), "difference": differences.get(name)}
        if name in left_out:
            rows.append(OpTime(**shared, **which, ms=None, left_out=left_out[name]))
            continue
        low, high = times[name].quartiles
        ratio = times[name].over(times[case.backends[0]]).median
        quartiles = (1e3 * low, 1e3 * high)
        rows.append(OpTime(**shared, **which, ms=1e3 * times[name].median, ms_quartiles=quartiles, ratio=ratio))
    return rows


def _by(backend: str, case: Case, leaves: list[Tensor], dy: Tensor) -> Callable[[], list[Tensor]]:
    """Forward and backward by a backend: the output and the gradients of all inputs."""

    def once() -> list[Tensor]:
        with use(**{case.op: backend}):
            y = case.run(*leaves)
        return [y, *torch.autograd.grad(y, leaves, dy)]

    return once


def _difference(results: list[Tensor], expected: list[Tensor]) -> float:
    pairs = zip(results, expected, strict=True)
    return max(((ours - there).abs().max() / there.abs().max().clamp_min(1e-30)).item() for ours, there in pairs)


def _cases(small: bool) -> Iterator[Case]:
    """All cases; `small` ones have sizes for a test on a CPU."""
    B, T, D = (2, 16, 8) if small else (32, 1024, 512)
    rows, heads = (2, 2) if small else (64, 32)
    for dtype in (torch.float32, torch.bfloat16):
        yield Case(
            "attention",
            f"{heads} heads of 4, {T // 8} tokens, {str(dtype)[6:]}",
            ("kernel", "triton"),
            attend,
            lambda draw, dtype=dtype: [draw(rows, heads, T // 8, 4).to(dtype) for _ in range(3)],  # type: ignore[misc]
        )
    for L in (4, 8) if small else (4, 16, 64, 256, 1024):
        yield Case(
            "lag_sum",
            f"{L} vectors",
            ("fft", "triton", "tiles", *(("direct",) if L <= 64 else ())),
            lags,
            lambda draw, L=L: [draw(B, T, D), draw(L, D) / math.sqrt(L)],  # type: ignore[misc]
        )
    for L in (4,) if small else (4, 8, 32, 128):
        yield Case(
            "lag_sum",
            f"{L} matrices of 128 channels",
            ("fft", "triton", *(("direct",) if L <= 32 else ())),
            lags,
            lambda draw, L=L: [draw(rows, 128, 128), draw(L, 128, 128) / math.sqrt(128 * L)],  # type: ignore[misc]
        )
    yield Case(
        "delta_rule",
        "gated, bfloat16",
        ("chunked", "fla"),
        lambda x, g, beta: gated_delta(x, g, beta, None, heads=2, K=D // 4)[0],
        lambda draw: [
            draw(B, T, 2 * D).bfloat16(),
            -draw(B, T, 2).abs() / 16,
            draw(B, T, 2).sigmoid().bfloat16(),
        ],
    )
    yield Case(
        "linear_decay",
        "a decay per token",
        ("chunked", "triton"),
        lambda q, k, v, g: decay(q, k, v, g)[0],
        lambda draw: [
            draw(B, D // 4, T, 4) / 8,
            draw(B, D // 4, T, 4),
            draw(B, D // 4, T, 4),
            -draw(B, D // 4, T).abs() / 16,
        ],
    )
    yield Case(
        "scans",
        "real channels",
        ("doubling", "triton"),
        lambda a, b: scan(a, b)[0],
        lambda draw: [draw(B, T, D).sigmoid(), draw(B, T, D)],
    )
    yield Case(
        "wkv_average",
        "RWKV-4",
        ("doubling", "triton"),
        lambda k, v, rate, bonus: wkv(k, v, rate, bonus)[0],
        lambda draw: [draw(B, T, D), draw(B, T, D), draw(D), draw(D)],
    )
    yield Case(
        "selective_scan",
        "16 states",
        ("doubling", "triton"),
        lambda u, delta, rate, b, c: selective(u, delta, rate, b, c)[0],
        lambda draw: [draw(B, T, D), draw(B, T, D).sigmoid(), draw(D, 16), draw(B, T, 16), draw(B, T, 16)],
    )


def ops_study(place: Place, code: str) -> Study:
    """A4: a cell for each op."""
    cases = list(_cases(place.sizes.name == "tiny"))
    cells = [
        OpRace(
            name=op,
            models={},
            card=place.card,
            code_digest=code,
            cases=tuple(case for case in cases if case.op == op),
            rounds=place.sizes.rounds,
        )
        for op in dict.fromkeys(case.op for case in cases)
    ]
    return Study("A4", {}, lambda results: iter([cells]))
