"""The lag sum's choice of a backend: the fastest at the nearest size measured, of those that are here, on any size."""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from seqloom.ops import backends, lag_sum
from seqloom.ops.lag_sum import choice, crossovers
from seqloom.ops.lag_sum.crossovers import Point, Table

Fill = Callable[[list[dict[str, object]]], Path]
TAPS = {"number": (), "vectors": (6,), "matrices": (6, 6), "groups": (2, 3, 3)}
"""the shape of one tap of each kind, over 6 channels"""


@pytest.fixture
def fill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fill]:
    """Puts a table of these points in force, each made complete."""

    def filled(points: list[dict[str, object]]) -> Path:
        plain = {"taps": "vectors", "training": True, "T": 64, "L": 64, "D": 6, "B": 4}
        path = tmp_path / "table.json"
        path.write_text(json.dumps({"points": [{**plain, **point} for point in points]}))
        monkeypatch.setenv("SEQLOOM_LAG_SUM_TABLE", str(path))
        choice.forget()
        return path

    yield filled
    monkeypatch.undo()
    choice.forget()


def chosen(T: int, L: int, B: int = 4, taps: str = "vectors", D: int = 6) -> str:
    shape = TAPS[taps] if D == 6 else (D,)
    return lag_sum.by_size(torch.ones(B, T, D), torch.ones(L, *shape))


def fast(name: str, **point: object) -> dict[str, object]:
    return {**point, "ms": {"direct": 4.0, "fft": 4.0, name: 1.0}}


@pytest.mark.parametrize(
    ("T", "L", "D", "B", "wanted"),
    [
        (16, 16, 6, 4, "direct"),
        (64, 64, 6, 4, "direct"),  # as many times 16 as 256 is times it
        (65, 65, 6, 4, "fft"),
        (9999, 9999, 6, 4, "fft"),
        (256, 32, 6, 4, "direct"),  # between 4 and 256 lags
        (257, 4, 6, 4, "direct"),
        (257, 33, 6, 4, "fft"),
        (40, 9999, 6, 4, "direct"),  # no more lags than tokens
        (1, 1, 1, 1, "direct"),
    ],
)
def test_the_nearest_size_decides(fill: Fill, T: int, L: int, D: int, B: int, wanted: str) -> None:
    fill([fast("direct", T=16, L=16), fast("fft", T=256, L=256), fast("direct", T=256, L=4)])
    assert chosen(T, L, B, D=D) == wanted


@pytest.mark.parametrize(
    ("axis", "sizes", "wanted"),
    [
        ("B", [{"B": 1}, {"B": 4}, {"B": 6}], ["direct", "fft", "fft"]),
        ("D", [{"D": 2}, {"D": 6}, {"D": 16}], ["direct", "direct", "fft"]),
    ],
)
def test_rows_and_channels_decide_too(fill: Fill, axis: str, sizes: list[dict[str, int]], wanted: list[str]) -> None:
    low, high = {"B": (2, 4), "D": (4, 16)}[axis]
    fill([fast("direct", **{axis: low}), fast("fft", **{axis: high})])
    assert [chosen(64, 64, **size) for size in sizes] == wanted


def test_kinds_of_taps_and_training_have_their_own(fill: Fill) -> None:
    points = [
        fast(name, taps=taps, training=training)
        for (taps, training), name in zip(
            itertools.product(TAPS, (True, False)), itertools.cycle(["fft", "direct", "direct"]), strict=False
        )
    ]
    fill(points)
    for point in points:
        with torch.set_grad_enabled(bool(point["training"])):
            found = chosen(64, 64, taps=str(point["taps"]))
        assert found == min(point["ms"], key=point["ms"].__getitem__), point  # type: ignore[attr-defined,arg-type]


def test_what_is_not_here_is_passed_over(fill: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next fastest; one that nobody knows counts as not here, and so does the reference."""
    fill([{"ms": {"native": 1.0, "of another version": 0.1, "reference": 0.2, "direct": 2.0, "fft": 3.0}}])
    lacking: dict[str, str] = {}
    monkeypatch.setattr(backends, "lacking", lambda op: lacking)
    assert chosen(64, 64) == "native"
    lacking["native"] = "no compiler"
    assert chosen(64, 64) == "direct"


def test_halves_that_were_measured_with_c_are_passed_over_without(fill: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    fill([{"ms": {"native": 3.0, "halves": 1.0, "fft": 2.0}}])
    lacking: dict[str, str] = {}
    monkeypatch.setattr(backends, "lacking", lambda op: lacking)
    assert chosen(64, 64) == "halves"
    lacking["triton"] = "no GPU"
    choice.forget()
    assert chosen(64, 64) == "halves"
    lacking["native"] = "no compiler"
    assert chosen(64, 64) == "fft"


def test_a_tenth_slower_is_as_good_where_it_spares_a_bound(fill: Fill) -> None:
    fill([{"B": 1, "ms": {"fft": 1.09, "direct": 1.0}}, {"B": 64, "ms": {"fft": 1.0, "direct": 5.0}}])
    assert choice.tree_of("vectors", True) == "fft"
    fill([{"B": 1, "ms": {"fft": 1.2, "direct": 1.0}}, {"B": 64, "ms": {"fft": 1.0, "direct": 5.0}}])
    assert choice.tree_of("vectors", True) == (3, (8,), ("direct", "fft"))


def test_where_the_table_says_nothing_a_rule_does(fill: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    fill([])
    monkeypatch.setattr(backends, "lacking", lambda op: {})
    assert [chosen(2048, 2048), chosen(9000, 9000), chosen(30, 30, taps="number")] == ["native", "fft", "native"]
    monkeypatch.setattr(backends, "lacking", lambda op: {"native": "no compiler"})
    assert [chosen(9, 8), chosen(9, 9), chosen(384, 9, taps="number"), chosen(385, 9, taps="number")] == [
        *("direct", "fft", "toeplitz", "fft"),
    ]
    with torch.no_grad():
        assert [chosen(30, 30, B, taps="matrices") for B in (2, 3)] == ["direct", "fft"]


def test_away_from_the_cpu_the_rule_is_of_plain_torch(fill: Fill) -> None:
    fill([fast("native")])
    x, w = torch.ones(4, 64, 6, device="meta"), torch.ones(64, 6, device="meta")
    assert lag_sum.by_size(x, w) == "fft"


def test_on_a_gpu_few_lags_are_for_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice.device, "best", lambda device: device.type == "meta")
    for taps, shape in TAPS.items():
        most = choice.KERNELS[taps]
        x, w = torch.ones(4, 500, 6, device="meta"), torch.ones(most + 1, *shape, device="meta")
        assert [lag_sum.by_size(x, w[:most]), lag_sum.by_size(x, w)] == ["triton", "fft"]
        assert lag_sum.by_size(x[:, :most], w) == "triton"
        assert lag_sum.by_size(torch.ones(4, most, 6), w) != "triton"


@pytest.mark.parametrize("taps", TAPS)
@pytest.mark.parametrize("training", [True, False])
def test_odd_sizes_and_the_package_s_own_table(taps: str, training: bool) -> None:
    """Whatever the sizes, what is chosen can do the call: it does it."""
    for B, T, L in itertools.product((0, 1, 3), (0, 1, 2, 33), (1, 2, 50)):
        x, w = torch.ones(B, T, 6), torch.ones(L, *TAPS[taps])
        with torch.set_grad_enabled(training):
            assert lag_sum.by_size(x, w) in lag_sum.OP.backends
            assert lag_sum.lags(x, w).shape == x.shape
    for T, L in ((1, 1), (3, 9), (200_000, 200_000)):
        one = torch.ones(1, 1, 1).expand(1, T, 1), torch.ones(1).expand(L)
        assert lag_sum.by_size(*one) in lag_sum.OP.backends


def test_the_package_s_own_table_is_whole() -> None:
    table = crossovers.read(crossovers.PLACE)
    assert set(table.origin) == {"machine", "commit", "date"}
    assert {(each.taps, each.training) for each in table.points} == set(itertools.product(TAPS, (True, False)))
    for point in table.points:
        assert set(point.ms) <= set(lag_sum.OP.backends), point
        assert set(point.ms) & {"fft", "direct", "toeplitz"}, "nothing portable was measured"
        assert point.sizes[1] <= point.sizes[0], point


BROKEN = {
    "half a file": ('{"points": [', r"not readable JSON \(Expecting value, line 1"),
    "a list": ("[]", "object has no attribute"),
    "no points": ("{}", "no 'points'"),
    "no size": ('{"points": [{"taps": "vectors"}]}', "no 'T'"),
    "size 0": ('{"points": [{"T": 0, "L": 1, "D": 1, "B": 1}]}', "whole numbers from 1 on"),
    "no time": ('{"points": [{"T": 1, "L": 1, "D": 1, "B": 1, "ms": {}}]}', "not milliseconds"),
    "a time of 0": ('{"points": [{"T": 1, "L": 1, "D": 1, "B": 1, "ms": {"fft": 0}}]}', "not milliseconds"),
    "words": ('{"points": [{"T": 1, "L": 1, "D": 1, "B": 1, "ms": {"fft": "soon"}}]}', "could not convert"),
    "absent": (None, "No such file"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_table_that_cannot_be_read_is_an_error_in_one_line(fill: Fill, name: str) -> None:
    text, reason = BROKEN[name]
    path = fill([])
    path.unlink() if text is None else path.write_text(text)
    for _ in range(2):
        with pytest.raises(ValueError, match=reason) as error:
            chosen(64, 64)
    assert str(error.value).startswith(f"{path} is no table of lag sums (")
    assert "make tune" in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    points = (Point("vectors", True, (8, 4, 2, 1), {"fft": 1.5}), Point("number", False, (9, 9, 3, 2), {"direct": 2.0}))
    origin = {"machine": "m", "commit": "c", "date": "d"}
    for table in (Table(origin, points), Table(origin, ())):
        crossovers.write(tmp_path / "t.json", table)
        assert crossovers.read(tmp_path / "t.json") == table
        assert [path.name for path in tmp_path.iterdir()] == ["t.json"]


@pytest.mark.graph
def test_inside_a_graph_with_symbols_for_sizes(fill: Fill) -> None:
    """One graph for all sizes on one side of a bound, another beyond it; what it takes is what is taken without."""
    fill([fast("direct", T=16, L=16), fast("fft", T=256, L=256)])
    ran: list[str] = []

    def run(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x * w[0] + len(lag_sum.by_size(x, w))

    torch._dynamo.reset()
    compiled = torch.compile(run, fullgraph=True, dynamic=True, backend=lambda graph, _: ran.append("made") or graph)
    for T, graphs in ((20, 1), (30, 1), (60, 1), (90, 2), (300, 2)):
        x, w = torch.randn(3, T, 6), torch.randn(12, 6)
        torch.testing.assert_close(compiled(x, w), run(x, w))
        assert len(ran) == graphs, T
