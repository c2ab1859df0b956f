"""The models that can be talked to: found in folders, loaded when they are asked for, within a given memory."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import final

from seqloom.core.model import Model, require_generates
from seqloom.face import load
from seqloom.runs.layout import Run

MOST = 200
"""the most models of a page"""
CARRIED = Path(__file__).parent / "models"
"""small models that come with seqloom, each a run in a folder of its own"""


def find_models(folders: Sequence[Path]) -> dict[str, Path]:
    """The folders of runs and of models of transformers, by name: those given, or those beneath them."""
    found: dict[str, Path] = {}
    for folder in folders:
        for path in _models_beneath(folder)[:MOST]:
            name = path.name if path == folder else path.relative_to(folder.parent).as_posix()
            found.setdefault(name if name not in found or found[name] == path else str(path), path)
    return found


def require_folders(folders: Sequence[Path], *, empty: bool = False) -> None:
    """FileNotFoundError where a folder does not exist, or, unless it may be `empty`, holds no model."""
    for folder in folders:
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder} does not exist: give the folder of a run, or one with runs in it")
        if not empty and not _models_beneath(folder):
            raise FileNotFoundError(f"{folder} holds no run: no folder in it has a config.json with a model")


def _models_beneath(folder: Path) -> list[Path]:
    """The folder itself where it holds a model, otherwise those in it that do."""
    if _holds_model(folder):
        return [folder]
    return [path.parent for path in sorted(folder.rglob("config.json")) if _holds_model(path.parent)]


def _holds_model(folder: Path) -> bool:
    """Whether a folder is a run or a model of transformers. One that is damaged is, and says so when it is loaded."""
    run = Run(folder)
    if not run.config.is_file():
        return False
    if run.is_foreign:
        return True
    try:
        settings = run.settings
    except (OSError, ValueError):
        return (folder / "checkpoints").is_dir()
    return isinstance(settings.get("model"), dict) and "study" not in settings


def carried_models() -> list[Path]:
    """The folders of the models that come with seqloom."""
    return sorted(CARRIED.iterdir())


def find_reports(folders: Sequence[Path]) -> list[Path]:
    """The reports of the folders, at most `MOST`."""
    found = [path for folder in folders for path in sorted(folder.rglob("report.html")) if path.is_file()]
    return found[:MOST]


@final
class Library:
    """Models by name. It holds as many as fit into `memory` bytes, and lets go of those asked for longest ago."""

    def __init__(self, places: Sequence[Path], memory: int) -> None:
        self._places = list(places)
        self._memory = memory
        self._loaded: OrderedDict[str, Model] = OrderedDict()
        self._folders: dict[str, Path] = {}
        self.reports: list[Path] = []
        self.find()

    def find(self) -> None:
        """Finds the models and reports of its places; a name that was given to one stays its own."""
        self._folders = {**find_models(self._places), **self._folders}
        self.reports = list(dict.fromkeys([*self.reports, *find_reports(self._places)]))

    @property
    def names(self) -> list[str]:
        """The names of all models."""
        return list(self._folders)

    def folder(self, name: str) -> Path:
        """The folder of a model. KeyError for an unknown name."""
        return self._folders[name]

    def get(self, name: str, is_busy: Callable[[str], bool]) -> Model:
        """The model, which is loaded if need be; models that are busy stay.

        ValueError where it writes no text or is too large, and as `seqloom.load` does.
        """
        if name not in self._loaded:
            model = load(self._folders[name]).eval()
            require_generates(model)
            if model.tokenizer is None:
                raise ValueError(f"{name} has no tokenizer.json, so text cannot be read for it")
            self._make_room(name, _bytes_of([model]), is_busy)
            self._loaded[name] = model
        self._loaded.move_to_end(name)
        return self._loaded[name]

    def _make_room(self, name: str, needed: int, is_busy: Callable[[str], bool]) -> None:
        """Lets go of models until there is room. ValueError where there is none."""
        for other in list(self._loaded):
            if needed + _bytes_of(self._loaded.values()) <= self._memory:
                return
            if not is_busy(other):
                del self._loaded[other]
        if needed + _bytes_of(self._loaded.values()) > self._memory:
            raise ValueError(f"{name} needs {needed:,} bytes, which --memory does not leave: give more, or wait")

    def has(self, name: str) -> bool:
        """Whether the model is loaded now."""
        return name in self._loaded


def _bytes_of(models: Iterable[Model]) -> int:
    """The bytes of the parameters and buffers."""
    tensors = (tensor for model in models for tensor in (*model.parameters(), *model.buffers()))
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
