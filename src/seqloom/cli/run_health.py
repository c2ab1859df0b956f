"""`seqloom doctor RUN`: checks every file of a run against its digest, one line per file. Changes nothing."""

from collections.abc import Callable, Iterator
from pathlib import Path

from seqloom.runs import about, manifest, steps
from seqloom.runs.layout import Run, find_run
from seqloom.runs.rows import START, damage, lacking, scan


def checked(folder: Path) -> tuple[str, bool]:
    """A line for each file, and whether all are as they were written. FileNotFoundError where there is no run."""
    run = find_run(folder)
    files = [*_config(run), *_tokenizer(run), *_metrics(run), *_checkpoints(run)]
    lines = [f"{'damaged' if wrong else 'ok':<7}  {name}{f': {wrong}' if wrong else ''}" for name, wrong in files]
    bad = sum(bool(wrong) for _, wrong in files)
    lines.append(f"{bad:,} of {len(files):,} files are damaged" if bad else f"all {len(files):,} files are whole")
    return "\n".join(lines), not bad


def _config(run: Run) -> Iterator[tuple[str, str]]:
    yield run.config.name, _wrong(lambda: run.settings)


def _tokenizer(run: Run) -> Iterator[tuple[str, str]]:
    wrong = "" if _wrong(lambda: run.settings) else _wrong(run.has_tokenizer)
    if wrong or run.tokenizer.exists():
        yield run.tokenizer.name, wrong


def _metrics(run: Run) -> Iterator[tuple[str, str]]:
    """Each row has a checksum, and the newest checkpoint has the digest of all rows before it."""
    try:
        mark = about.marked(run.checkpoints) or START
    except ValueError:  # reported with the checkpoints
        mark = START
    if mark == START and not run.metrics.exists():
        return
    try:
        content = scan(run.metrics, mark)
    except (OSError, ValueError) as error:
        yield run.metrics.name, _text(error)
        return
    wrong = lacking(content, mark) if not content.complete else damage(content.damaged) if content.damaged else ""
    yield run.metrics.name, wrong


def _checkpoints(run: Run) -> Iterator[tuple[str, str]]:
    try:
        folders = steps.whole(run.checkpoints)
    except (OSError, ValueError) as error:
        yield run.checkpoints.name, _text(error)
        return
    for folder in folders.values():
        name = f"{run.checkpoints.name}/{folder.name}"
        try:
            files = manifest.damage(folder)
        except (OSError, ValueError) as error:
            yield f"{name}/{manifest.NAME}", _text(error)
            continue
        yield f"{name}/{manifest.NAME}", ""
        for file, wrong in files.items():
            yield f"{name}/{file}", wrong or (_of_others(run, folder) if file == about.NAME else "")


def _of_others(run: Run, folder: Path) -> str:
    """Whether the checkpoint was saved under other settings than those of config.json, which may be damaged itself."""
    try:
        same = about.describe(folder).meta.get("run") == run.identity
    except (OSError, ValueError):
        return ""
    return "" if same else f"it belongs to other settings than {run.config.name}"


def _wrong(read: Callable[[], object]) -> str:
    try:
        read()
    except (OSError, ValueError) as error:
        return _text(error)
    return ""


def _text(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
