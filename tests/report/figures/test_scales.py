import pytest

from seqloom.report.figures.axes import Axis, Scale, spread
from seqloom.report.figures.numerals import number, numbers
from seqloom.report.figures.ticks import enclosing, even, logarithmic, nice_step


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.3, "0.3"), (0.1 + 0.2, "0.3"), (-0.05, "−0.05"), (1500, "1,500"), (99_999, "99,999"),
     (100_000, "100k"), (-250_000, "−250k"), (1.5e6, "1.5M"), (2e9, "2G"), (5e12, "5T"), (1e15, "10¹⁵"),
     (0.0002, "0.0002"), (2e-7, "2×10⁻⁷"), (1e-5, "10⁻⁵"), (-1e-5, "−10⁻⁵")],
)  # fmt: skip
def test_a_number_is_written_shortly(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("values", "step", "text"),
    [([0, 0.5, 1], 0.5, ["0", "0.5", "1.0"]), ([-0.02, 0, 0.02], 0.02, ["−0.02", "0", "0.02"]),
     ([0, 50_000, 100_000], 50_000, ["0", "50k", "100k"]), ([0, 500_000, 1_000_000], 500_000, ["0", "0.5M", "1.0M"]),
     ([0, 1000, 2000], 1000, ["0", "1,000", "2,000"])],
)  # fmt: skip
def test_the_ticks_of_an_axis_share_precision_and_suffix(values: list[float], step: float, text: list[str]) -> None:
    assert numbers(values, step) == text


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (2.13, 6.31), (-3e-5, 8e-5), (0, 123_456), (4.99, 5.01), (-7, -2), (0.5, 6.4)]
)
@pytest.mark.parametrize("most", [3, 5, 8])
def test_even_ticks_are_nice_and_cover_the_range(low: float, high: float, most: int) -> None:
    values, step = even(low, high, most)
    assert float(f"{step:e}".split("e")[0]) in (1, 2, 5)
    assert len(values) <= most + 1
    assert low - 1e-9 <= values[0] < low + step
    assert high - step < values[-1] <= high + 1e-9 * abs(high)
    outer = enclosing(low, high, most)
    assert outer[0] <= low
    assert outer[1] >= high
    inner = even(*outer, most)[0]
    assert (inner[0], inner[-1]) == pytest.approx(outer)


def test_the_step_is_the_smallest_that_fits() -> None:
    assert [nice_step(span, 5) for span in (1, 4, 10, 26)] == [0.2, 1, 2, 10]


@pytest.mark.parametrize(
    ("low", "high", "values"),
    [(1, 1000, [1, 10, 100, 1000]), (1, 120, [1, 2, 5, 10, 20, 50, 100]), (0.23, 6.3, [0.5, 1, 2, 5]),
     (4.1, 6.4, [4.5, 5, 5.5, 6]), (1, 1e16, [1, 1e3, 1e6, 1e9, 1e12, 1e15])],
)  # fmt: skip
def test_logarithmic_ticks(low: float, high: float, values: list[float]) -> None:
    assert logarithmic(low, high, 7) == values


def test_scales_put_values_where_they_belong() -> None:
    assert Scale(0, 10, 100, 300)(2.5) == 150
    assert Scale(0, 10, 300, 100)(2.5) == 250
    assert Scale(1, 1000, 0, 300, log=True)(10) == pytest.approx(100)


@pytest.mark.parametrize(
    ("values", "most", "texts"),
    [([8, 16, 32, 64, 128], 8, ["8", "16", "32", "64", "128"]), ([128, 16, 64, 8], 2, ["8", "64"]),
     ([128, 256, 512], 8, ["128", "256", "512"]), ([8, 16, 24, 64], 8, ["10", "20", "50"]),
     ([0.0005, 0.001, 0.002, 0.004], 8, ["0.0005", "0.001", "0.002", "0.004"]), ([8, 64], 8, ["10", "20", "50"])],
)  # fmt: skip
def test_a_logarithmic_axis_of_powers_of_two_names_them(values: list[float], most: int, texts: list[str]) -> None:
    scale = spread(values, Axis("context", log=True), figure="f", enclose=False)
    assert [text for _, text in scale.ticks(most)] == texts
    assert [text for _, text in scale.over(100, 300).ticks(most)] == texts
    assert not spread(values, Axis("context"), figure="f", enclose=False).doubled


@pytest.mark.parametrize("values", [[5.0], [0.0, 0.0], [-2.0, -2.0]])
@pytest.mark.parametrize("enclose", [False, True])
def test_one_value_still_has_a_range(values: list[float], enclose: bool) -> None:
    scale = spread(values, Axis("cost"), figure="f", enclose=enclose)
    assert scale.low < values[0] < scale.high


@pytest.mark.parametrize(
    ("values", "message"), [([1.0, 0.0], "figure “f”: the axis “cost” is logarithmic and cannot show 0"),
                            ([float("nan")], "figure “f”: no finite value for the axis “cost”")],
)  # fmt: skip
def test_a_range_that_cannot_be_drawn_is_refused(values: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        spread(values, Axis("cost", log=True), figure="f", enclose=False)
