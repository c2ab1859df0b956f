"""`seqloom doctor RUN`: checks every file of a run against its digest, one line per file. Changes nothing."""

from collections.abc import Callable, Iterator
from pathlib import Path

from seqloom.runs import about, manifest, steps
from seqloom.runs.layout import Run, find_run
from seqloom.runs.rows import START, damage, describe_damage, scan


def check_files(folder: Path) -> tuple[str, bool]:
    """A line for each file, and whether all are as they were written. FileNotFoundError where there is no run."""
    run = find_run(folder)
    files = [*_config(run), *_tokenizer(run), *_metrics(run), *_checkpoints(run)]
    lines = [f"damaged  {name}: {problem}" if problem else f"ok       {name}" for name, problem in files]
    damaged = sum(bool(problem) for _, problem in files)
    if damaged:
        lines.append(f"{damaged:,} of {len(files):,} files are damaged")
    else:
        lines.append(f"all {len(files):,} files are whole")
    return "\n".join(lines), not damaged


def _config(run: Run) -> Iterator[tuple[str, str]]:
    yield run.config.name, _problem(lambda: run.settings)


def _tokenizer(run: Run) -> Iterator[tuple[str, str]]:
    problem = "" if _problem(lambda: run.settings) else _problem(run.has_tokenizer)
    if problem or run.tokenizer.exists():
        yield run.tokenizer.name, problem


def _metrics(run: Run) -> Iterator[tuple[str, str]]:
    """Each row has a checksum, and the newest checkpoint has the digest of all rows before it."""
    try:
        mark = about.newest_mark(run.checkpoints) or START
    except ValueError:  # reported with the checkpoints
        mark = START
    if mark == START and not run.metrics.exists():
        return
    try:
        content = scan(run.metrics, mark)
    except (OSError, ValueError) as error:
        yield run.metrics.name, _message(error)
        return
    problem = ""
    if not content.complete:
        problem = describe_damage(content, mark)
    elif content.damaged:
        problem = damage(content.damaged)
    yield run.metrics.name, problem


def _checkpoints(run: Run) -> Iterator[tuple[str, str]]:
    """Each file of each checkpoint, by the digests in its manifest."""
    try:
        folders = steps.whole(run.checkpoints)
    except (OSError, ValueError) as error:
        yield run.checkpoints.name, _message(error)
        return
    for folder in folders.values():
        name = f"{run.checkpoints.name}/{folder.name}"
        try:
            files = manifest.damage(folder)
        except (OSError, ValueError) as error:
            yield f"{name}/{manifest.NAME}", _message(error)
            continue
        yield f"{name}/{manifest.NAME}", ""
        for file, problem in files.items():
            yield f"{name}/{file}", problem or (_foreign_settings(run, folder) if file == about.NAME else "")


def _foreign_settings(run: Run, folder: Path) -> str:
    """The problem of a checkpoint that was saved under other settings than those of config.json; "" if there is none.

    It is "" too where one of the two cannot be read, which is a problem of its own line.
    """
    try:
        same = about.describe(folder).meta.get("run") == run.identity
    except (OSError, ValueError):
        return ""
    return "" if same else f"it belongs to other settings than {run.config.name}"


def _problem(read: Callable[[], object]) -> str:
    """The message of the error that `read` raises; "" where it raises none."""
    try:
        read()
    except (OSError, ValueError) as error:
        return _message(error)
    return ""


def _message(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
