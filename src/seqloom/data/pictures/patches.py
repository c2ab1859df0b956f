"""Pictures in patches, each with its label: numbers in place of tokens.

    values (N, T, V):   T = H/p W/p patches, row by row from the top; V = p p C numbers 0 … 255 of p × p pixels

Pictures are held out as those of `labelled` are, so that models by pixel and by patch are scored on the same ones.

Source: Dosovitskiy et al., ViT, arXiv:2010.11929, section 3.1; Tolstikhin et al., MLP-Mixer, arXiv:2105.01601.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt

from seqloom.data.labelled import split_examples
from seqloom.data.labels import Example, from_file, require_known
from seqloom.data.pictures.source import PREFIX, Pictures, read_pictures
from seqloom.data.pictures.text import decode_picture

Shape: TypeAlias = tuple[int, int, int]
"""height, width and numbers of a pixel"""


@final
@dataclass(frozen=True, eq=False)
class LabelledPatches:
    """values (N, T, V) of N pictures, and the numbers of their labels (N,)."""

    values: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


@final
@dataclass(frozen=True, eq=False)
class PatchCorpus:
    """The pictures of a source, those for training and the held-out ones."""

    train: LabelledPatches
    held_out: LabelledPatches
    names: tuple[str, ...]
    """of the labels"""
    shape: Shape
    """of each picture"""


def read_patches(source: str, patch: int, held_out: float, seed: int) -> PatchCorpus:
    """The pictures of a source (`images:…`) in patches.

    ValueError, in one line, for a source of another kind, patches that do not fill a picture, fewer than two labels,
    and as `read_pictures` has it; FileNotFoundError for a folder that is not there.
    """
    pictures = _require_pictures(source)
    require_patch(patch, _shape_of(pictures))
    split = _split_patches if pictures.folder is None else _split_patches.__wrapped__
    return split(pictures, patch, held_out, seed)


@lru_cache(maxsize=2)  # a study reads the same drawn pictures for each of its models
def _split_patches(pictures: Pictures, patch: int, held_out: float, seed: int) -> PatchCorpus:
    source = pictures.name
    train, held_out_examples, names = split_examples(source, "given", 0, held_out, seed, "text")
    train_patches, held_out_patches = (
        _patches_of(examples, pictures, patch, names) for examples in (train, held_out_examples)
    )
    return PatchCorpus(train_patches, held_out_patches, names, _shape_of(pictures))


def read_known_patches(source: str, patch: int, shape: Shape, names: Sequence[str]) -> LabelledPatches:
    """All pictures of a source for a model of such pictures and labels. Raises as `read_patches`, and for others."""
    pictures = _require_pictures(source)
    if _shape_of(pictures) != tuple(shape):
        there, learned = _in_words(_shape_of(pictures)), _in_words(shape)
        raise ValueError(f"{source}: pictures of {there}, and the model was trained on {learned}: give such")
    examples = from_file(source)
    require_known(examples, names)
    return _patches_of(examples, pictures, patch, names)


def cut_patches(pictures: npt.NDArray[np.uint8], patch: int) -> npt.NDArray[np.uint8]:
    """The values (N, T, V) of pictures (N, H, W, C)."""
    count, height, width, channels = pictures.shape
    squares = pictures.reshape(count, height // patch, patch, width // patch, patch, channels)
    return squares.transpose(0, 1, 3, 2, 4, 5).reshape(count, -1, patch * patch * channels)


def require_patch(patch: int, shape: Shape) -> None:
    """ValueError where patches of `patch` × `patch` pixels do not fill a picture."""
    height, width, _ = shape
    if height % patch or width % patch:
        fitting = ", ".join(str(side) for side in range(1, 65) if not height % side and not width % side)
        raise ValueError(
            f"model.patch={patch} does not divide pictures of {width} × {height} pixels: choose one of {fitting}"
        )


def identity_of(source: str) -> str:
    """What is equal for equal pictures with equal labels. Raises as `read_patches` does."""
    pictures = _require_pictures(source)
    if pictures.folder is None:
        return f"{PREFIX}:{pictures.kind}:{pictures.width}:{pictures.count}:{pictures.seed}"
    digest = hashlib.sha256()
    for example in from_file(source):
        digest.update("\t".join((example.label, *example.texts)).encode() + b"\n")
    return digest.hexdigest()


def _require_pictures(source: str) -> Pictures:
    if not source.startswith(f"{PREFIX}:"):
        raise ValueError(
            f"{source[:100]}: patches are of pictures: say {PREFIX}:KIND, such as {PREFIX}:digits, or {PREFIX}:./FOLDER"
        )
    pictures = read_pictures(source)
    if pictures.order != "raster":
        raise ValueError(f"{source[:100]}: patches are squares already: leave :{pictures.order} out")
    return pictures


def _shape_of(pictures: Pictures) -> Shape:
    return pictures.height, pictures.width, pictures.channels


def _in_words(shape: Shape) -> str:
    height, width, channels = shape
    return f"{width} × {height} {'gray' if channels == 1 else 'colored'} pixels"


def _patches_of(examples: Sequence[Example], pictures: Pictures, patch: int, names: Sequence[str]) -> LabelledPatches:
    shape = _shape_of(pictures)
    numbers = {name: number for number, name in enumerate(names)}
    decoded = np.stack([decode_picture(example.texts[0], *shape) for example in examples])
    labels: npt.NDArray[np.int64] = np.array([numbers[example.label] for example in examples], np.int64)
    return LabelledPatches(cut_patches(decoded, patch), labels)
