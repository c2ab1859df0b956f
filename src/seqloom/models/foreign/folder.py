"""The tensors in a folder of transformers, by name, read one by one and mapped from disk, never run.

    model.safetensors                     or
    model.safetensors.index.json          → weight_map: name → one of several files

Pickles (pytorch_model.bin) are refused: they are programs. Of families that are stored no other way they are read by
`pickled`.
"""

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, final

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from seqloom.core.files import read_json, require_own
from seqloom.models.foreign.pickled import PickledTensors

ONE, INDEX = "model.safetensors", "model.safetensors.index.json"
DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
LARGEST = 64 << 20
"""the most bytes of an index"""


@final
class Tensors:
    """The tensors of a folder; a context, in which they can be read.

    FileNotFoundError where there are none, ValueError, in one line, for a file that is damaged, is missing, or holds a
    tensor that another holds too.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._files: dict[str, Any] = {}
        """the open file of each tensor, for its shape"""
        self._paths: dict[str, Path] = {}
        for path in _files(folder):
            try:
                file = self._stack.enter_context(safe_open(path, "pt"))
                names = list(file.keys())
            except (SafetensorError, OSError) as error:
                raise ValueError(f"{path} is damaged ({error}): download it again") from None
            for name in names:
                if name in self._files:
                    raise ValueError(f"{path} holds the tensor {name}, which another file holds too")
                self._files[name] = file
                self._paths[name] = path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @property
    def names(self) -> list[str]:
        """The names of all tensors."""
        return list(self._files)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, without reading it."""
        return tuple(self._files[name].get_slice(name).get_shape())

    def dtype(self, name: str) -> torch.dtype:
        """The dtype of a tensor, without reading it. ValueError for numbers that are quantized."""
        stored = self._files[name].get_slice(name).get_dtype()
        if stored not in DTYPES:
            raise ValueError(
                f"{self._folder}: {name} is stored as {stored}, which is not read: only {', '.join(DTYPES)} are"
            )
        return DTYPES[stored]

    def read(self, name: str) -> Tensor:
        """A tensor, mapped from disk, until it is freed. ValueError where the file is damaged."""
        try:
            with safe_open(self._paths[name], "pt") as file:  # an open file would keep what was read of it in memory
                tensor: Tensor = file.get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise ValueError(f"{self._folder}: the tensor {name} cannot be read ({error})") from None
        return tensor


def open_tensors(folder: Path, pickled: str = "") -> Tensors | PickledTensors:
    """The tensors of a folder; `pickled` is a pattern of the pickles that are read where there are no safetensors.

    Raises as `Tensors` and `PickledTensors` do, and ValueError where several files fit.
    """
    if not pickled or (folder / ONE).is_file() or (folder / INDEX).is_file():
        return Tensors(folder)
    files = sorted(folder.glob(pickled))
    if len(files) > 1:
        raise ValueError(f"{folder} has several files {pickled}: keep one model in a folder")
    return PickledTensors(files[0]) if files else Tensors(folder)


def _files(folder: Path) -> list[Path]:
    """The files of weights, each once."""
    index = folder / INDEX
    if index.is_file():
        content = read_json(index, LARGEST)
        names = content.get("weight_map") if isinstance(content, dict) else None
        if not isinstance(names, dict) or not names or not all(isinstance(name, str) for name in names.values()):
            raise ValueError(f"{index} is no index of weights: it has no weight_map")
        outside = next((name for name in names.values() if Path(name).name != name), None)
        if outside is not None:
            raise ValueError(f"{index} names {outside}, which is not a file of this folder")
        paths = [require_own(folder, name) for name in dict.fromkeys(names.values())]
        missing = next((path for path in paths if not path.is_file()), None)
        if missing is not None:
            raise FileNotFoundError(f"{missing} is missing, and {INDEX} names it: download it")
        return paths
    if (folder / ONE).is_file():
        return [folder / ONE]
    pickles = sorted(path.name for pattern in ("*.bin", "*.pt", "*.pth") for path in folder.glob(pattern))
    if pickles:
        raise ValueError(
            f"{folder / pickles[0]} is a pickle, which may run code when it is read: convert it to safetensors, as "
            "transformers' save_pretrained does"
        )
    raise FileNotFoundError(f"{folder} has no weights: {ONE} is missing")
