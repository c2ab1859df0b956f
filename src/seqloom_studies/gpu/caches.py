"""Compiled kernels, which come back from a card and travel with the next call: compilation is most of a first step.

OUT/caches-KEY.tar.gz      KEY: the card, torch and Triton, of which a kernel is made
"""

import os
import tarfile
from pathlib import Path
from typing import final

from seqloom.core.progress import Say
from seqloom_studies.gpu.card import Card

FOLDER = Path("runs/gpu/caches").absolute()
VARIABLES = {"TRITON_CACHE_DIR": "triton", "TORCHINDUCTOR_CACHE_DIR": "inductor"}
LARGEST = 16 << 20
"""the most bytes of a file that comes back"""


@final
class Caches:
    """The caches of this process: the folders that Triton and torch keep compiled code in."""

    def __init__(self, packs: Path, card: Card) -> None:
        self._packs = packs
        versions = [card.versions[name] or "none" for name in ("torch", "triton")]
        self._name = f"caches-{'-'.join([card.slug, *versions])}.tar.gz"
        for variable, folder in VARIABLES.items():
            os.environ.setdefault(variable, str(FOLDER / folder))

    def unpack(self, say: Say) -> None:
        """Fills the folders from a pack of the same card and versions, if there is one and they are empty."""
        packed = next(iter(sorted(self._packs.rglob(self._name))), None)
        if packed is None or FOLDER.is_dir():
            return
        FOLDER.mkdir(parents=True)
        with tarfile.open(packed) as archive:
            archive.extractall(FOLDER, filter="data")
        say(f"compiled kernels of {packed.name} are reused")

    def pack(self, out: Path, say: Say) -> None:
        """Writes the folders into OUT; nothing where they are empty, or too large to come back."""
        if not FOLDER.is_dir():
            return
        path = out / self._name
        with tarfile.open(path, "w:gz", compresslevel=1) as archive:
            archive.add(FOLDER, ".")
        if path.stat().st_size > LARGEST:
            say(f"{path.name} would have {path.stat().st_size:,} bytes, and at most {LARGEST:,} come back: left out")
            path.unlink()
