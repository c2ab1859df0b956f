"""`seqloom verify`: its output, its exit codes, and targets that it cannot verify."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from seqloom.contracts import target
from tests.cli.conftest import Answer

LAYERS = "tests.contracts.layers"
Run = Callable[..., Answer]

UNUSABLE = [
    (["nothing_of_the_kind"], "is no mixer and no package.module:Thing"),
    (["atention"], "did you mean 'attention'?"),
    ([":Thing"], "is no package.module:Thing"),
    ([f"{LAYERS}:"], "is no package.module:Thing"),
    (["no_such_package.module:Thing"], "no_such_package.module cannot be imported: ModuleNotFoundError"),
    (["..:Thing"], "cannot be imported"),
    ([f"{LAYERS}:Decai"], "has no Decai; did you mean 'Decay'?"),
    ([f"{LAYERS}:number"], "is no module: it is a int"),
    ([f"{LAYERS}:Plain"], "is no module: it is a class that does not derive from nn.Module"),
    ([f"{LAYERS}:makes_nothing"], "is no module: it makes a NoneType"),
    ([f"{LAYERS}:Configured"], "needs config: give --set config=value, or name a function that builds it"),
    ([f"{LAYERS}:Fails"], "cannot be built: KeyError"),
    ([f"{LAYERS}:made", "--set", "heads=3"], "cannot be built: 3 heads do not divide 8"),
    ([f"{LAYERS}:made", "--set", "haeds=2"], "takes no argument 'haeds'; did you mean 'heads'?"),
    ([f"{LAYERS}:made", "--set", "heads"], "--set needs name=value"),
    ([f"{LAYERS}:made", "--set", "heads=[1"], "--set heads: line 1"),
    ([f"{LAYERS}:instance", "--set", "dim=4"], "is built already"),
    ([f"{LAYERS}:instance", "--dim", "4"], "cannot read (2, 4, 4), dim 4: RuntimeError"),
    ([f"{LAYERS}:Pair"], "makes a tuple of (2, 4, 8): wrap it"),
    ([f"{LAYERS}:Halves"], "makes a tensor (2, 4, 4) in float32 of (2, 4, 8): wrap it"),
    ([f"{LAYERS}:Infinite"], "must be finite"),
    ([f"{LAYERS}:Uninitialized"], "is another module each time: w.weight differs"),
    (["attention", "--set", "heads=3"], "cannot be built"),
    (["linear", "--set", "fature=elu"], "unknown setting 'fature'"),
    (["linear", "--dim", "0"], "--dim"),
    (["linear", "--context", "0"], "--context"),
]


@pytest.mark.parametrize(("words", "says"), UNUSABLE, ids=lambda value: " ".join(value) if type(value) is list else "")
def test_what_cannot_be_verified_is_one_line(seqloom: Run, words: list[str], says: str) -> None:
    sizes = [] if "--dim" in words else ["--dim", "8"]
    answer = seqloom("verify", *words, *sizes)
    assert answer.code == 2, answer
    assert answer.out == ""
    assert answer.err.count("\n") == 1, answer.err
    assert says in answer.err


@pytest.mark.parametrize("error", ["raise SystemExit(3)", "1 / 0", "def", "import no_such_package"])
def test_a_module_that_fails_when_imported_is_one_line(
    seqloom: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    (tmp_path / "failing_layers.py").write_text(error)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    answer = seqloom("verify", "failing_layers:Thing")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "failing_layers cannot be imported" in answer.err


@pytest.fixture
def without_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """All promises but the last, which takes a second."""
    from seqloom import contracts

    monkeypatch.setattr(contracts, "PROMISES", contracts.PROMISES[:-1])


@pytest.mark.usefixtures("without_compiling")
def test_one_line_for_each_promise(seqloom: Run) -> None:
    answer = seqloom("verify", f"{LAYERS}:Decay", "--dim", "4", "--context", "6")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert [line.split()[0] for line in lines] == [
        "causality", "rows", "padding", "gaps", "pieces", "steps", "price", "bfloat16",
    ]  # fmt: skip
    assert all(" holds " in line for line in lines)


@pytest.mark.usefixtures("without_compiling")
def test_a_broken_promise_is_exit_code_1(seqloom: Run) -> None:
    answer = seqloom("verify", f"{LAYERS}:LooksAhead", "--dim", "4", "--context", "6")
    assert (answer.code, answer.err) == (1, "")
    assert answer.out.startswith("causality  breaks          with inputs from")
    assert seqloom("verify", f"{LAYERS}:LooksAhead", "--dim", "4", "--context", "6", "--bidirectional").code == 1
    answer = seqloom("verify", f"{LAYERS}:Bare", "--dim", "4", "--bidirectional")
    assert answer.code == 0
    assert answer.out.startswith("causality  does not apply  it may look ahead\n")


@pytest.mark.usefixtures("without_compiling")
def test_as_json(seqloom: Run) -> None:
    answer = seqloom("verify", f"{LAYERS}:SharesScale", "--dim", "4", "--context", "6", "--json")
    assert answer.code == 1
    written = json.loads(answer.out, parse_constant=pytest.fail)
    assert (written["target"], written["dim"], written["dtype"]) == (f"{LAYERS}:SharesScale", 4, "float64")
    rows = {row["promise"]: row for row in written["promises"]}
    assert rows["causality"]["verdict"] == "holds"
    assert (rows["rows"]["verdict"], rows["rows"]["difference"]) == ("breaks", None)


@pytest.mark.graph
def test_a_mixer_with_its_settings(seqloom: Run) -> None:
    answer = seqloom("verify", "linear", "--dim", "8", "--set", "heads=2")
    assert answer.code == 0, answer.out
    assert len(answer.out.splitlines()) == 9


def test_a_module_of_the_working_folder(seqloom: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_layers.py").write_text("import torch\nlayer = torch.nn.Identity()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr("seqloom.contracts.verify", lambda subject: [])
    assert seqloom("verify", "own_layers:layer", "--dim", "4").code == 0


def test_an_argument_by_a_usual_name() -> None:
    subject = target.subject_of(f"{LAYERS}:Limited", dim=4)
    assert (subject.longest, subject.contexts) == (16, (16,))
    assert target.subject_of(f"{LAYERS}:Bare", dim=4).longest is None
    assert target.subject_of(f"{LAYERS}:Bare", dim=4, context=9).longest == 9
