"""A trained classifier on disk, for the model that it was trained on.

FOLDER/weights.safetensors
FOLDER/exits.json             hashes of the model and of the weights, the settings; sealed by its own sha256
"""

from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, final

from pydantic import Field
from safetensors.torch import save

from seqloom.core.config import Config, read
from seqloom.core.files import parse_json, read_bytes
from seqloom.core.model import Model
from seqloom.depth.classifier import Classifier, ConfidenceClassifier
from seqloom.depth.kinds import AnyClassifier
from seqloom.runs.durable import replace
from seqloom.runs.layout import make_folder, seal_settings
from seqloom.runs.manifest import Damaged
from seqloom.runs.state import model_hash
from seqloom.runs.tensors import read_tensors

NAME, WEIGHTS, THRESHOLDS = "exits.json", "weights.safetensors", "thresholds.json"
_LARGEST = 1 << 20
"""the most bytes of exits.json and thresholds.json"""


@final
class Stored(Config):
    """What exits.json holds: `model` and `weights` are sha256 sums."""

    format: Literal[1] = 1
    model: str = Field(description="the hash of the model's settings and weights")
    source: str = Field(description="the text that it was trained on")
    classifier: AnyClassifier
    weights: str = Field(description="the sum of the file of weights")


@final
class Thresholds(Config):
    """What thresholds.json holds."""

    weights: str = Field(description="the sum of the weights that they are for")
    thresholds: Annotated[tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(strict=False)]


def save_exits(trained: Classifier, model: Model, source: str, folder: Path) -> None:
    """Writes a classifier of a model. Raises ValueError as `require_new` does."""
    require_new(folder)
    make_folder(folder)
    weights = save({name: tensor.detach().cpu().contiguous() for name, tensor in trained.state_dict().items()})
    replace(folder / WEIGHTS, weights)
    digest = sha256(weights).hexdigest()
    settings = trained.config.model_dump(mode="json")
    stored = read(Stored, {"model": model_hash(model), "source": source, "classifier": settings, "weights": digest})
    replace(folder / NAME, seal_settings(stored.model_dump(mode="json")))


def save_thresholds(thresholds: tuple[float, ...], folder: Path) -> None:
    """Writes a threshold for each layer but the last next to a classifier; those of an earlier search are replaced."""
    content = Thresholds(weights=_read_exits(folder).weights, thresholds=thresholds)
    replace(folder / THRESHOLDS, seal_settings(content.model_dump(mode="json")))


def require_new(folder: Path) -> None:
    """ValueError unless a folder is free for a classifier."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} holds something already: choose another --out")


def open_exits(folder: str | Path, model: Model) -> Classifier:
    """The classifier in a folder, verified, on the model's device.

    FileNotFoundError where it is missing; ValueError, in one line, for one of another model or of other weights, and
    for files that are cut or altered.
    """
    folder = Path(folder)
    stored = _read_exits(folder)
    if stored.model != model_hash(model):
        raise ValueError(f"{folder} is of another model, or of other weights: run `seqloom study exits` with this run")
    trained = stored.classifier.build()
    path = folder / WEIGHTS
    max_bytes = 1024 + 8 * sum(tensor.nbytes + 256 for tensor in trained.state_dict().values())
    if sha256(read_bytes(path, max_bytes, follow=False)).hexdigest() != stored.weights:
        raise Damaged(f"{path} is altered: its sha256 is not that in {NAME}: train it again")
    tensors = read_tensors(path, trained.state_dict(), ())
    for name, tensor in trained.state_dict().items():
        if tensors[name].shape != tensor.shape:
            raise Damaged(f"{path}: {name} has {tuple(tensors[name].shape)}, not {tuple(tensor.shape)}: train it again")
    trained.load_state_dict(tensors)
    if isinstance(trained, ConfidenceClassifier) and (folder / THRESHOLDS).exists():
        trained.thresholds = _thresholds(folder, stored)
    return trained.to(model.device).eval()


def _read_exits(folder: Path) -> Stored:
    """The contents of exits.json. FileNotFoundError where it is missing."""
    if not (folder / NAME).is_file():
        raise FileNotFoundError(f"{folder} has no {NAME}: give the --out of `seqloom study exits`")
    stored: Stored = read(Stored, _read(folder / NAME))
    return stored


def _thresholds(folder: Path, stored: Stored) -> tuple[float, ...]:
    """The thresholds in a folder. ValueError if they are of other weights than those that are stored."""
    thresholds: Thresholds = read(Thresholds, _read(folder / THRESHOLDS))
    if thresholds.weights != stored.weights or len(thresholds.thresholds) != stored.classifier.depth - 1:
        raise ValueError(f"{folder / THRESHOLDS} is of another classifier: run `seqloom study thresholds` again")
    return thresholds.thresholds


def _read(path: Path) -> dict[str, Any]:
    """The values of a sealed JSON file without its sha256. ValueError for one that is cut or altered."""
    data = read_bytes(path, _LARGEST, follow=False)
    try:
        values: Any = parse_json(data)
    except ValueError as error:
        raise ValueError(f"{path} is not readable JSON ({error}): make it again") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds no settings: make it again")
    values.pop("sha256", None)
    if data != seal_settings(values):
        raise ValueError(f"{path} is altered: its sha256 is not that of its contents: make it again")
    return values
