"""The rows of a comparison: the columns of the table, and the contenders' numbers, curves, samples and views.

The classes follow comparison.json (format 2) name by name; `losses` and `held_out` of a run are of its metrics.jsonl.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from seqloom.core.config import suggestion
from seqloom.report.charts.style import LineStyle, styles
from seqloom.report.columns import LARGEST, AtLeastOne, Count, Number

FORMAT = 2
"""the newest format of comparison.json that is read here"""
LOSS, INTERVAL, TRAINING = "held-out loss", "± held-out", "training loss"
DIFFERENCE, ADJUSTED, SMALLEST = "to baseline", "adjusted p", "could settle"
"""names of the columns that the report treats specially"""
TITLES = {SMALLEST: "smallest significant"}
"""what readers see in place of a column's name in the file"""


def sentence(text: str) -> str:
    """The text with a capital letter before it and a full stop after it."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) or not text else ".")


Sentence = Annotated[str, AfterValidator(sentence)]


class _Part(BaseModel):
    """Frozen; entries of other names are ignored, so that a format may gain some."""

    model_config = ConfigDict(frozen=True, extra="ignore")


@final
class Column(_Part):
    """A column of the table; `better` says which numbers are better: lower, higher, or neither."""

    name: str
    unit: str
    better: Literal["lower", "higher", ""]
    meaning: Sentence

    @property
    def title(self) -> str:
        """The name as readers see it."""
        return TITLES.get(self.name, self.name)


@final
class Origin(_Part):
    """Date, commit, command and machine of the rows."""

    date: str
    commit: str | None
    command: str
    machine: str


@final
class Text(_Part):
    """The text and its held-out part; `unigram` and `floor` in nats per token."""

    description: str
    identity: str
    held_out_tokens: Count
    held_out_documents: Count | None = None
    unigram: Number | None = None
    floor: Number | None = None


@final
class Sample(_Part):
    """A contender's text after a prompt: (text, probability) of its tokens."""

    prompt: str
    seed: int
    tokens: list[tuple[str, Number]]


@final
class View(_Part):
    """A view of a layer: a line over one axis or a picture over two (rows are `axes[0]`)."""

    layer: Count
    name: str
    meaning: Sentence
    axes: list[str] = Field(min_length=1, max_length=2)
    values: list[Number] | list[list[Number]]
    signed: bool
    labels: list[str] | None = None


@final
class Run(_Part):
    """The rows of one seed: (step, loss of that batch) and (step, held-out loss), in nats per token."""

    folder: str
    losses: list[tuple[int, float]]
    held_out: list[tuple[int, float]]
    stages: list[int] = []
    """the last step of each stage of the training but the last stage"""
    damage: str | None = None
    """the rows that are missing, or damaged and left out"""


@final
class Candidate(_Part):
    """One model of the comparison; `matched_to` names the contender that it was sized for."""

    name: str
    kind: str
    same_as: str | None = None
    """the mixer that its own equals in every layer, because its pattern covers the context"""
    matched_to: str | None = None
    matched: str | None = None
    row: dict[str, Annotated[float | int, Field(ge=-LARGEST, le=LARGEST)] | None]
    spread: dict[str, list[Number | None]] = {}
    runs: list[str]
    by_position: list[list[Number | None]] = []
    operations_a_batch: Number | None = None
    tokens_a_batch: Number | None = None
    seconds_a_batch: Number | None = None
    samples: list[Sample] = []
    views: list[View] = []
    limitations: list[str] = []
    seeds: list[Run] = Field(default=[], exclude=True)

    def value(self, column: str) -> float | None:
        """The number of this contender in that column; None where it has none."""
        return self.row.get(column)

    def span(self, column: str) -> tuple[float, float] | None:
        """The lowest and the highest seed's value of a column; None where fewer than two are known."""
        values = [value for value in self.spread.get(column, []) if value is not None]
        return (min(values), max(values)) if len(values) > 1 else None


@final
class LeftOut(_Part):
    """A mixer that the size of the comparison has no room for."""

    name: str
    why: str


@final
class Comparison(_Part):
    """A comparison, the contender of the lowest held-out loss first."""

    preset: str
    changes: list[str]
    seeds: AtLeastOne
    batches: AtLeastOne
    batch: AtLeastOne
    context: AtLeastOne
    stretch: AtLeastOne
    baseline: str
    paired: bool
    origin: Origin
    text: Text
    columns: list[Column]
    equal: Literal["params", "mul", "time"] | None = None
    probe_batches: Count | None = None
    """training batches of a probe at most; None without probes"""
    contenders: list[Candidate] = Field(min_length=1)
    left_out: list[LeftOut] = []

    @property
    def styles(self) -> dict[str, LineStyle]:
        """How each contender is drawn, by its name."""
        return styles(
            sorted(contender.name for contender in self.contenders),
            {contender.name: contender.kind for contender in self.contenders},
        )

    def with_names(self, names: Mapping[str, str]) -> "Comparison":
        """The comparison with other names of its models. ValueError for a model that is not here, or a name twice."""
        known = {contender.name for contender in self.contenders}
        unknown = next((name for name in names if name not in known), None)
        if unknown is not None:
            raise ValueError(f"--names: there is no model {unknown!r}; {suggestion(unknown, known)}")
        new = {name: names.get(name, name) for name in known}
        if len(set(new.values())) < len(new):
            raise ValueError("--names gives two models one name")
        contenders = [
            contender.model_copy(
                update={"name": new[contender.name], "matched_to": new.get(contender.matched_to or "")}
            )
            for contender in self.contenders
        ]
        return self.model_copy(update={"contenders": contenders, "baseline": new.get(self.baseline, self.baseline)})

    @property
    def damage(self) -> list[str]:
        """The damage in the rows of the runs, one line per run."""
        runs = (run for contender in self.contenders for run in contender.seeds)
        return [f"{run.folder}/metrics.jsonl: {run.damage}" for run in runs if run.damage]

    def column(self, name: str) -> Column | None:
        """The column of that name; None where the table has none."""
        return next((column for column in self.columns if column.name == name), None)
