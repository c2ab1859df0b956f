"""A store on disk: for each token of a text, the key that a model computes, and the token that came next.

    STORE/store.json       the model, the text, the sizes; sealed by its own sha256
    STORE/entries/         keys.bin (N, D), values.bin (N), lists.faiss if it has lists, and manifest.json over them
    STORE/progress.json    while it is built: how much of it is flushed to disk; sealed by its own sha256
    STORE/tuned.json       what `seqloom knn tune` chose; sealed by its own sha256

Entry n is that of token n of the text. Keys are memory-mapped. A store belongs to one model: `store.json` has the hash
of its settings and weights.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, final

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor

from seqloom.core.config import Config, read
from seqloom.core.files import parse_json, read_bytes
from seqloom.core.model import Model
from seqloom.retrieval.keys import key_width
from seqloom.runs import manifest
from seqloom.runs.durable import replace
from seqloom.runs.layout import identity, seal_settings
from seqloom.runs.manifest import Damaged
from seqloom.runs.state import model_hash

KEYS, VALUES, LISTS = "keys.bin", "values.bin", "lists.faiss"
ORIGIN = ("source", "run", "step")
"""settings that say where model and text were read from, on which the contents of the store do not depend"""
_LARGEST = 1 << 16
"""the most bytes of store.json and tuned.json"""


@final
class StoreConfig(Config):
    """What a store was built from, and its sizes: `model` and `text` are sha256 sums."""

    format: Literal[1] = 1
    model: str = Field(description="the hash of the model's settings and weights")
    text: str = Field(description="the hash of the token ids")
    source: str = Field(description="where the text was read")
    entries: int = Field(ge=1, description="tokens of the text")
    dim: int = Field(ge=1, description="numbers of a key")
    half: bool = Field(False, description="keys in float16 instead of float32")
    context: int = Field(ge=1, description="tokens of the windows that the model read")
    stride: int = Field(ge=1, description="tokens between the beginnings of two windows")
    lists: int | None = Field(None, ge=1, description="inverted lists, where there are any")
    probes: int = Field(8, ge=1, description="lists that are searched for each query")
    run: str = Field("", description="the folder of the model's run, where it was built of one")
    step: int | None = Field(None, ge=0, description="the step of that run's checkpoint; the newest unless given")
    later: ClassVar = ("run", "step")

    @model_validator(mode="before")
    @classmethod
    def _without_lists(cls, values: Any) -> Any:
        """Leaves `probes` at its default where there are no lists, so that it does not tell equal stores apart."""
        if isinstance(values, dict) and values.get("lists") is None:
            return {name: value for name, value in values.items() if name != "probes"}
        return values

    @property
    def dtype(self) -> "np.dtype[Any]":
        """The dtype of the keys on disk."""
        return np.dtype("<f2" if self.half else "<f4")

    @property
    def digest(self) -> str:
        """sha256 of the settings that determine the contents: all but `ORIGIN`."""
        return identity(self.model_dump(mode="json", exclude=set(ORIGIN)))


@final
class Mix(Config):
    """How the neighbors' tokens and the model's prediction are mixed."""

    k: int = Field(1024, ge=1, description="neighbors that are looked up")
    weight: float = Field(0.25, gt=0, lt=1, description="λ: the share of the neighbors in the prediction")
    temperature: float = Field(1.0, gt=0, description="divides the squared distances")


@final
@dataclass(frozen=True)
class Store:
    """A complete store, opened."""

    folder: Path
    config: StoreConfig
    keys: Float[Tensor, "N D"]
    """memory-mapped; float32 or float16"""
    values: Int[Tensor, " N"]
    """the token after each key; memory-mapped; int32"""

    @property
    def lists(self) -> Path | None:
        """The file of its inverted lists, if it has any."""
        return self.folder / "entries" / LISTS if self.config.lists is not None else None

    def mix(self) -> Mix:
        """What `seqloom knn tune` chose, or the paper's values. ValueError for a file that was altered."""
        path = self.folder / "tuned.json"
        if path.exists():
            mix: Mix = parse_settings(Mix, read_sealed(path).get("mix"), path)
        else:
            mix = Mix(k=min(Mix().k, self.config.entries))
        self.require(mix.k)
        return mix

    def write_tuning(self, mix: Mix, losses: dict[str, float]) -> None:
        """Writes tuned.json: the chosen mix, and the losses that it was chosen by."""
        self.require(mix.k)
        replace(self.folder / "tuned.json", seal_settings({"mix": mix.model_dump(mode="json"), "losses": losses}))

    def require(self, k: int) -> None:
        """ValueError where it holds fewer than k entries."""
        if k > self.config.entries:
            raise ValueError(f"k is {k:,}, and {self.folder} holds {self.config.entries:,} keys: choose a smaller k")


def open_store(folder: str | Path, model: Model) -> Store:
    """The store in a folder; its files are verified by their sha256.

    FileNotFoundError where it is missing; ValueError, in one line, for one of another model or of other weights, one
    that is half built, and one that is cut or altered.
    """
    folder = Path(folder)
    config = config_of(folder)
    if config.model != model_hash(model) or config.dim != key_width(model):
        raise ValueError(f"{folder} is a store of another model, or of other weights: build one of this run")
    entries = folder / "entries"
    if not (entries / manifest.NAME).is_file():
        raise ValueError(f"{folder} is half built: run the same `seqloom knn build` again, which goes on with it")
    sizes = manifest.verify(entries)
    expected_sizes = {KEYS: config.entries * config.dim * config.dtype.itemsize, VALUES: 4 * config.entries}
    for name, size in expected_sizes.items():
        if sizes.get(name) != size:
            raise Damaged(f"{entries}: {name} has {sizes.get(name)} bytes, store.json describes {size}: build it again")
    if config.lists is not None and LISTS not in sizes:
        raise Damaged(f"{entries}: {LISTS} is missing, and store.json describes {config.lists:,} lists: build it again")
    keys = np.memmap(entries / KEYS, config.dtype, "c", shape=(config.entries, config.dim))
    values = np.memmap(entries / VALUES, np.dtype("<i4"), "c", shape=(config.entries,))
    vocab = model.config.vocab
    if values.min() < 0 or values.max() >= vocab:
        raise Damaged(f"{entries}: {VALUES} has tokens that are not in the vocabulary of {vocab:,}: build it again")
    return Store(folder, config, torch.from_numpy(keys), torch.from_numpy(values))


def config_of(folder: Path) -> StoreConfig:
    """The contents of store.json. FileNotFoundError where it is missing; ValueError where it was altered."""
    path = folder / "store.json"
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is no store: it has no store.json; `seqloom knn build` makes one")
    config: StoreConfig = parse_settings(StoreConfig, read_sealed(path), path)
    return config


def parse_settings(kind: type[Config], values: Any, path: Path) -> Any:
    """The values of a file as settings of a kind. ValueError, which names the file, where they are none."""
    try:
        return read(kind, values)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def read_sealed(path: Path) -> dict[str, Any]:
    """The values of a sealed JSON file without its sha256. ValueError for one that is cut or altered."""
    data = read_bytes(path, _LARGEST, follow=False)
    try:
        values = parse_json(data)
    except ValueError as error:
        raise ValueError(f"{path} is not readable JSON ({error}): build the store again") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds no settings: build the store again")
    values.pop("sha256", None)
    if data != seal_settings(values):
        raise ValueError(f"{path} is altered: its sha256 is not that of its contents: build the store again")
    return values
