"""Series of numbers: rows by (seed, step), the equations in NumPy, the Kalman filter, files, and wrong input."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqloom.data.series import DRAWN, identity_of, read_series
from seqloom.data.series.linear_system import LinearSystem
from seqloom.data.series.mackey_glass import integrate
from seqloom.data.series.series import Rows

T = 24


def parts(rows: Rows) -> list[Any]:
    return [rows.values, rows.targets, rows.scored]


def same(one: Rows, other: Rows) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(parts(one), parts(other), strict=True))


@pytest.mark.parametrize("name", DRAWN)
def test_rows_are_a_function_of_seed_and_step(name: str) -> None:
    one, other = (read_series(f"numbers:{name}", T, 0.1) for _ in range(2))
    rows = one.rows(3, 5, 4)
    assert same(rows, other.rows(3, 5, 4))
    assert not any(same(rows, changed) for changed in (one.rows(4, 5, 4), one.rows(3, 6, 4), one.held_out(4)))
    assert rows.values.shape == (4, T, len(one.columns))
    assert rows.targets.shape == (4, T, len(one.outputs))
    scored = rows.targets[rows.scored]
    scale = one.output_scale
    assert np.allclose(np.mean((one.held_out(4000).targets[:, -1] - scale.mean) / scale.deviation), 0, atol=0.1)
    assert scored.size
    assert one.forecasts == (name != "adding")
    if one.forecasts:
        assert np.array_equal(rows.values[:, 1:], rows.targets[:, :-1]), "the target is the next number"


def test_the_sum_of_the_two_marked_numbers() -> None:
    rows = read_series("numbers:adding:10", T, 0.1).rows(0, 0, 500)
    numbers, marks = rows.values[..., 0], rows.values[..., 1]
    assert numbers.shape == (500, 10)
    assert (marks[:, :5].sum(1) == 1).all()
    assert (marks[:, 5:].sum(1) == 1).all()
    assert np.allclose(rows.targets[:, -1, 0], (numbers * marks).sum(1))
    assert (rows.scored.sum(1) == 1).all()
    assert rows.scored[:, -1].all()
    assert np.mean((rows.targets[:, -1] - 1) ** 2) == pytest.approx(1 / 6, rel=0.2)
    assert rows.optimum is not None
    assert np.array_equal(rows.optimum[rows.scored], rows.targets[rows.scored])


def test_mackey_glass_solves_its_equation() -> None:
    """At its fixed point nothing changes; until the delay it follows an exponential."""
    fixed = 1.0
    assert np.allclose(integrate(np.array([fixed]), 17, 50), fixed)
    first = 0.5
    drive = 0.2 * first / (1 + first**10)
    time = np.arange(17)
    expected = drive / 0.1 + (first - drive / 0.1) * np.exp(-0.1 * time)
    assert np.allclose(integrate(np.array([first]), 17, 17)[0], expected, rtol=1e-7)
    late = integrate(np.array([0.9, 0.9 + 1e-6]), 17, 1500)[:, -200:]
    assert 0.2 < late.min() < 0.6 < 1.1 < late.max() < 1.5, "the attractor of τ = 17"


def test_sines_have_their_noise_and_frequencies() -> None:
    values = read_series("numbers:sines:1", 255, 0.1).rows(0, 0, 200).values[..., 0]
    assert np.var(values) == pytest.approx(1.01, rel=0.1)
    spectrum = np.abs(np.fft.rfft(values * np.hanning(255))) ** 2
    peaks = np.argmax(spectrum, 1) / 255
    assert (peaks > 1 / 64 - 1 / 100).all()
    assert (peaks < 1 / 8 + 1 / 100).all()


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_the_filter_is_the_conditional_mean(order: int) -> None:
    """Of jointly normal numbers: E[y_T | y_0 … y_{T-1}] by the covariance of all observations."""
    system = LinearSystem(6, order)
    covariance = np.empty((7, 7))
    for i in range(7):
        for j in range(7):
            power = np.linalg.matrix_power(system.A, abs(i - j))
            covariance[i, j] = system.c @ power @ system.covariance @ system.c + (i == j) * system.r
    assert np.allclose(covariance[0, 0], 1.0), "an observation has a variance of 1"
    rows = system.rows(0, 0, 8)
    y = np.concatenate([rows.values[..., 0], rows.targets[:, -1:, 0]], 1)
    assert rows.optimum is not None
    for time in range(1, 7):
        weights = np.linalg.solve(covariance[:time, :time], covariance[:time, time])
        assert np.allclose(rows.optimum[:, time - 1, 0], y[:, :time] @ weights)
    many = system.rows(1, 0, 20000)
    sample = np.concatenate([many.values[..., 0], many.targets[:, -1:, 0]], 1)
    assert np.allclose(np.cov(sample.T), covariance, atol=0.05)


def table(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def numbers() -> Any:
    return np.random.default_rng(0).standard_normal((100, 2)) + np.array([0.0, 5.0])


def write(path: Path, numbers: Any) -> Path:
    if path.suffix == ".npy":
        np.save(path, numbers)
    elif path.suffix == ".csv":
        lines = [f"day {row},{a!r},{b!r}" for row, (a, b) in enumerate(numbers.tolist())]
        table(path, "\n".join(["day,price,volume", *lines, ""]))
    else:
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table({"price": numbers[:, 0], "volume": numbers[:, 1]}), path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npy"])
def test_a_file_is_trained_on_first_and_held_out_last(suffix: str, tmp_path: Path, numbers: Any) -> None:
    path = write(tmp_path / f"numbers{suffix}", numbers)
    chosen = "price,volume" if suffix != ".npy" else "0,1"
    series = read_series(str(path), 7, 0.25, chosen)
    assert series.columns == series.outputs == tuple(chosen.split(","))
    assert np.allclose(series.scale.mean, numbers[:75].mean(0))
    held_out = series.held_out(100)
    assert np.array_equal(held_out.values, [numbers[75 + 7 * n : 82 + 7 * n] for n in range(3)])
    assert np.array_equal(held_out.targets[:, -1], numbers[[82, 89, 96]])
    starts = 75 - 7
    epoch = series.rows(0, 0, starts)
    assert np.array_equal(np.sort(epoch.values[:, 0, 0]), np.sort(numbers[:starts, 0])), "each start once an epoch"
    assert epoch.targets.max() <= numbers[:75].max()
    one = read_series(str(path), 7, 0.25, chosen.split(",")[1])
    assert np.array_equal(one.held_out(1).values[0, :, 0], numbers[75:82, 1])
    assert identity_of(str(path), 0.25, chosen) == series.identity != one.identity
    assert len(read_series(str(path), 7, 1.0, chosen).held_out(100).values) == 14


GOOD = "a,b\n" + "".join(f"{n},{n * n % 7}\n" for n in range(50))
WRONG = {
    "a gap": (GOOD.replace("\n3,2\n", "\n3,\n"), "row 4, column b: the cell is empty"),
    "a word": (GOOD.replace("\n3,2\n", "\nthree,2\n"), "row 4, column a: 'three' is no number; choose columns"),
    "nan": (GOOD.replace("\n3,2\n", "\nnan,2\n"), "row 4, column a: nan is no finite number"),
    "infinite": (GOOD.replace("\n3,2\n", "\n3,1e999\n"), "row 4, column b: inf is no finite number"),
    "a short row": (GOOD.replace("\n3,2\n", "\n3\n"), "row 4 has 1 cells, and there are 2 names"),
    "a constant": ("a,b\n" + "".join(f"{n},2\n" for n in range(50)), "column b is always 2: there is nothing"),
    "few rows": ("a\n1\n2\n3\n", "3 rows are too few for windows of 8"),
    "nothing": ("", "the first line must name the columns"),
    "a name twice": (GOOD.replace("a,b", "a,a"), "each by another name"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_does_not_fit(name: str, tmp_path: Path) -> None:
    text, words = WRONG[name]
    with pytest.raises(ValueError, match=r"numbers\.csv") as error:
        read_series(str(table(tmp_path / "numbers.csv", text)), 8, 0.1)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("source", "column", "words"),
    [
        ("numbers:", None, "unknown series ''"),
        ("numbers:sine", None, "did you mean 'sines'"),
        ("numbers:linear:0", None, "order of a linear system is 1 … 64, not 0"),
        ("numbers:linear:4:5", None, "numbers:NAME:SIZE"),
        ("numbers:linear:x", None, "numbers:NAME:SIZE"),
        ("numbers:adding:99", None, "2 … 8 (the context) times a row"),
        ("numbers:sines:65", None, "1 … 64 sines"),
        ("numbers:mackey-glass:0", None, "delay of mackey-glass is 1"),
        ("numbers:sines", "a", "leave data.column out"),
        ("books.txt", None, "a series of numbers is a file (.csv, .parquet, .npy) or numbers:NAME"),
    ],
)
def test_a_name_that_does_not_fit(source: str, column: str | None, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        read_series(source, 8, 0.1, column)


def test_damaged_files(tmp_path: Path, numbers: Any) -> None:
    for suffix in (".npy", ".parquet"):
        path = write(tmp_path / f"numbers{suffix}", numbers)
        path.write_bytes(path.read_bytes()[:200])
        with pytest.raises(ValueError, match="readable"):
            read_series(str(path), 8, 0.1)
    np.save(tmp_path / "words.npy", np.array(["a", "b"]))
    with pytest.raises(ValueError, match="array of numbers"):
        read_series(str(tmp_path / "words.npy"), 8, 0.1)
    np.save(tmp_path / "objects.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="readable"):
        read_series(str(tmp_path / "objects.npy"), 8, 0.1)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_series(str(tmp_path / "none.csv"), 8, 0.1)
    with pytest.raises(ValueError, match="no column 'c': it has 0, 1"):
        read_series(str(write(tmp_path / "good.npy", numbers)), 8, 0.1, "c")
