"""Packs what a bare machine with a GPU lacks, in two parts, each small enough to travel with the tree.

    python -m seqloom_studies.gpu.pack --data books/         writes build/gpu/, and prints the sizes

    build/gpu/triton/   unpack.sh   triton-3.7.1.tar.xz      with its libraries stripped: 197 MB become 41
    build/gpu/queue/    run.sh      stamp.json               the commit, and the digest of its src/
                                    site.tar.xz              the Python packages that it may lack
                                    texts.tar.xz             the books, their tokenizers, the figures' text as tokens
                                    caches-….tar.gz          compiled kernels that came back from a card, if there are

flash-linear-attention refuses gated rules on Hopper with Triton 3.4 to 3.7.0, hence the first. The wheels are those of
Python 3.12 on x86-64. Needs `pip` and `strip`, and a network.
"""

import argparse
import json
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from seqloom.analysis.history import require_traceable
from seqloom.analysis.origin import commit, tag
from seqloom.core.table import table
from seqloom_studies.gpu.card import SOURCE, STAMP, source_digest

ROOT = SOURCE.parent
OUT = Path("build/gpu")
MOST = 60 << 20
"""bytes of one transfer, the tree's among them"""
TRITON = "3.7.1"
PYTHON = "3.12"
SYSTEMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
WITH_NEEDS = ("pydantic>=2.10,<3", "typer>=0.15,<1", "rich>=13,<16", "jaxtyping>=0.3,<0.4", "jinja2>=3.1,<4")
ALONE = (
    *("safetensors>=0.5,<1", "tokenizers>=0.23,<0.24", "pyyaml>=6,<7", "filelock>=3.30,<5"),
    *("fla-core==0.6.0", "flash-linear-attention==0.6.0", "einops"),
)
"""what is imported on the way of the queue, besides torch, Triton and numpy: with what it needs, and without"""
UNUSED = ("profiler", "FileCheck", "plugins", "instrumentation", "_C/libproton.so", "backends/amd/include")
UNUSED_NVIDIA = ("lib/cupti", "bin/ptxas-blackwell", "bin/nvdisasm", "bin/cuobjdump")
"""parts of Triton that compile no kernel for Hopper"""
XZ = [{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2, "preset": 9}]
UNPACK = """#!/bin/sh
# Call 1, on the machine with the GPU: unpacks Triton beside the tree.
set -e
here=$(cd "$(dirname "$0")" && pwd)
home=${SEQLOOM_GPU:-/tmp/seqloom-gpu}
mkdir -p "$home/triton"
python3 -m tarfile --filter data -e "$here"/triton-*.tar.xz "$home/triton"
PYTHONPATH="$home/triton" python3 -c 'import triton, triton._C.libtriton; print("Triton", triton.__version__)'
"""
RUN = """#!/bin/sh
# Call 2 and later: sh build/gpu/queue/run.sh OUT [MINUTES]     OUT: the folder that comes back
set -e
here=$(cd "$(dirname "$0")" && pwd)
root=$(pwd)
[ -d "$root/src/seqloom" ] || { echo "run this from the root of the tree" >&2; exit 2; }
home=${SEQLOOM_GPU:-/tmp/seqloom-gpu}
for part in site texts; do
    if [ -f "$here/$part.tar.xz" ] && [ ! -d "$home/$part" ]; then
        mkdir -p "$home/$part.new"
        python3 -m tarfile --filter data -e "$here/$part.tar.xz" "$home/$part.new"
        mv "$home/$part.new" "$home/$part"
    fi
done
if [ ! -d "$home/triton" ]; then
    echo "Triton is not unpacked: the machine's own is used, with which fla may refuse gated rules (call 1)" >&2
fi
export PYTHONPATH="$root/src:$home/triton:$home/site"
export SEQLOOM_CACHE="$home/texts/cache"
export PYTHONUNBUFFERED=1
out=$1
minutes=${2:-8}
[ $# -lt 2 ] && shift $# || shift 2
[ ! -d "$home/texts" ] || set -- --data "$home/texts/books" --tokens "$home/texts/table1.tokens" "$@"
exec python3 -m seqloom study gpu --minutes "$minutes" --out "$out" --commit COMMIT --packs "$here" "$@"
"""


def main(words: Sequence[str] | None = None) -> int:
    """Packs, prints the sizes and how they are used; 2, with one line, where something is missing or too large."""
    parser = argparse.ArgumentParser(prog="python -m seqloom_studies.gpu.pack", description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="a folder of texts with their authors, which B1, B3, B4, B5 read")
    parser.add_argument("--out", type=Path, default=OUT, help="the folder of the packs")
    parser.add_argument("--caches", type=Path, default=Path("results/gpu"), help="where caches-*.tar.gz came back to")
    parser.add_argument("--scratch", action="store_true", help="for tries: a tree with changes, too")
    chosen = parser.parse_args(words)
    try:
        packs = {
            "triton": pack_triton(chosen.out / "triton"),
            "queue": pack_queue(chosen.out / "queue", chosen.data, chosen.caches, scratch=chosen.scratch),
        }
        print(sizes(packs))
    except (ValueError, OSError, subprocess.CalledProcessError) as error:
        print(f"pack: {_line(error)}", file=sys.stderr)
        return 2
    print(
        f"\non the machine with the GPU, from the tree's root, one after another:\n"
        f"  1. with {packs['triton']}:  sh {packs['triton']}/unpack.sh\n"
        f"  2. with {packs['queue']}:   sh {packs['queue']}/run.sh OUT 8"
    )
    return 0


def pack_triton(folder: Path) -> Path:
    """Packs Triton once: a pack of this version that is there stays."""
    path = folder / f"triton-{TRITON}.tar.xz"
    folder.mkdir(parents=True, exist_ok=True)
    _write_script(folder / "unpack.sh", UNPACK)
    if path.is_file():
        return folder
    with TemporaryDirectory() as made:
        _unpack_wheels(Path(made), [f"triton=={TRITON}"])
        root = Path(made, "triton")
        for name in (*UNUSED, *(f"backends/nvidia/{name}" for name in UNUSED_NVIDIA)):
            _remove(root / name)
        for library in (root / "_C/libtriton.so", root / "backends/nvidia/bin/ptxas"):
            _strip(library)
        with _archive(path) as archive:
            archive.add(made, ".")
    return folder


def pack_queue(folder: Path, books: Path | None, caches: Path, *, scratch: bool = False) -> Path:
    """Packs all else. ValueError for code whose commit cannot be looked at, unless it is a try."""
    if not scratch:
        require_traceable([commit()])
    if books is not None and not books.is_dir():
        raise ValueError(f"--data {books}: there is no such folder of texts")
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as made, _archive(folder / "site.tar.xz") as archive:
        _unpack_wheels(Path(made), WITH_NEEDS, needs=True)
        _unpack_wheels(Path(made), ALONE)
        archive.add(made, ".")
    _remove(folder / "texts.tar.xz")
    if books is not None:
        with TemporaryDirectory() as made, _archive(folder / "texts.tar.xz") as archive:
            _prepare_texts(books, Path(made))
            archive.add(made, ".")
    for earlier in folder.glob("caches-*.tar.gz"):
        earlier.unlink()
    for path in sorted(caches.glob("caches-*.tar.gz")):
        shutil.copy(path, folder)
    stamp = {"commit": commit(), "tag": tag(), "source": source_digest()}
    (folder / STAMP).write_text(json.dumps(stamp) + "\n")
    _write_script(folder / "run.sh", RUN.replace("COMMIT", commit()))
    return folder


def sizes(packs: dict[str, Path], most: int = MOST) -> str:
    """The table of what travels in each call. ValueError where a call would be larger than `most` bytes."""
    tree = sum(path.stat().st_size for path in _tracked_files())
    rows: list[tuple[str, str, int]] = []
    for number, folder in enumerate(packs.values(), 1):
        rows.append((f"call {number}", "the tree", tree))
        rows += [(f"call {number}", str(path), path.stat().st_size) for path in sorted(folder.iterdir())]
        total = sum(size for call, _, size in rows if call == f"call {number}")
        if total > most:
            raise ValueError(
                f"call {number} would have {total:,} bytes, and at most {most:,} travel: take something out of {folder}"
            )
        rows.append((f"call {number}", "all", total))
    return table(("", "what travels", "bytes"), rows)


def _prepare_texts(books: Path, made: Path) -> None:
    """The books, the tokenizers of all corpora of the comparison, and the text of the figures as tokens.

    A machine that has the tokenizers only encodes the text, which takes seconds; training one takes as long each.
    """
    from seqloom.data import archive
    from seqloom.training.preparation import with_text
    from seqloom.training.settings import resolve
    from seqloom_studies.board.lineup import FOLDS
    from seqloom_studies.board.study import Board

    shutil.copytree(books, made / "books")
    with TemporaryDirectory() as cache:
        os.environ["SEQLOOM_CACHE"] = cache
        board = Board(str(made / "books"))
        for fold in (None, *range(FOLDS)):
            board.corpus(fold)
        config = resolve("paper/table1", [], str(made / "books"))
        archive.write(with_text(config)[1], archive.shaping(config.data, None), made / "table1.tokens")
        for path in Path(cache).rglob("tokenizer.*"):
            place = made / "cache" / path.relative_to(cache)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)


def _unpack_wheels(folder: Path, packages: Sequence[str], *, needs: bool = False) -> None:
    """Downloads wheels of these packages, with what they need if `needs`, and unpacks them.

    ValueError where one is missing.
    """
    systems = [word for system in SYSTEMS for word in ("--platform", system)]
    with TemporaryDirectory() as wheels:
        words = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--only-binary=:all:"]
        words += [] if needs else ["--no-deps"]
        words += ["--python-version", PYTHON, "--implementation", "cp", *systems, "--dest", wheels, *packages]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(f"pip found no wheels: {done.stderr.strip().splitlines()[-1]}")
        for wheel in sorted(Path(wheels).glob("*.whl")):
            with zipfile.ZipFile(wheel) as file:
                file.extractall(folder)


def _strip(library: Path) -> None:
    """Takes the symbols out of a library or program that are for debuggers."""
    subprocess.run(["strip", "--strip-unneeded", library], check=True, capture_output=True)
    library.chmod(0o755)


def _tracked_files() -> list[Path]:
    """The files of the tree. ValueError outside of a checkout."""
    words = ["git", "ls-files", "-z"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"{ROOT} is no checkout, of which the tree that travels is known: pack in one")
    return [path for name in done.stdout.split("\0") if name and (path := ROOT / name).is_file()]


@contextmanager
def _archive(path: Path) -> Iterator[tarfile.TarFile]:
    """A new compressed archive; nothing is left of it after an error."""
    part = path.with_name(f".{path.name}.part")
    try:
        with lzma.open(part, "wb", filters=XZ) as file, tarfile.open(fileobj=file, mode="w") as archive:
            yield archive
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _write_script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _line(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return f"{error.cmd[0]} failed: {error.stderr.decode(errors='replace').strip()[:200]}"
    return " ".join(str(error).split())


if __name__ == "__main__":
    sys.exit(main())
