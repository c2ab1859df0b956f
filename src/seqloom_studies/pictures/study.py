"""Models that predict pictures, number by number: bits per dimension, the price of a picture, and samples.

    bits per dimension = mean of -log2 p(number | numbers before it)                        of held-out pictures

    study = PicturesStudy([parse_candidate("sparse:length=16"), parse_candidate("longformer:window=32")])
    rows = run(study.study, Path("runs/pictures")).of(Painted)

All models read the same pictures in the same order, and differ in the mixer alone.

Source: Child et al., arXiv:1904.10509, section 7, and Parmar et al., arXiv:1802.05751, section 5, whose measure it is.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch.nn.functional import cross_entropy

from seqloom.core.model_config import weightless
from seqloom.core.rest import Rest
from seqloom.core.seeds import require_count
from seqloom.data.pictures import FRAME, Pictures, decode_picture, read_pictures
from seqloom.data.prepare import Corpus
from seqloom.data.tokens import Tokens
from seqloom.face import load
from seqloom.generation.several import generate_texts
from seqloom.runs.layout import Run
from seqloom.studies.candidate import Candidate
from seqloom.studies.results import Results
from seqloom.studies.study import Cell, Row, RunCell, Study, folder_name, require_distinct
from seqloom.training.config import RunConfig
from seqloom.training.preparation import identity, with_corpus, with_text
from seqloom.training.settings import resolve

PRESET = "pictures/small"
SAMPLES = 8
AT_ONCE = 32
"""pictures that are scored together"""


@final
class Painted(Row):
    """The bits per dimension of one model; None where its training `failed`."""

    mixer: str
    source: str
    seed: int
    lr: float
    batches: int
    batch: int
    dim: int
    depth: int
    parameters: int
    multiplications: int
    """of the layers, for a picture"""
    bits: float | None
    pictures: int
    """held-out pictures"""
    shape: tuple[int, int, int]
    """height, width and numbers of a pixel"""
    samples: list[list[int]] | None
    """the numbers of pictures that the model of seed 0 drew, in rows from the top"""
    failed: str | None = None


@final
@dataclass(frozen=True, kw_only=True)
class PictureCell(RunCell):
    """A model trained on pictures."""

    schema: ClassVar = Painted
    unplanned: ClassVar = "samples"
    mixer: str

    def read(self, run: Run, failed: str | None) -> list[Painted]:
        """One row."""
        pictures = read_pictures(self.config.data.source)
        shared: dict[str, Any] = {
            **self.describe_training(),
            "mixer": self.mixer,
            "multiplications": weightless(self.config.layered_model).inner_cost(pictures.numbers + 1).mul,
            "shape": (pictures.height, pictures.width, pictures.channels),
        }
        if failed is not None:
            return [Painted(**shared, bits=None, pictures=0, samples=None, failed=failed)]
        model: Any = load(run.folder)
        held_out = with_text(self.config)[1].held_out
        bits = measure_bits(model, held_out, pictures)
        samples = _draw_samples(model, pictures) if self.config.training.seed == 0 else None
        return [Painted(**shared, bits=bits, pictures=held_out.documents, samples=samples)]

    def text(self, rows: Sequence[Painted]) -> str:
        """The bits per dimension."""
        return rows[0].failed or f"{rows[0].bits:.4f} bits per dimension"


def measure_bits(model: Any, held_out: Tokens, pictures: Pictures) -> float:
    """The bits per dimension of a model on held-out pictures, each read from its first character on."""
    numbers = pictures.numbers
    rows = torch.stack(
        [torch.from_numpy(held_out.ids[first : first + numbers + 1].astype("int64")) for first in held_out.starts]
    )
    nats = 0.0
    with Rest(model), torch.no_grad():
        for part in rows.to(model.device).split(AT_ONCE):
            logits = model(part[:, :-1]).double()
            nats += float(cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten(), reduction="sum"))
    return nats / math.log(2) / (len(rows) * numbers)


def _draw_samples(model: Any, pictures: Pictures) -> list[list[int]]:
    """The numbers of `SAMPLES` pictures of the model."""
    (texts,) = generate_texts(model, [FRAME], samples=SAMPLES, max_tokens=pictures.numbers, ignore_eos=True)
    shape = pictures.height, pictures.width, pictures.channels
    return [decode_picture(text, *shape, pictures.order).reshape(-1).tolist() for text in texts]


@final
@dataclass(frozen=True)
class PicturesStudy:
    """The mixers and the pictures. ValueError for repeated values and settings that do not fit."""

    mixers: Sequence[Candidate]
    source: str = "images:digits"
    batches: int = 1500
    seeds: int = 1
    changes: Sequence[str] = ()

    def __post_init__(self) -> None:
        require_distinct("pictures", {"mixers": [mixer.name for mixer in self.mixers]})
        require_count(self.seeds)

    @property
    def study(self) -> Study:
        """The study. Its cells share only the folder, to which other mixers may be added."""
        return Study("pictures", {}, self.stages)

    def stages(self, results: Results) -> Iterator[list[Cell]]:
        """One stage with all cells, since no cell needs another."""
        corpus = with_text(self._config(self.mixers[0], 0))[1]
        yield [self._cell(mixer, seed, corpus) for seed in range(self.seeds) for mixer in self.mixers]

    def _config(self, mixer: Candidate, seed: int) -> RunConfig:
        pictures = read_pictures(self.source)
        varied = [f"model.context={pictures.numbers + 1}", f"training.batches={self.batches}", f"training.seed={seed}"]
        return resolve(PRESET, [*varied, *self.changes, *mixer.changes], self.source)

    def _cell(self, mixer: Candidate, seed: int, corpus: Corpus) -> PictureCell:
        config = with_corpus(self._config(mixer, seed), corpus)
        return PictureCell(
            name=f"{folder_name(self.source)}/{mixer.name}/seed-{seed}",
            config=config,
            identity=identity(config, corpus),
            allow_drift=True,
            mixer=mixer.name,
        )
