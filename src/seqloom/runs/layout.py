"""A run's folder: the paths in it, and the settings that it belongs to.

    config.json   metrics.jsonl   tokenizer.json   lock   checkpoints/step_00001234/

The settings in `config.json` are the run's identity: the same folder with other settings is an error. Every
file is under a digest: the settings under one of their own (`sha256`), the tokenizer under one in the settings
(`tokenizer`), rows and checkpoints as `rows` and `manifest` have it. No file of a run is a link.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, final

from seqloom.core.files import parse_json, read_bytes, read_json, require_own
from seqloom.models.foreign import OF_STATE_SPACES, PTH
from seqloom.runs.durable import canonical, plain, remove_stale, replace, write_json

__all__ = [
    "Run",
    "differing",
    "find_run",
    "identity",
    "make_folder",
    "make_inside",
    "open_run",
    "read_json",
    "seal_settings",
    "tokenizer_digest",
    "write_json",
]

_ABSENT = "absent"
_ADVICE = "put it back as it was written, or give another folder"
_CONTENTS = ("data.identity", "tokenizer")
"""settings that are digests of a text and of what was learned from it"""
_LARGEST = 1 << 20
"""bytes that config.json may have"""
_LARGEST_TOKENIZER = 64 << 20


@final
@dataclass(frozen=True)
class Run:
    """The paths of one run; makes and reads nothing by itself, except `settings` and `identity`."""

    folder: Path

    @property
    def config(self) -> Path:
        """The resolved settings, as JSON."""
        return self.folder / "config.json"

    @property
    def metrics(self) -> Path:
        """One row a step, as JSON lines."""
        return self.folder / "metrics.jsonl"

    @property
    def tokenizer(self) -> Path:
        """The path of the tokenizer that made the run's tokens."""
        return self.folder / "tokenizer.json"

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints; it may not exist before the first one."""
        return self.folder / "checkpoints"

    @property
    def settings(self) -> dict[str, Any]:
        """What `config.json` holds, without its digest. ValueError in one line when it is broken or was altered."""
        if not self.config.exists() and self.is_foreign:
            return _foreign_settings(self.folder)
        data = read_bytes(self.config, _LARGEST, follow=False)
        try:
            settings = parse_json(data, infinite=self.is_foreign)
        except ValueError as error:
            raise ValueError(f"{self.config} is not readable JSON ({error}): {_ADVICE}") from None
        if not isinstance(settings, dict):
            raise ValueError(f"{self.config} does not hold settings (a JSON object): {_ADVICE}")
        if settings.pop("sha256", None) is None:
            if self.is_foreign:
                return _foreign_settings(self.folder)
            raise ValueError(
                f"{self.folder} is not a run: its config.json has no sha256, so seqloom did not write it; "
                "give another folder"
            )
        if data != seal_settings(settings):
            raise ValueError(f"{self.config} is altered: its sha256 is not that of its settings: {_ADVICE}")
        return settings

    @property
    def is_foreign(self) -> bool:
        """Whether the folder is a model of another program.

        Its config.json says of which type, or is one of state-spaces, and has no digest; or it has a .pth alone.
        """
        if not self.config.exists():
            return any(self.folder.glob(PTH))
        try:
            settings = read_json(self.config, _LARGEST, follow=False, infinite=True)
        except (OSError, ValueError):
            return False
        if not isinstance(settings, dict) or "sha256" in settings:
            return False
        return isinstance(settings.get("model_type"), str) or settings.keys() >= OF_STATE_SPACES

    @property
    def data(self) -> dict[str, Any]:
        """The settings of the text that the run was trained on; empty where there are none."""
        data = self.settings.get("data", {})
        unwrap = data.get("unwrap", True) if isinstance(data, dict) else None
        if not isinstance(data, dict) or not (isinstance(unwrap, bool) or unwrap == "auto"):
            raise ValueError(f"{self.config} does not describe a text: its 'data' is {_short(data)}")
        return data

    @property
    def identity(self) -> str:
        """The hash of the settings, 64 hexadecimal digits."""
        return identity(self.settings)

    def has_tokenizer(self) -> bool:
        """Whether the run has a tokenizer, which then is its own. ValueError where it is missing or another one."""
        if self.is_foreign:
            return self.tokenizer.is_file()
        digest = self.settings.get("tokenizer")
        if digest is None:
            if self.tokenizer.exists():
                raise ValueError(
                    f"{self.tokenizer} is not of this run, whose {self.config.name} names none: move it elsewhere"
                )
            return False
        try:
            data = read_bytes(self.tokenizer, _LARGEST_TOKENIZER, follow=False)
        except FileNotFoundError:
            raise ValueError(f"{self.folder} has no tokenizer.json, which its config.json names: put it back") from None
        if sha256(data).hexdigest() != digest:
            raise ValueError(f"{self.tokenizer} is damaged or of another run: put the run's own back")
        return True

    def keep_tokenizer(self, text: str) -> None:
        """Writes the tokenizer whose digest the settings name, unless it is there. ValueError where another one is."""
        if not self.tokenizer.exists():
            replace(self.tokenizer, text.encode())
        self.has_tokenizer()


def tokenizer_digest(text: str) -> str:
    """The digest of a tokenizer.json, as a run's settings hold it under `tokenizer`."""
    return sha256(text.encode()).hexdigest()


def seal_settings(settings: Mapping[str, Any]) -> bytes:
    """The contents of a config.json: the settings, and their digest at the end. Raises ValueError as `plain` does."""
    plain(settings)
    return (json.dumps({**settings, "sha256": identity(settings)}, indent=2, allow_nan=False) + "\n").encode()


def identity(config: Mapping[str, Any]) -> str:
    """sha256 of the settings as canonical JSON: two runs with the same hash are the same run."""
    return sha256(canonical(config).encode()).hexdigest()


def open_run(folder: str | Path, config: Mapping[str, Any], create: bool = True) -> Run:
    """The run of these settings in `folder`: opened where there is one, made where there is none (if `create`).

    `config` holds only what changes the result. Take `lock(folder)` first, so that two processes cannot both make it.
    ValueError, in one line, when the folder holds a run of other settings (naming them) or checkpoints that are a link,
    is a file, or cannot be written; FileNotFoundError when there is no run and `create` is False.
    """
    run = Run(Path(folder))
    if not create and not run.config.is_file():
        return find_run(folder)
    if run.is_foreign:
        raise ValueError(f"{run.folder} is a model of transformers, which is only read: choose another --out")
    make_folder(run.folder)
    require_own(run.folder, run.checkpoints.name)
    if run.config.exists():
        _refuse_other_settings(run, config)
    elif run.metrics.exists() or run.checkpoints.exists():
        raise ValueError(f"{run.folder} holds a run without its config.json: put it back or choose another --out")
    try:
        remove_stale(run.folder)
        if not run.config.exists():
            replace(run.config, seal_settings(config))
    except OSError as error:
        raise ValueError(f"cannot write in {run.folder} ({error.strerror}): choose another --out") from error
    return run


def find_run(folder: str | Path) -> Run:
    """The run, or the model of transformers, in `folder`, for readers.

    FileNotFoundError, in one line, when there is none.
    """
    run = Run(Path(folder))
    if not run.config.is_file() and not run.is_foreign:
        reason = "does not exist" if not run.folder.exists() else "is not a run: it has no config.json"
        raise FileNotFoundError(f"{run.folder} {reason}; give the folder of a run (the --out of its training)")
    return run


def make_folder(folder: Path) -> None:
    """Makes a folder and those above it.

    ValueError, in one line, where a file has that name or permission is denied.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"{folder} cannot be a run's folder, a file is in its place: choose another --out") from None
    except OSError as error:
        raise ValueError(f"cannot make the folder {folder} ({error.strerror}): choose another --out") from error


def make_inside(folder: Path, name: str) -> Path:
    """Makes the folder of this name, such as "he/seed-0", below `folder`; returns its path.

    ValueError as `make_folder` has it, and where a part of it is a link.
    """
    path = require_own(folder, name)
    make_folder(path)
    return require_own(folder, name)


def _foreign_settings(folder: Path) -> dict[str, Any]:
    """The settings of a run for a folder of transformers: those of its model. Raises as `models.foreign` does."""
    from seqloom.models.foreign.load import read_settings  # needs torch

    return {"format": 1, "model": read_settings(folder).settings}


def _refuse_other_settings(run: Run, config: Mapping[str, Any]) -> None:
    """ValueError, with the first differences, where the run has other settings than `config`."""
    settings = run.settings
    if identity(settings) == identity(config):
        return
    shown = differing(settings, config)
    if not shown:
        raise ValueError(
            f"{run.folder} holds a run on another text, or by another tokenizer: it has changed since the run was "
            "begun, or another one is named here; put it back, or choose another --out"
        )
    raise ValueError(f"{run.folder} holds a run of other settings: {shown}; choose another --out, or the same")


def differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The first three settings that differ, each with its value there (before) and here (now); "" where none does.

    Where a text differs, its digest and that of its tokenizer, which say nothing to a reader, are left out.
    """
    differences = list(_differences(before, now))
    if any(name == _CONTENTS[0] for name, *_ in differences):
        differences = [difference for difference in differences if difference[0] not in _CONTENTS]
    shown = ", ".join(f"{setting} is {old} there and {new} here" for setting, old, new in differences[:3])
    return f"{shown}, and {len(differences) - 3} more" if len(differences) > 3 else shown


def _differences(before: object, now: object, setting: str = "") -> Iterator[tuple[str, str, str]]:
    """(dotted name, value before, value now) of each setting that differs, values as short text."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys([*before, *now]):
            dotted = f"{setting}.{key}" if setting else key
            if key not in now:
                yield dotted, _short(before[key]), _ABSENT
            elif key not in before:
                yield dotted, _ABSENT, _short(now[key])
            else:
                yield from _differences(before[key], now[key], dotted)
    elif canonical(before) != canonical(now):
        yield setting, _short(before), _short(now)


def _short(value: object) -> str:
    """The value as JSON of at most 60 characters."""
    text = canonical(value)
    return text if len(text) <= 60 else text[:57] + "..."
