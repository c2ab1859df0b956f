"""The lag sum's choice of a backend: a rule, compared with the times of every backend at 572 sizes."""

import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from seqloom.ops import backends, lag_sum
from seqloom.ops.lag_sum import choice

ROWS = Path(__file__).parents[2] / "results/lag_sum_choice.jsonl"
TAPS = {"number": (), "vectors": (6,), "matrices": (6, 6), "groups": (2, 3, 3)}
"""the shape of one tap of each kind, over 6 channels"""
DISTURBED = ("number", False, 512, 32, 128, 16)
"""50 ms of native code where one row of the 16 takes 0.042 ms: docs/log.md"""


def chosen(T: int, L: int, B: int = 4, taps: str = "vectors", D: int = 6) -> str:
    shape = TAPS[taps] if D == 6 else (D,) * len(TAPS[taps])
    with torch.device("meta"):
        x, w = torch.empty(B, T, D), torch.empty(L, *shape)
    return lag_sum.choose_backend(OnCPU(x), w)  # type: ignore[arg-type]


class OnCPU:
    """What the rule asks of x, without the memory."""

    is_cpu, device = True, torch.device("cpu")

    def __init__(self, x: torch.Tensor) -> None:
        self.shape = x.shape


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The backends that are not here: none, until a test says otherwise."""
    names: dict[str, str] = {}
    monkeypatch.setattr(backends, "unavailable", lambda op: names)
    return names


def measured() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("compiled", [True, False], ids=["C", "plain torch"])
def test_the_rule_is_near_the_fastest_of_those_measured(compiled: bool, lacking: dict[str, str]) -> None:
    """Within a tenth for each kind of taps, as a geometric mean."""
    if not compiled:
        lacking.update(native="no compiler", spectral="no compiler")
    ratios: dict[tuple[str, bool], list[float]] = {}
    for row in measured():
        T, L, D, B = (row[axis] for axis in "TLDB")
        ms = {name: took for name, took in row["ms"].items() if compiled or name in ("direct", "fft", "toeplitz")}
        name = rule(row["taps"], B, T, L, D)
        if name in ms and (row["taps"], row["training"], T, L, D, B) != DISTURBED:
            ratios.setdefault((row["taps"], row["training"]), []).append(math.log(ms[name] / min(ms.values())))
    assert len(ratios) == 8
    assert sum(map(len, ratios.values())) >= 559
    for kind, logs in ratios.items():
        assert math.exp(sum(logs) / len(logs)) <= 1.1, kind


def rule(taps: str, B: int, T: int, L: int, D: int) -> str:
    shape = {"number": (), "vectors": (D,), "matrices": (D, D), "groups": (8, D // 8, D // 8)}[taps]
    with torch.device("meta"):
        return lag_sum.choose_backend(OnCPU(torch.empty(B, T, D)), torch.empty(L, *shape))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("taps", "B", "T", "L", "D", "expected"),
    [
        ("vectors", 4, 500, 64, 6, "native"),
        ("vectors", 4, 500, 65, 6, "spectral"),
        ("number", 4, 64, 9999, 6, "native"),  # no more lags than tokens
        ("groups", 1, 4, 4, 6, "spectral"),
        ("matrices", 1, 8, 8, 6, "spectral"),
        ("matrices", 1, 8, 16, 64, "direct"),
        ("matrices", 3, 8, 8, 64, "spectral"),
    ],
)
def test_the_bounds(lacking: dict[str, str], taps: str, B: int, T: int, L: int, D: int, expected: str) -> None:
    assert chosen(T, L, B, taps, D) == expected


def test_without_c_it_is_plain_torch(lacking: dict[str, str]) -> None:
    lacking["spectral"] = "no compiler"
    assert [chosen(9, 5), chosen(9, 6), chosen(256, 9, taps="number"), chosen(257, 9, taps="number")] == [
        *("direct", "fft", "toeplitz", "fft"),
    ]
    assert [chosen(32, 32, B, taps="matrices", D=64) for B in (1, 2)] == ["direct", "fft"]
    assert [chosen(32, 5, B, taps="groups") for B in (1, 2)] == ["direct", "fft"]


def test_away_from_the_cpu_the_rule_is_of_plain_torch() -> None:
    x, w = torch.ones(4, 64, 6, device="meta"), torch.ones(64, 6, device="meta")
    assert lag_sum.choose_backend(x, w) == "fft"


def test_on_a_gpu_few_lags_are_for_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice.device, "best", lambda device: device.type == "meta")
    for shape in TAPS.values():
        most = choice.ON_GPU[1 + len(shape)]
        x, w = torch.ones(4, 500, 6, device="meta"), torch.ones(most + 1, *shape, device="meta")
        assert [lag_sum.choose_backend(x, w[:most]), lag_sum.choose_backend(x, w)] == ["triton", "fft"]
        assert lag_sum.choose_backend(x[:, :most], w) == "triton"
        assert lag_sum.choose_backend(torch.ones(4, most, 6), w) != "triton"
    for D, expected in ((128, "triton"), (129, "direct")):
        x, w = torch.ones(4, 500, D, device="meta"), torch.ones(8, D, D, device="meta")
        assert lag_sum.choose_backend(x, w) == expected


@pytest.mark.parametrize("taps", TAPS)
def test_what_is_chosen_can_do_the_call(taps: str) -> None:
    for B, T, L in itertools.product((0, 1, 3), (0, 1, 2, 33), (1, 2, 50)):
        x, w = torch.ones(B, T, 6), torch.ones(L, *TAPS[taps])
        assert lag_sum.choose_backend(x, w) in lag_sum.OP.backends
        assert lag_sum.lags(x, w).shape == x.shape


@pytest.mark.slow
@pytest.mark.graph
def test_inside_a_graph_with_symbols_for_sizes() -> None:
    """One graph for all sizes on one side of a bound, another beyond it; what it takes is what is taken without."""
    made: list[str] = []

    def run(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x * w[0] + len(lag_sum.choose_backend(x, w))

    torch._dynamo.reset()
    compiled = torch.compile(run, fullgraph=True, dynamic=True, backend=lambda graph, _: made.append("") or graph)
    for T, graphs in ((20, 1), (30, 1), (60, 1), (90, 2), (300, 2)):
        x, w = torch.randn(3, T, 6), torch.randn(400, 6)
        torch.testing.assert_close(compiled(x, w), run(x, w))
        assert len(made) == graphs, T
