"""Every file that the package writes is written by `runs.durable`, or is one of the exceptions listed here."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import seqloom
import seqloom_studies

SOURCES = Path(seqloom.__file__).parent
STUDIES = Path(seqloom_studies.__file__).parent
DURABLE = "runs/durable.py"
ON_A_PATH = {
    *("write_text", "write_bytes", "touch", "mkdir", "symlink_to", "hardlink_to", "chmod", "unlink", "rmdir"),
    *("tofile", "savefig", "to_csv", "to_json", "to_parquet", "save_to_disk", "save_pretrained", "extractall"),
    *("save_file", "write_index", "write_table", "export_chrome_trace", "SummaryWriter", "FileHandler"),
    *("copyfile", "copymode", "copytree", "copyfileobj", "rmtree", "mkstemp", "mkdtemp"),
    *("TemporaryDirectory", "TemporaryFile", "NamedTemporaryFile", "ZipFile"),
}
"""names of functions and methods that change the disk whatever they are called on"""
OF_A_MODULE = {
    "os": {
        *("rename", "replace", "remove", "unlink", "link", "symlink", "mkdir", "makedirs", "mkfifo", "rmdir"),
        *("truncate", "ftruncate", "chmod", "fchmod", "pwrite", "write", "removedirs", "renames"),
    },
    "shutil": {"copy", "copy2", "move", "make_archive", "unpack_archive"},
    "np": {"save", "savez", "savez_compressed", "savetxt"},
    "torch": {"save"},
    "json": {"dump"},
    "pickle": {"dump"},
    "yaml": {"dump", "safe_dump"},
    "wandb": {"init"},
    "trackio": {"init"},
}
"""functions that change the disk, by the name of their module; other functions have the same names"""

LOCK = "the lock of a folder: opened without following links, and refused unless it is a regular file"
BELOW = "below `runs` in the layers; writes a temporary file and renames it, as `durable` does"
CHECKPOINT = "in a new folder with a temporary name, which is renamed when it is complete"
MOVES = "moves and deletions between names in a folder of checkpoints that is no link"
GROWS = "a file that grows in place, opened by `open_regular` without following links"
NATIVE = "compiled libraries, below `runs` in the layers: in a folder that only the user can write"
ENDS = "removes what a process of its own made"
NOT_A_FILE = "/dev/null, or standard error"
PACK = "what travels to a GPU, made again by one command; or in a new folder of the system's"
ALLOWED = {
    ("analysis/measure.py", "_silent_stderr", "os.open"): NOT_A_FILE,
    ("cli/__init__.py", "_command", "os.open"): NOT_A_FILE,
    ("cli/__init__.py", "_leave", "os.write"): NOT_A_FILE,
    (
        "cli/work/bench.py",
        "time_mixers",
        "TemporaryDirectory",
    ): "the run, in a new folder of the system's",
    ("core/launch.py", "report_failure", "open"): "the file in which torchrun asks for the reason of a failure",
    ("core/launch.py", "report_failure", "json.dump"): "the file in which torchrun asks for the reason of a failure",
    ("core/files.py", "open_regular", "os.open"): "the one place that opens files to append to",
    ("data/archive.py", "_members", "open"): "reads: the mode of an archive is its second argument",
    ("data/archive.py", "_tokenizer", "TemporaryDirectory"): "a tokenizer as the file that its reader takes",
    ("data/archive.py", "_tokenizer", "write_bytes"): "a tokenizer as the file that its reader takes",
    ("data/archive.py", "write", "TemporaryDirectory"): "the members, in a new folder next to the archive",
    ("data/archive.py", "write", "mkdir"): "the folder of a file that the user names",
    ("data/archive.py", "write", "open"): "the archive, into a file that `cache.replacing` opened",
    ("data/archive.py", "write", "write_text"): "the members, in a new folder next to the archive",
    ("data/cache.py", "_default_folder", "TemporaryDirectory"): "the cache where the user's cannot be written",
    ("data/cache.py", "_default_folder", "TemporaryFile"): "tries whether the cache can be written",
    ("data/cache.py", "_default_folder", "mkdir"): "the cache folder, which the user names",
    ("data/cache.py", "replacing", "mkdir"): BELOW,
    ("data/cache.py", "replacing", "open"): BELOW,
    ("data/cache.py", "replacing", "os.replace"): BELOW,
    ("data/cache.py", "replacing", "unlink"): BELOW,
    ("data/merge_process.py", "_learned_apart", "TemporaryFile"): "texts for a process of its own; it has no name",
    ("data/shards.py", "open_or_write", "mkdir"): "a folder of the cache",
    ("data/shards.py", "_write_rest", "unlink"): "what a killed process left under a temporary name",
    ("studies/again.py", "_empty", "rmtree"): "a cell that is repeated, as its user asks; follows no link",
    ("studies/again.py", "_empty", "unlink"): "a cell that is repeated, as its user asks; follows no link",
    ("seqloom_studies/board/rows.py", "merge", "mkdir"): "the folder of a file that the user names",
    ("seqloom_studies/board/rows.py", "merge_times", "mkdir"): "the folder of a file that the user names",
    ("studies/cluster.py", "_executor", "rmdir"): ENDS,
    ("studies/probe_cell.py", "tidy", "rmtree"): "the cell's own checkpoints; `rmtree` follows no link",
    ("ops/native/compiler.py", "compile_to", "unlink"): NATIVE,
    ("ops/native/store.py", "_make_privately", "TemporaryDirectory"): NATIVE,
    ("ops/native/store.py", "_put", "os.open"): NATIVE,
    ("ops/native/store.py", "_put", "os.replace"): NATIVE,
    ("ops/native/store.py", "_put", "os.unlink"): NATIVE,
    ("ops/native/store.py", "save", "mkdir"): NATIVE,
    ("retrieval/search.py", "write_lists", "write_index"): "faiss writes into a file that `durable` opened",
    ("report/figures.py", "write_figures", "mkdir"): "the folder of figures, which the user names",
    ("runs/checkpoint.py", "save", "copyfile"): CHECKPOINT,
    ("runs/checkpoint.py", "save", "copymode"): CHECKPOINT,
    ("runs/checkpoint.py", "new_step", "mkdir"): CHECKPOINT,
    ("runs/layout.py", "make_folder", "mkdir"): "folders, which `make_inside` checks for links",
    ("runs/lock.py", "_take", "os.ftruncate"): LOCK,
    ("runs/lock.py", "_take", "os.write"): LOCK,
    ("runs/lock.py", "lock", "os.open"): LOCK,
    ("runs/metrics.py", "append", "os.ftruncate"): GROWS,
    ("runs/metrics.py", "append", "os.write"): GROWS,
    ("runs/steps.py", "delete", "os.rename"): MOVES,
    ("runs/steps.py", "put", "os.rename"): MOVES,
    ("runs/steps.py", "quarantine", "os.rename"): MOVES,
    ("runs/steps.py", "repair", "os.rename"): MOVES,
    ("runs/tensors.py", "write_tensors", "save_file"): CHECKPOINT,
    (
        "training/trackers.py",
        "start",
        "SummaryWriter",
    ): "event files with names of their own, in a folder that is no link",
    ("training/trackers.py", "start", "trackio.init"): "trackio's own folder",
    ("training/trackers.py", "start", "wandb.init"): "W&B's folder in the run, which is no link",
    **{("hf/export.py", "export", name): CHECKPOINT for name in ("save_pretrained", "write_text")},
    **{("export/onnx.py", "write_onnx", name): CHECKPOINT for name in ("TemporaryDirectory", "os.replace")},
    **{("hf/lora.py", "save_adapters", name): CHECKPOINT for name in ("save_file", "save_pretrained")},
    ("models/foreign/save.py", "_write_weights", "save_file"): CHECKPOINT,
    ("models/foreign/save.py", "_write_weights", "write_text"): CHECKPOINT,
    ("models/foreign/save.py", "save", "write_text"): CHECKPOINT,
    ("runs/family.py", "_write_own", "write_text"): CHECKPOINT,
    ("runs/family.py", "_write_tokenizer", "write_bytes"): CHECKPOINT,
    ("seqloom_studies/gpu/caches.py", "pack", "unlink"): PACK,
    ("seqloom_studies/gpu/caches.py", "unpack", "extractall"): "compiled kernels, into a folder that was just made",
    ("seqloom_studies/gpu/caches.py", "unpack", "mkdir"): "compiled kernels, into a folder that was just made",
    ("seqloom_studies/gpu/call.py", "_books", "mkdir"): "texts of the tiny queue, in the folder of its runs",
    ("seqloom_studies/gpu/ledger.py", "_end_line", "mkdir"): "the folder that the user names",
    **{("seqloom_studies/gpu/pack.py", "_archive", name): PACK for name in ("open", "replace", "unlink")},
    **{("seqloom_studies/gpu/pack.py", "_remove", name): PACK for name in ("rmtree", "unlink")},
    **{
        ("seqloom_studies/gpu/pack.py", "_prepare_texts", name): PACK
        for name in ("TemporaryDirectory", "copytree", "mkdir", "shutil.copy")
    },
    ("seqloom_studies/gpu/pack.py", "_strip", "chmod"): PACK,
    **{
        ("seqloom_studies/gpu/pack.py", "_unpack_wheels", name): PACK
        for name in ("TemporaryDirectory", "ZipFile", "extractall")
    },
    **{("seqloom_studies/gpu/pack.py", "_write_script", name): PACK for name in ("chmod", "write_text")},
    **{
        ("seqloom_studies/gpu/pack.py", "pack_queue", name): PACK
        for name in ("TemporaryDirectory", "mkdir", "shutil.copy", "unlink", "write_text")
    },
    **{("seqloom_studies/gpu/pack.py", "pack_triton", name): PACK for name in ("TemporaryDirectory", "mkdir")},
    ("seqloom_studies/paper/stored_rows.py", "store", "mkdir"): "the folder of rows that the user names",
}
"""(file, function, call) → why it does not go through `durable`"""


def written(call: ast.Call) -> str | None:
    """The name of a call that may change the disk; None for any other."""
    match call.func:
        case ast.Attribute(value=ast.Name(id=module), attr=name) if name in OF_A_MODULE.get(module, ()):
            return f"{module}.{name}"
        case ast.Attribute(value=ast.Name(id="os"), attr="open"):
            flags = ast.unparse(call.args[1])
            return None if "O_RDONLY" in flags and "O_CREAT" not in flags else "os.open"
        case ast.Attribute(attr="open") | ast.Name(id="open"):
            return "open" if _opens_to_write(call) else None
        case ast.Attribute(attr="memmap"):
            return None if _words(call) & {"r", "c"} else "memmap"
        case ast.Attribute(attr=name) if name in {"rename", "replace"} and len(call.args) == 1 and not call.keywords:
            return name  # of a path: the method of a text has two arguments
        case ast.Attribute(attr=name) | ast.Name(id=name) if name in ON_A_PATH:
            return name
    return None


def _opens_to_write(call: ast.Call) -> bool:
    modes = {word for word in _words(call) if set(word) <= set("rwaxbt+")}
    return any(set(mode) & set("wax+") for mode in modes) or any(keyword.arg == "mode" for keyword in call.keywords)


def _words(call: ast.Call) -> set[str]:
    """The texts among the arguments."""
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    return {value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)}


def writes(tree: ast.AST, function: str = "") -> Iterator[tuple[str, str]]:
    """(function, call) of each call that may change the disk."""
    for node in ast.iter_child_nodes(tree):
        inside = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if isinstance(node, ast.Call) and (name := written(node)):
            yield inside, name
        yield from writes(node, inside)


@pytest.mark.slow
def test_every_write_is_durable_or_an_exception() -> None:
    found = {
        (path.relative_to(SOURCES if package == SOURCES else STUDIES.parent).as_posix(), *write)
        for package in (SOURCES, STUDIES)
        for path in package.rglob("*.py")
        for write in writes(ast.parse(path.read_text(encoding="utf-8")))
    }
    others = {write for write in found if write[0] != DURABLE}
    assert others - ALLOWED.keys() == set(), "write through runs.durable"
    assert ALLOWED.keys() - others == set(), "these are written nowhere now"


def test_what_counts_as_a_write() -> None:
    code = """
def f():
    p.write_text("x"); p.open("w"); open(p, "ab"); p.replace(q); os.replace(p, q); np.save(p, x); shutil.move(p, q)
    np.memmap(p, t, "r+"); np.memmap(p, t); os.open(p, os.O_RDWR); open(p, mode=m); save_file(t, p); json.dump(x, f)
def g():
    p.open("rb"); open(p); "a".replace("b", "c"); replace(p, b""); np.memmap(p, t, "c"); os.open(p, os.O_RDONLY)
    Tokens.open(p); session.save(x); json.dumps(x); dataclasses.replace(x, y=1)
"""
    found = list(writes(ast.parse(code)))
    assert {function for function, _ in found} == {"f"}
    assert len(found) == 13
