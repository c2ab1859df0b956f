"""The comparison in short: six models in a table of at most eight columns, in people's units, for README.

The rows are those of results/comparison.jsonl once it has a result of each of the six on the books, else those of
results/board.jsonl, the protocol before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from seqloom.core.table import format_size
from seqloom.core.verdict import Verdict
from seqloom.report.charts.chart import Axis, Cell, Chart, Choice, Spec, Table, round_number
from seqloom.report.charts.style import styles
from seqloom.report.tradeoffs import pareto
from seqloom_studies.board import protocols
from seqloom_studies.board.page_rows import Timed, read_times
from seqloom_studies.board.protocols import Protocol
from seqloom_studies.board.standing import Board, Standing

TITLES = (
    "Llama attention",
    "attention to the last 64 tokens",
    "`gated_delta`",
    "`rwkv7`",
    "HE",
    "`gated_delta` in three of four layers, attention in one",
)
NAMES = ("attention", "attention, last 64", "gated_delta", "rwkv7", "HE", "gated_delta 3:1")
"""the same in a chart"""
PROSE: Mapping[str, str] = {
    "llama attention": "attention",
    "Llama attention": "attention",
    "llama attention, window 64": "attention to the last 64 tokens",
    "attention, last 64 tokens": "attention to the last 64 tokens",
    "HE": "the HE Extractor",
    "WE": "the WE Extractor",
    "HE 3 : attention 1": "the HE Extractor in three of four layers",
    "gated_delta": "`gated_delta`",
    "gated_delta 3 : attention 1": "`gated_delta` in three of four layers",
}
"""titles of tables as prose says them"""
CONTEXT, LONG = 512, 2048
"""tokens of the context in training, and of the long windows"""


@final
@dataclass(frozen=True)
class Short:
    """The rows of a protocol that has all six models."""

    protocol: Protocol
    books: Board
    code: Board | None
    """of the same models trained on code; None unless all six have a result there"""
    times: Sequence[Timed]

    @property
    def head(self) -> list[str]:
        """The names of the columns."""
        return [
            "in place of attention",
            f"bits per byte, windows of {CONTEXT} ± (runs)",
            f"the same models, windows of {LONG:,}",
            *([f"on code, windows of {CONTEXT} ± (runs)"] if self.code else []),
            f"memory, context {CONTEXT}",
            f"memory if built for context {LONG:,}",
            "training step on a CPU",
        ]

    @property
    def lines(self) -> list[list[str]]:
        """A line per model, in the order of `TITLES`."""
        return [self._line(title, name) for title, name in zip(TITLES, self.protocol.models, strict=True)]

    def standing(self, model: str) -> Standing:
        """The standing of a model on the books. KeyError for one without a result."""
        return self.books.standings[model]

    @property
    def verdicts(self) -> list[str]:
        """The differences to attention that were to be decided, each with its verdict."""
        lines = []
        for model, verdict in self.verdict_by_model.items():
            bits = (
                ""
                if model in self.protocol.models
                else f" ({self.standing(model).estimate.mean:.3f}, not in the table)"
            )
            lines.append(f"{self.prose(model)}{bits} {verdict.difference.estimate.signed_text}, {verdict.words}")
        return lines

    @property
    def models_without_test(self) -> str:
        """The models of the table whose difference to attention was not to be decided."""
        names = [self.prose(model) for model in self.protocol.models[1:] if model not in self.verdict_by_model]
        return " or ".join(names) or "another model"

    @property
    def verdict_by_model(self) -> dict[str, Verdict]:
        """The verdict on each model that was to be decided against attention."""
        return {
            answer.question.first: answer.verdict
            for answer in self.books.answers
            if answer.question.second == self.books.lineup.host and answer.verdict is not None and not answer.awaited
        }

    def prose(self, model: str) -> str:
        """A model's name in prose."""
        title = self.books.lineup.titles[model]
        return PROSE.get(title, f"`{title}`" if title == model else title)

    @property
    def long_memory(self) -> str:
        """Whether the books test long memory: attention to few tokens, and a small state, against attention."""
        losses = [self.standing(model).estimate.mean for model in self.protocol.models[:2]]
        relation = "is as good as" if losses[1] <= losses[0] else "needs more bits per byte than"
        sentence = f"attention to the last 64 tokens ({losses[1]:.3f}) {relation} attention to all ({losses[0]:.3f})"
        gru = self.books.standings.get("gru")
        if gru is not None and gru.estimate.mean < min(losses):
            size = format_size(gru.first.state_bytes[f"{CONTEXT}"])
            sentence += f", and a GRU with a state of {size} ({gru.estimate.mean:.3f}) is below both"
        return sentence

    @property
    def first_choice(self) -> str | None:
        """Why `gated_delta` is a good first choice, in a sentence; None unless it needs significantly fewer bits."""
        attention, delta = self.protocol.models[0], self.protocol.models[TITLES.index("`gated_delta`")]
        for answer in self.books.answers:
            pair = answer.question.first, answer.question.second
            if pair != (delta, self.books.lineup.host) or answer.verdict is None or answer.awaited:
                continue
            difference = answer.verdict.difference.estimate
            if answer.verdict.is_significant and difference.mean < 0:
                bits = f"{difference.signed_text}, {difference.seeds} runs, {answer.verdict.words}"
                sizes = [self.standing(model).first.state_bytes[str(CONTEXT)] for model in (delta, attention)]
                kept, of_attention = map(format_size, sizes)
                return (
                    f"`gated_delta` is a good first choice; at equal parameters it needs fewer bits per byte than "
                    f"attention ({bits}), and its memory is the same for texts of any length: {kept} where attention "
                    f"keeps {of_attention} of a text of {CONTEXT} tokens (float32)."
                )
        return None

    def _line(self, title: str, name: str) -> list[str]:
        standing = self.standing(name)
        long_windows = [row.bits_per_byte_long for row in standing.rows.values()]
        code = [_loss(self.code.standings[name])] if self.code else []
        return [
            title,
            _loss(standing),
            _mean(long_windows),
            *code,
            format_size(standing.first.state_bytes.get(str(CONTEXT))),
            format_size(self._built_for(name, LONG)),
            self._step(name),
        ]

    def _built_for(self, name: str, tokens: int) -> int | None:
        """Bytes of the state of a model whose context is `tokens`, after as many; None where it was not raced."""
        sizes = [row.state_bytes for row in self.times if row.contender == name and row.tokens == tokens]
        return sizes[-1] if sizes else None

    def _step(self, name: str) -> str:
        seconds = [row.step for row in self.times if row.contender == name and row.step is not None]
        return f"{1e3 * seconds[-1]:.0f} ms" if seconds else "-"


def newest(results: Path) -> Short | None:
    """The newest protocol with a result of all six models; None where no protocol has one."""
    found = protocols.newest(results)
    if found is None:
        return None
    protocol, books = found
    return Short(protocol, books, protocol.whole_board(results, "code"), read_times(results / protocol.times))


def chart(short: Short) -> Chart:
    """Bits per byte against the memory of one text: a mark per model, a bar from its lowest to its highest run."""
    x = Axis("kB", f"memory of one text in kB: context {CONTEXT}, float32", log=True)
    y = Axis("bits per byte", "bits per byte")
    points: dict[str, tuple[float, float]] = {}
    rows: list[list[Cell]] = []
    for name, model in zip(NAMES, short.protocol.models, strict=True):
        standing = short.standing(model)
        kilobytes = standing.first.state_bytes[str(CONTEXT)] / 1e3
        points[name] = (kilobytes, standing.estimate.mean)
        runs = standing.runs.values()
        rows.append([name, *map(round_number, (kilobytes, standing.estimate.mean, min(runs), max(runs)))])
    table = Table(["model", x.column, y.column, "lowest seed", "highest seed"], rows)
    heading = "Bits per byte on books against memory; lower and further left is better"
    description = "Six models of equal parameters; bars join the lowest and the highest run."
    kinds = [model.partition("-")[0] for model in short.protocol.models]
    styles_by_name = styles(list(NAMES), dict(zip(NAMES, kinds, strict=True)))

    def draw() -> Spec:
        from seqloom.report.charts.points import points as draw_points

        return draw_points(table, x, y, styles_by_name, pareto(points))

    return Chart("short", heading, description, {"rows": table}, [Choice(heading, draw)])


def _loss(standing: Standing) -> str:
    return f"{standing.estimate} ({standing.estimate.seeds})"


def _mean(values: Sequence[float | None]) -> str:
    """The mean to three digits after the point; "-" where a run has no such value."""
    present = [value for value in values if value is not None]
    return f"{sum(present) / len(present):.3f}" if present and len(present) == len(values) else "-"
