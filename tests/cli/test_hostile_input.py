"""Each command with each class of wrong value: one line, exit code 2, quickly and with little memory.

The table of numeric options is generated from the commands' own parameters: an option that is added is tested.
"""

import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from typer import Typer
from typer.models import OptionInfo

from seqloom.cli.app import app, data, export, knn, studies
from seqloom.mixers import kinds
from seqloom.studies.installed import installed_studies, study_command
from tests.at_once import first
from tests.cli.conftest import Seqloom
from tests.cli.test_bad_input import refused
from tests.special_files import KINDS, special

HEALTHY = {
    "report": ["{run}", "--figures", "new"],
    "agents": ["he", "--episodes", "4", "--contexts", "2", "--out", "new"],
    "arpa": ["{run}", "--out", "new"],
    "bench": ["he"],
    "build": ["{run}", "--data", "stories:3", "--out", "new"],
    "board": ["--data", "stories:20", "--out", "new"],
    "calibrate": ["{run}", "--data", "stories:3"],
    "conversions": ["{run}", "--data", "stories:20", "--out", "new"],
    "compare": ["--out", "new", "she", "--preset", "tiny"],
    "survey": ["stories:20"],
    "vectors": ["stories:20", "--out", "new"],
    "nearest": ["vectors.txt", "cat"],
    "distill": ["{run}", "--to", "he", "--data", "stories:20", "--out", "new"],
    "demo": ["--out", "new", "--scale", "tiny"],
    "poles": ["{run}", "--out", "new", "--order", "2"],
    "evaluate": ["{run}", "--data", "stories:3"],
    "exits": ["{run}", "--data", "stories:3", "--out", "new"],
    "extrapolate": ["{run}", "--lengths", "4", "--data", "stories:3", "--out", "new"],
    "generate": ["{run}", "Once"],
    "plan": ["tiny"],
    "play": ["{run}", "--no-browser"],
    "watch": ["{run}", "--no-browser"],
    "gpu": ["--plan", "--out", "new"],
    "hf": ["{run}", "new"],
    "maze": ["lstm", "--lengths", "10", "--out", "new"],
    "question": ["he", "--pairs", "2", "--out", "new"],
    "patches": ["fnet", "--source", "images:shapes:8:40", "--out", "new"],
    "pictures": ["gru", "--source", "images:shapes:8:40", "--out", "new"],
    "figures": ["gru", "--length", "4", "--figure", "gradients", "--out", "new"],
    "numbers": ["gru", "--source", "numbers:sines", "--out", "new"],
    "markov-gap": ["he", "--orders", "1", "--hidden", "0", "--out", "new"],
    "onnx": ["{run}", "new.onnx"],
    "paper": ["fig8", "--scale", "tiny", "--out", "new"],
    "pt2": ["{run}", "new.pt2"],
    "recall": ["he", "--out", "new"],
    "thresholds": ["{run}", "--exit-by", "nowhere", "--data", "stories:3"],
    "train": ["tiny", "--out", "new"],
    "tune": ["{run}", "--knn", "nowhere", "--data", "stories:3"],
    "verify": ["he"],
}
"""arguments under which a command would run, so that it is the value under test that is refused"""
STUDIES = {name: study_command(name) for name in installed_studies()}


def _commands(group: Typer) -> dict[str, Callable[..., Any]]:
    named = {
        command.name or command.callback.__name__: command.callback
        for command in group.registered_commands
        if command.callback
    }
    return named | (STUDIES if group is studies else {})


GROUPS = {
    name: group
    for group, commands in (("study", studies), ("knn", knn), ("data", data), ("export", export))
    for name in _commands(commands)
}
"""the group of commands that a command is in"""
COMMANDS = {
    name: function for group in (app, studies, knn, data, export) for name, function in _commands(group).items()
}
UNBOUNDED = {
    *(("bench", "--repeats"), ("generate", "--max-tokens"), ("generate", "--top-k"), ("paper", "--jobs")),
    ("generate", "--samples"),
    *(("calibrate", "--longest"), ("exits", "--batches")),
    *(("recall", "--jobs"), ("compare", "--jobs"), ("board", "--jobs"), ("extrapolate", "--jobs")),
    *(("agents", "--jobs"), ("maze", "--jobs"), ("conversions", "--jobs")),
    *(("question", "--jobs"), ("numbers", "--jobs"), ("pictures", "--jobs"), ("patches", "--jobs")),
    *(("markov-gap", "--jobs"), ("evaluate", "--batch"), ("poles", "--batch")),
    *(("vectors", f"--{each}") for each in ("window", "negative", "least", "epochs")),
    ("nearest", "--count"),
    *(("build", "--batch"), ("build", "--probes"), ("tune", "--batch")),
}
"""counts that only say how long it lasts, or are cut to what there is"""
SIGNED = {("generate", "--presence-penalty")}
"""numbers that may be below 0"""
WRONG = {"absent": None, "empty": "", "word": "ten", "not-finite": "nan", "negative": "-1", "too-large": str(10**22)}


def _numeric() -> Iterator[Any]:
    """Every option of a number, of every command, with each class of wrong value."""
    for name, command in COMMANDS.items():
        for parameter, annotated in get_type_hints(command, include_extras=True).items():
            info = next((metadata for metadata in get_args(annotated) if isinstance(metadata, OptionInfo)), None)
            kinds = {int, float} & set(_types(annotated))
            if info is None or not kinds:
                continue
            option = (info.param_decls or (f"--{parameter.replace('_', '-')}",))[0]
            for title, value in WRONG.items():
                if title == "negative" and (name, option) in SIGNED:
                    continue
                if title != "too-large" or ((name, option) not in UNBOUNDED and int in kinds):
                    yield pytest.param(name, option, value, id=f"{name}{option}-{title}")


def _types(annotation: Any) -> Iterator[Any]:
    yield annotation
    for inner in get_args(annotation):
        yield from _types(inner)


def test_every_command_is_in_the_table() -> None:
    without = {"list", "settings", "doctor", "cost", "swap", "runs", "prepare", "tour"}
    assert COMMANDS.keys() - set(HEALTHY) == without, "these have no option of a number"
    assert len(list(_numeric())) > 100


@pytest.fixture
def at_once() -> Iterator[None]:
    """Fails where a number was computed with rather than refused: a minute of the processor, or 1 GB more memory."""
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert time.process_time() - began < 60, "every command takes less than 2 s on a quiet machine"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20, "in units of 1 KiB"


@pytest.mark.sample(3)
@pytest.mark.parametrize(("command", "option", "value"), _numeric())
@pytest.mark.usefixtures("at_once")
def test_an_option_of_a_number(
    command: str,
    option: str,
    value: str | None,
    seqloom: Seqloom,
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = [word.replace("{run}", str(trained)) for word in HEALTHY[command]]
    path = [*([GROUPS[command]] if command in GROUPS else []), command.replace("_", "-")]
    answer = seqloom(*path, *arguments, option, *([] if value is None else [value]))
    refused(answer)
    assert len(answer.err.splitlines()) == 1, answer.err


SIZES = [
    ("data", ["data", "stories:99999999999999999999"], "are available"),
    ("vocab", ["data", "stories:3", "--vocab", "1" + "0" * 22], "at most 16,777,216"),
    ("batch", ["train", "tiny", "--out", "new", "--set", "training.batch=1000000000"], "are available"),
    ("batch-larger", ["train", "tiny", "--out", "new", "--set", "training.batch=" + "9" * 100], "training.batch"),
    ("number-too-long", ["train", "tiny", "--out", "new", "--set", "training.batch=" + "9" * 5000], "training.batch"),
    ("dim", ["train", "tiny", "--out", "new", "--set", "model.dim=131072", "--set", "model.ffn=1048576"], "available"),
    ("vocab-and-dim", ["train", "tiny", "--out", "new", "--set", "data.vocab=16777216"], "are available"),
    ("depth", ["train", "tiny", "--out", "new", "--set", "model.depth=1000000000"], "model.depth"),
    ("context", ["train", "tiny", "--out", "new", "--set", "model.context=16777216"], "are available"),
    (
        "features",
        ["train", "tiny", "--out", "new", "--set", "model.mixer={kind: rfa, features: 10000000000}"],
        "at most",
    ),
    (
        "compare",
        ["compare", "she", "--out", "new", "--preset", "tiny", "--set", "training.batch=1000000000"],
        "available",
    ),
    (
        "recall",
        ["study", "recall", "he", "--out", "new", "--difficulty", "1..999999999"],
        "--difficulty must be at most 15",
    ),
    (
        "recall-digits",
        ["study", "recall", "he", "--out", "new", "--difficulty", "9" * 5000],
        "--difficulty must be one or more numbers",
    ),
    ("recall-batch", ["study", "recall", "he", "--out", "new", "--batch", "1000000000"], "are available"),
    ("bench", ["bench", "he", "--batch", "1000000000"], "are available"),
    ("evaluate-text", ["evaluate", "{run}", "--data", "stories:99999999999999999999"], "are available"),
    ("cost", ["cost", "performer", "--features", "1000000000"], "features must be at most 16,777,216"),
    ("cost-digits", ["cost", "performer", "--dim", "9" * 5000], "--dim"),
]


@pytest.mark.parametrize(("arguments", "words"), [case[1:] for case in SIZES], ids=[case[0] for case in SIZES])
@pytest.mark.usefixtures("at_once")
def test_an_absurd_size(
    arguments: list[str], words: str, seqloom: Seqloom, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = seqloom(*(word.replace("{run}", str(trained)) for word in arguments))
    refused(answer, words)
    assert len(answer.err) < 600
    assert list(tmp_path.iterdir()) == [], "it made a folder"


def _sizes_of_mixers() -> Iterator[Any]:
    for kind, config in kinds().items():
        for name, field in config.model_fields.items():
            if field.annotation in (int, int | None):
                yield pytest.param(kind, name, id=f"{kind}-{name}")


@pytest.mark.sample(3)
@pytest.mark.parametrize(("kind", "name"), list(_sizes_of_mixers()))
@pytest.mark.parametrize("value", first(2, ["1000000000", "true", "1.5", "-1", ".nan", "", "[1]"]))
@pytest.mark.usefixtures("at_once")
def test_a_setting_of_a_mixer(kind: str, name: str, value: str, seqloom: Seqloom) -> None:
    """Each field that is a whole number, of each mixer."""
    if not value and kinds()[kind].model_fields[name].annotation == int | None:
        return  # no number is a value there
    refused(seqloom("train", "tiny", "--out", "new", "--set", f"model.mixer={{kind: {kind}, {name}: {value}}}"), name)


PLACES = {
    "preset": ["train", "{file}.yaml", "--out", "new"],
    "text": ["train", "tiny", "--out", "new", "--data", "{file}.txt"],
    "rows": ["evaluate", "{run}", "--data", "{file}.jsonl"],
    "data": ["data", "{file}.txt"],
    "cost": ["cost", "{file}.yaml"],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.usefixtures("at_once")
def test_a_path_that_is_no_regular_file(
    place: str, kind: str, seqloom: Seqloom, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [word.replace("{file}", "odd").replace("{run}", str(trained)) for word in PLACES[place]]
    special(Path(next(word for word in words if word.startswith("odd"))), kind)
    refused(seqloom(*words), f"is {kind}, not a regular file")


@pytest.mark.slow
def test_try_anyway_runs_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, trained: Path) -> None:
    from seqloom.cli import command

    monkeypatch.setattr("seqloom.core.available_memory.available_memory", lambda: 0)
    monkeypatch.setattr("seqloom.training.memory.available_memory", lambda: -(10**12))
    arguments = ["train", "tiny", "--out", str(tmp_path / "new"), "--set", "training.batches=1"]
    assert command(arguments) == 2
    assert command(arguments, try_anyway=True) == 0


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MemoryError(), 2),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"), 2),
        (OverflowError("int too large to convert"), 2),
        (RecursionError("maximum recursion depth exceeded"), 2),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_ends_a_command(
    error: BaseException, code: int, seqloom: Seqloom, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise error

    monkeypatch.setattr("seqloom.cli.work.prices.price", fail)
    answer = seqloom("cost", "she")
    assert answer.code == code
    assert len(answer.err.splitlines()) == 1


def test_a_fault_of_our_own_is_not_hidden(seqloom: Seqloom, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise RuntimeError("sizes of tensors must match")

    monkeypatch.setattr("seqloom.cli.work.prices.price", fail)
    with pytest.raises(RuntimeError, match="tensors"):
        seqloom("cost", "she")
