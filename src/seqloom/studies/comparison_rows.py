"""A comparison from Python: `seqloom.compare` and `seqloom.results`.

rows = seqloom.compare(["attention", "gated_delta", MyMixer], data="books/", seeds=3)
print(rows.table())                 rows.to_pandas(), rows.report(), rows.figures("figures")
rows[0]["held-out loss"]            a model's numbers by the names of the columns, the lowest loss first
seqloom.results("runs/compare")     the same rows, from disk
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final, overload

from torch import nn

from seqloom.core.arguments import describe_value
from seqloom.core.named_object import object_name
from seqloom.report import page
from seqloom.report.comparison import Comparison
from seqloom.report.figures import Figures, parse_width, require_formats, write_figures
from seqloom.report.formats import format_table
from seqloom.report.read import read
from seqloom.studies import summary
from seqloom.studies.candidate import parse_candidate, preset_of
from seqloom.studies.compare import PROMPT, Compare
from seqloom.studies.runner import Workers

if TYPE_CHECKING:
    import pandas as pd

COMMAND = "seqloom.compare in Python"
"""what stands for the command in the report"""


@final
@dataclass(frozen=True)
class ComparisonRows(Sequence[dict[str, Any]]):
    """The rows of a comparison: a dict for each model, of its name and its number in each column (None: unknown)."""

    out: Path
    """the folder of the runs and of the report"""
    comparison: Comparison
    """all of it: seeds, samples, views, limits"""

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        return list(self)[index]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for contender in self.comparison.contenders:
            yield {"model": contender.name, **{name: contender.value(name) for name in self.columns}}

    def __len__(self) -> int:
        return len(self.comparison.contenders)

    def __str__(self) -> str:
        return self.table()

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in their order."""
        return [column.name for column in self.comparison.columns]

    def table(self, form: str = "text") -> str:
        """The table as text, latex, markdown or csv. ValueError for another form."""
        return format_table(self.comparison, form)

    def to_pandas(self) -> "pd.DataFrame":
        """A table of pandas with one line for each model. ImportError, which says what to do, without pandas."""
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("to_pandas needs pandas: pip install pandas, or use .table('csv')") from None
        return pd.DataFrame(list(self)).set_index("model")

    def report(self) -> Path:
        """Writes the page of the comparison; returns its path. FileNotFoundError where a run is gone."""
        return page.write(self.out)

    def figures(
        self, folder: str | Path, *, formats: str = "pdf", width: str = "3.3in", font: float = 8, **names: str
    ) -> list[Path]:
        """Writes every chart as a file of this width, with text of `font` points; returns the paths.

        `names` are other names of models, as `**{"attention-heads=4": "Attention"}`. ValueError for values that
        do not fit, and without the extra `report`.
        """
        sizes = Figures(require_formats(formats), parse_width(width), font)
        return write_figures(self.comparison.with_names(names), Path(folder), sizes)


def compare(
    models: Sequence[str | type[nn.Module]],
    *,
    data: str | Path | None = None,
    out: str | Path = "runs/compare",
    seeds: int = 1,
    preset: str | None = None,
    settings: Mapping[str, Any] | None = None,
    lengths: Sequence[int] = (),
    probes: Sequence[str] = (),
    prompts: Sequence[str] = (PROMPT,),
    jobs: int = 1,
) -> ComparisonRows:
    """Trains models on identical batches and returns their rows; the same call continues where it stopped.

    A model is a mixer (`"attention:heads=4"`), a recipe (`"llama/small"`), or any layer: its class, or its name as
    "my.py:Layer". `data` is what --data of the command takes, `settings` are settings of all models by name, as
    {"training.batches": 3000}; `lengths`, `probes` and `prompts` are as of the command. Raises TypeError or ValueError
    for what does not fit, before anything is trained, and `Stopped` where a signal ended it.
    """
    if isinstance(models, str | type) or not models:
        raise ValueError("models is a list of models, such as ['attention', 'gated_delta']")
    texts = [_text(model) for model in models]
    study = Compare(
        [parse_candidate(text) for text in texts],
        preset or preset_of(texts),
        [f"{name}={json.dumps(value)}" for name, value in (settings or {}).items()],
        None if data is None else str(data),
        seeds,
        lengths=lengths,
        probes=probes,
        prompts=prompts,
    )
    summary.compare(study, Path(out), Workers(jobs), COMMAND)
    return results(out)


def results(out: str | Path) -> ComparisonRows:
    """The rows of the comparison in this folder, the --out of `seqloom compare`.

    FileNotFoundError and ValueError, in one line, where there is none or it is damaged.
    """
    if not isinstance(out, str | Path):
        raise TypeError(f"out is the folder of a comparison, not {describe_value(out)}")
    return ComparisonRows(Path(out), read(Path(out)))


def _text(model: Any) -> str:
    """A model as the command names it. TypeError for what is neither a name nor the class of a layer."""
    if isinstance(model, str):
        return model
    if isinstance(model, type) and issubclass(model, nn.Module):
        return object_name(model)
    raise TypeError(f"a model is a name such as 'gated_delta', or the class of a layer, not {describe_value(model)}")
