"""The tensors of a .pth or .bin file of torch, by name, mapped from disk and never run.

torch's restricted unpickler builds tensors alone (`weights_only`); a file that asks for anything else is refused.
"""

from pathlib import Path
from pickle import UnpicklingError
from typing import Self, final

import torch
from torch import Tensor

from seqloom.core.files import open_regular


@final
class PickledTensors:
    """As `folder.Tensors`, of one file. ValueError, in one line, for a file that is damaged or holds code."""

    def __init__(self, path: Path) -> None:
        self._path = path
        tensors = _load(path)
        self._shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        self._dtypes = {name: tensor.dtype for name, tensor in tensors.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is open: each tensor is mapped when it is read."""

    @property
    def names(self) -> list[str]:
        """The names of all tensors."""
        return list(self._shapes)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor."""
        return self._shapes[name]

    def dtype(self, name: str) -> torch.dtype:
        """The dtype of a tensor. ValueError for numbers that are quantized."""
        dtype = self._dtypes[name]
        if not dtype.is_floating_point or dtype.itemsize < 2:
            raise ValueError(f"{self._path}: {name} is stored as {dtype}, which is not read")
        return dtype

    def read(self, name: str) -> Tensor:
        """A tensor, mapped from disk, until it is freed."""
        return _load(self._path)[name]  # a mapping that stays would keep in memory what was read of it


def _load(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by name, mapped from disk. Raises as `PickledTensors` does."""
    open_regular(path).close()
    try:
        content = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    except UnpicklingError:
        raise ValueError(
            f"{path} is a pickle that holds more than tensors, which may run code when it is read: choose safetensors"
        ) from None
    except (RuntimeError, OSError, EOFError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{path} is damaged or no file of tensors ({reason}): download it again") from None
    if not isinstance(content, dict) or not all(
        isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in content.items()
    ):
        raise ValueError(f"{path} holds more than tensors by name: choose a file of weights alone")
    return content
