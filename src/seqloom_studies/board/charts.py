"""The board's three charts: bits per byte against parameters and time, against the state, and recall against it."""

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean

from seqloom.report.charts.chart import Axis, Cell, Chart, Choice, Spec, Table, round_number
from seqloom.report.charts.style import LineStyle, styles
from seqloom.report.tradeoffs import WIDE, pareto
from seqloom_studies.board.page_rows import Recalled
from seqloom_studies.board.standing import Board, Standing
from seqloom_studies.board.table import STATE, Times

BITS = "bits per byte"
RIGHT = "right answers"
APART = ("identity", "me", "she")
"""in the table alone: identity, which reads no other token, ME, whose seeds are far apart, and SHE, with 47 times the
parameters: next to their losses the others would be one line"""
EQUAL = 1.02
"""the ratio of the most to the fewest parameters up to which they are equal: those of the board are, within 1%"""


def charts(board: Board, times: Times, recalled: Sequence[Recalled] = ()) -> list[Chart]:
    """The charts for which there are rows."""
    charts_or_none = [price(board, times), state(board), recall(recalled)]
    return [chart for chart in charts_or_none if chart is not None]


def price(board: Board, times: Times) -> Chart | None:
    """Bits per byte against the time of a training step where it was raced, and against parameters that differ."""
    standings = _chart_standings(board)
    columns: dict[str, Mapping[str, float | None]] = {}
    raced = {name: times.step.get(name) for name in standings}
    if any(raced.values()):  # times of those in the table alone have nothing to be drawn
        columns["ms a step"] = raced
    parameters = {name: standing.first.parameters for name, standing in standings.items()}
    if max(parameters.values(), default=0) > EQUAL * min(parameters.values(), default=0):
        columns["parameters"] = parameters
    if not columns:
        return None
    words = (
        "Bits per byte on the test books; lower and further left is better. Bars join the lowest and highest seed."
        " identity, which reads no other token, ME, whose seeds are far apart, and SHE, which is far larger, are in the"
        " table alone."
    )
    return _chart("board", f"{BITS} against {' and '.join(columns)}", words, standings, columns)


def state(board: Board) -> Chart | None:
    """Bits per byte against the bytes of a row's state after this many tokens; mixers without a state are left out."""
    standings = _chart_standings(board)
    sizes = {name: standing.first.state_bytes.get(STATE) or None for name, standing in standings.items()}
    if not any(sizes.values()):
        return None
    words = f"Bits per byte against the state of one row after {int(STATE):,} tokens that were really read."
    return _chart("board-state", f"{BITS} against state bytes", words, standings, {"state bytes": sizes})


def recall(rows: Sequence[Recalled]) -> Chart | None:
    """The share of right answers against the state, a mark per mixer and width.

    Of the difficulties that most mixers were asked, it is the hardest.
    """
    mqar_rows = [row for row in rows if row.distance is None and row.probe == "mqar" and row.state_bytes]
    if not mqar_rows:
        return None
    asked: dict[int, set[str]] = {}
    for row in mqar_rows:
        asked.setdefault(row.difficulty, set()).add(row.mixer)
    hardest = max(asked, key=lambda difficulty: (len(asked[difficulty]), difficulty))
    models: dict[tuple[str, int], dict[float, list[Recalled]]] = {}
    for row in mqar_rows:
        if row.difficulty == hardest:
            models.setdefault((row.mixer, row.dim), {}).setdefault(row.lr, []).append(row)
    cells: list[list[Cell]] = []
    kinds = {}
    for (mixer, dim), rates in models.items():
        best = max(rates.values(), key=lambda runs: fmean(run.accuracy or 0.0 for run in runs))
        shares = [run.accuracy or 0.0 for run in best]
        name = f"{mixer} {dim}"
        kinds[name] = mixer
        cells.append([name, best[0].state_bytes, *map(round_number, (fmean(shares), min(shares), max(shares)))])
    table = Table(["model", "state bytes", RIGHT, "lowest seed", "highest seed"], cells)
    heading = f"Recall of pairs (MQAR, difficulty {hardest}) against state bytes"
    words = "The share of right answers at the best learning rate; higher and further left is better."
    draw = partial(_draw, table, _axis(table, "state bytes"), Axis(RIGHT, RIGHT), styles(list(kinds), kinds), ())
    return Chart("board-recall", heading, words, {"rows": table}, [Choice(heading, draw)])


def _chart_standings(board: Board) -> dict[str, Standing]:
    """The standings without those in the table alone."""
    return {name: standing for name, standing in board.standings.items() if name not in APART}


def _chart(
    name: str,
    heading: str,
    words: str,
    drawn: Mapping[str, Standing],
    columns: Mapping[str, Mapping[str, float | None]],
) -> Chart:
    """Bits per byte against each of the columns, a choice each."""
    standings = [standing for name, standing in drawn.items() if any(column[name] for column in columns.values())]
    rows: list[list[Cell]] = [
        [
            standing.title,
            *(round_number(column[standing.name]) for column in columns.values()),
            *map(round_number, _span(standing)),
        ]
        for standing in standings
    ]
    table = Table(["model", *columns, BITS, "lowest seed", "highest seed"], rows)
    styles_by_name = styles(
        [standing.title for standing in standings],
        {standing.title: standing.name.partition("-")[0] for standing in standings},
    )
    choices = []
    for column, values in columns.items():
        points = {
            standing.title: (values[standing.name] or 0.0, standing.estimate.mean)
            for standing in standings
            if values[standing.name]
        }
        with_value = Table(table.head, [row for row in rows if row[0] in points])
        axis = _axis(with_value, column)
        draw = partial(_draw, with_value, axis, Axis(BITS, BITS), styles_by_name, pareto(points))
        choices.append(Choice(column, draw))
    return Chart(name, heading, words, {"rows": table}, choices, "price")


def _span(standing: Standing) -> tuple[float, float, float]:
    """The mean, the lowest and the highest seed."""
    runs = list(standing.runs.values())
    return standing.estimate.mean, min(runs), max(runs)


def _axis(table: Table, column: str) -> Axis:
    """The axis of a column, which is logarithmic where its numbers differ by a large factor."""
    numbers = table.numbers(column)
    return Axis(column, column, min(numbers) > 0 and max(numbers) / min(numbers) >= WIDE)


def _draw(table: Table, x: Axis, y: Axis, styles: Mapping[str, LineStyle], front: Sequence[str]) -> Spec:
    from seqloom.report.charts.points import points

    return points(table, x, y, styles, front)
