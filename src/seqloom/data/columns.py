"""Documents from a text column: Parquet files, and folders that `datasets` saved (`Dataset.save_to_disk`).

Every pass reads rows in small batches, so a source may be larger than the memory. Both kinds need only pyarrow (the
extra `seqloom[data]`): a folder of `datasets` holds Arrow streams, which its state.json lists:

    state.json {"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}     dataset_dict.json {"splits": ["train"]}
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, final

from seqloom.core.files import open_regular, read_json
from seqloom.data.documents import Document, Documents
from seqloom.data.text_file import require_unchanged, stamp_of_open

ROWS = 1024
"""rows that are read at once"""
SAVED = "state.json"
SPLITS = "dataset_dict.json"
NAME = "name one by --set data.column=NAME (`data` and `evaluate`: --column NAME)"


def parquet(paths: Sequence[Path], column: str, source: str, change: Callable[[str], str]) -> Documents:
    """The texts of one column of Parquet files, one document per row; `change` is applied to each text.

    Raises ValueError, in one line that names the file, where pyarrow is not installed, the file is not Parquet or is
    damaged (found in the pass that reads the damaged data), it has no such column, or the column is not of strings.
    """
    return _documents([_Parquet(path) for path in paths], column, source, change)


def is_saved(folder: Path) -> bool:
    """Whether `datasets` saved this folder, as a dataset or as several splits."""
    return (folder / SPLITS).is_file() or all((folder / name).is_file() for name in (SAVED, "dataset_info.json"))


def load_saved(folder: Path, column: str, change: Callable[[str], str]) -> Documents:
    """The texts of one column of a folder that `datasets` saved; of its splits, `train` or the only one is read.

    Raises ValueError as `parquet` does, and where there are several splits and none is called train.
    """
    skipped = {}
    if (folder / SPLITS).exists():
        splits = _names(read_json(folder / SPLITS), "splits", folder / SPLITS)
        chosen = splits[0] if len(splits) == 1 else "train"
        if chosen not in splits:
            raise ValueError(f"{folder}: there are the splits {', '.join(splits)}: name one, as {folder / splits[0]}")
        skipped = {f"split {name}": 1 for name in splits if name != chosen}
        folder = folder / chosen
    state = read_json(folder / SAVED)
    files = state.get("_data_files") if isinstance(state, dict) else None
    entries = files if isinstance(files, list) else []
    filenames = [file.get("filename") if isinstance(file, dict) else None for file in entries]
    names = _names({"files": filenames}, "files", folder / SAVED)
    return _documents([_Arrow(folder / name) for name in names], column, str(folder), change, skipped)


@final
@dataclass(frozen=True)
class _Parquet:
    """A Parquet file, read through an open file."""

    path: Path

    def columns(self, file: BinaryIO) -> Any:
        return self._open_file(file).schema_arrow

    def rows(self, file: BinaryIO) -> int:
        return int(self._open_file(file).metadata.num_rows)

    def batches(self, file: BinaryIO, names: Sequence[str]) -> Iterator[Any]:
        selected = [".".join(names)]
        for batch in self._open_file(file).iter_batches(batch_size=ROWS, columns=selected, use_threads=False):
            yield batch.column(names[0])

    def _open_file(self, file: BinaryIO) -> Any:
        from pyarrow.parquet import ParquetFile

        return ParquetFile(file, pre_buffer=False, buffer_size=1 << 16)


@final
@dataclass(frozen=True)
class _Arrow:
    """A file with an Arrow stream, read through an open file."""

    path: Path

    def columns(self, file: BinaryIO) -> Any:
        return self._open_file(file).schema

    def rows(self, file: BinaryIO) -> int:
        return sum(batch.num_rows for batch in self._open_file(file))

    def batches(self, file: BinaryIO, names: Sequence[str]) -> Iterator[Any]:
        for batch in self._open_file(file):
            yield batch.column(names[0])

    def _open_file(self, file: BinaryIO) -> Any:
        import pyarrow as pa

        return pa.ipc.open_stream(file)


def _documents(
    files: Sequence[_Parquet | _Arrow],
    column: str,
    source: str,
    change: Callable[[str], str],
    skipped: dict[str, int] | None = None,
) -> Documents:
    """The documents of a column of several files, which each pass reads again in batches."""
    if find_spec("pyarrow") is None:
        raise ValueError(f"{source}: reading it needs pyarrow: pip install 'seqloom[data]'")
    counts, stamps, paths_of_names = [], [], []
    for file in files:
        with _reading(file.path) as opened:
            paths_of_names.append(_names_of(file.columns(opened), column, file.path))
            opened.seek(0)
            counts.append(file.rows(opened))
            stamps.append(stamp_of_open(opened))

    def start() -> Iterator[Document]:
        for file, stamp, names in zip(files, stamps, paths_of_names, strict=True):
            with _reading(file.path) as opened:
                require_unchanged(opened, file.path, stamp)
                number = 0
                for batch in file.batches(opened, names):
                    batch.validate(full=True)  # pyarrow follows any offset, also to outside of its memory
                    for text in _inside(batch, names).to_pylist():
                        number += 1
                        yield Document(f"{file.path.name}:{number}", change(text or ""))

    return Documents(source, start, sum(counts), unit="row", skipped=skipped)


@contextmanager
def _reading(path: Path) -> Iterator[BinaryIO]:
    """Opens a file for reading; errors of pyarrow become a ValueError in one line."""
    from pyarrow.lib import ArrowException

    with open_regular(path) as file:
        try:
            yield file
        except MemoryError as error:  # a length in the file was changed, or one batch is really that large
            raise ValueError(f"{path}: damaged, or it needs more memory than there is") from error
        except (ArrowException, OSError, UnicodeDecodeError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise ValueError(f"{path}: damaged, or of another format ({reason})") from error


def _names_of(schema: Any, column: str, path: Path) -> list[str]:
    """The name of a column, and the names inside it: a.b is the field b of the column a, unless one is called a.b.

    ValueError unless there is exactly one such column, and it holds strings.
    """
    from pyarrow import types

    names = [column] if column in schema.names else column.split(".")
    fields = schema
    for name in names:
        found = [field for field in fields if field.name == name]
        if len(found) != 1:
            count = "more than one" if found else "no"
            raise ValueError(
                f"{path}: {count} column {column!r}; there is {_describe_columns(schema) or 'none'}: {NAME}"
            )
        kind = found[0].type
        fields = kind if types.is_struct(kind) else ()
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if not (types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)):
        raise ValueError(
            f"{path}: column {column!r} holds {kind}, not strings; there is {_describe_columns(schema)}: {NAME}"
        )
    return names


def _describe_columns(fields: Any, outside: str = "") -> str:
    """The columns with their types; of a column with fields inside, these."""
    from pyarrow import types

    return ", ".join(
        _describe_columns(field.type, f"{outside}{field.name}.")
        if types.is_struct(field.type) and field.type.num_fields
        else f"{outside}{field.name} ({field.type})"
        for field in fields
    )


def _inside(values: Any, names: Sequence[str]) -> Any:
    """The strings of a column at the names inside it."""
    from pyarrow import compute

    return compute.struct_field(values, list(names[1:])) if len(names) > 1 else values


def _names(values: Any, field: str, path: Path) -> list[str]:
    """A list of file names from JSON. ValueError where a name is not of a file in the same folder as `path`."""
    names = values.get(field) if isinstance(values, dict) else None
    if not isinstance(names, list) or not names:
        raise ValueError(f"{path} names no {field}: save the folder again with datasets")
    for name in names:
        if not isinstance(name, str) or Path(name).name != name or name in ("", ".", ".."):
            raise ValueError(f"{path} names {name!r}, which is no name of a file in its folder")
    return names
