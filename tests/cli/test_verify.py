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

MY = """
import torch
from tests.contracts.layers_trained import Keyed as Slow, OnlyHalf as Fast, OnlyHalfTriples as Wrong
"""
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
    ([f"{LAYERS}:Configured"], "needs config: give config=value, or a default in its code"),
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
    ([f"{LAYERS}:ExitsAtOnce"], "cannot read (2, 4, 8), dim 8: SystemExit: 0"),
    ([f"{LAYERS}:ExitsWhenBuilt"], "cannot be built: SystemExit: 0"),
    (["no_such_file.py:Thing"], "no_such_file.py cannot be imported: FileNotFoundError"),
    (["linear", "--bidirectional", "--set", "heads=3"], "cannot be built"),
    (["mla", "--bidirectional"], "mla is causal: it has no bidirectional form; these have:"),
    (["linear", "--dtype", "float8"], "--dtype must be one of float64, float32, bfloat16, float16, not 'float8'"),
    (["linear", "--device", "cdua"], "--device 'cdua' cannot be used here: "),
    (["linear", "--device", "meta"], "--device 'meta' cannot be used here: "),
    ([f"{LAYERS}:Decay", "--reference", f"{LAYERS}:Bear"], "has no Bear; did you mean 'Bare'?"),
    ([f"{LAYERS}:Decay", "--reference", f"{LAYERS}:Bare"], "Bare has no parameter 'a', which the layer has"),
    ([f"{LAYERS}:Bare", "--reference", f"{LAYERS}:Half"], "Half has 'w.weight' of shape (4, 8), the layer of (8, 8)"),
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


@pytest.mark.slow
@pytest.mark.usefixtures("without_compiling")
def test_one_line_for_each_promise(seqloom: Run) -> None:
    answer = seqloom("verify", f"{LAYERS}:Decay", "--dim", "4", "--context", "6")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert [line.split()[0] for line in lines] == [
        "causality", "rows", "padding", "gaps", "pieces", "steps", "gradients", "price", "bfloat16", "9",
    ]  # fmt: skip
    assert all(" holds " in line for line in lines[:-1])
    assert lines[-1] == "9 hold, 0 do not apply, 0 fail"


@pytest.mark.slow
@pytest.mark.usefixtures("without_compiling")
def test_a_broken_promise_is_exit_code_1(seqloom: Run) -> None:
    answer = seqloom("verify", f"{LAYERS}:LooksAhead", "--dim", "4", "--context", "6")
    assert (answer.code, answer.err) == (1, "")
    assert answer.out.startswith("causality  breaks          with inputs from")
    assert seqloom("verify", f"{LAYERS}:LooksAhead", "--dim", "4", "--context", "6", "--bidirectional").code == 1
    answer = seqloom("verify", f"{LAYERS}:Bare", "--dim", "4", "--bidirectional")
    assert answer.code == 0
    assert answer.out.startswith("causality  does not apply  it may look ahead\n")
    assert answer.out.endswith(
        "\n3 hold, 6 do not apply (so causality, a mask, streaming and the price were not checked), 0 fail\n"
    )


@pytest.mark.slow
@pytest.mark.usefixtures("without_compiling")
def test_as_json(seqloom: Run) -> None:
    answer = seqloom("verify", f"{LAYERS}:SharesScale", "--dim", "4", "--context", "6", "--json")
    assert answer.code == 1
    written = json.loads(answer.out, parse_constant=pytest.fail)
    assert (written["target"], written["dim"], written["dtype"]) == (f"{LAYERS}:SharesScale", 4, "float64")
    rows = {row["promise"]: row for row in written["promises"]}
    assert rows["causality"]["verdict"] == "holds"
    assert (rows["rows"]["verdict"], rows["rows"]["difference"]) == ("breaks", None)


@pytest.mark.slow
@pytest.mark.graph
def test_a_mixer_with_its_settings(seqloom: Run) -> None:
    answer = seqloom("verify", "linear", "--dim", "8", "--set", "heads=2")
    assert answer.code == 0, answer.out
    assert len(answer.out.splitlines()) == 11
    assert answer.out.endswith("\n10 hold, 0 do not apply, 0 fail\n")


@pytest.mark.slow
@pytest.mark.usefixtures("without_compiling")
def test_the_form_that_is_asked_for_is_built(seqloom: Run) -> None:
    answer = seqloom("verify", "attention", "--dim", "8", "--set", "heads=2", "--bidirectional")
    assert answer.code == 0, answer.out
    assert answer.out.startswith("causality  holds           it is bidirectional: output 0 depends on input 1\n")
    assert "pieces     does not apply " in answer.out
    for words, says in (
        ([], "causality  holds  "),
        (["--bidirectional"], "causality  does not apply  it may look ahead"),
    ):
        answer = seqloom("verify", f"{LAYERS}:Either", "--dim", "4", "--context", "6", *words)
        assert (answer.code, answer.out[: len(says)]) == (0, says), answer
    assert target.subject_of(f"{LAYERS}:Either", dim=4, causal=False).module().causal is False


@pytest.mark.slow
@pytest.mark.usefixtures("without_compiling")
def test_a_layer_that_ends_the_program_is_a_finding(seqloom: Run) -> None:
    answer = seqloom("verify", f"{LAYERS}:Exits", "--dim", "4", "--context", "6")
    assert (answer.code, answer.err) == (1, "")
    assert "rows       breaks          raised SystemExit: 0\n" in answer.out
    assert answer.out.splitlines()[-1].endswith(" fail")


def test_a_stop_by_the_user_is_none(seqloom: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stops(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"{LAYERS}.Decay.cost", stops)
    answer = seqloom("verify", f"{LAYERS}:Decay", "--dim", "4", "--context", "6")
    assert (answer.code, answer.out, answer.err) == (130, "", "stopped\n")


@pytest.mark.slow
@pytest.mark.usefixtures("without_compiling")
def test_a_file_and_its_reference(seqloom: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my.py").write_text(MY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    common = ["--dim", "8", "--dtype", "bfloat16", "--reference", "my.py:Slow"]
    answer = seqloom("verify", "my.py:Fast", *common)
    assert answer.code == 0, answer
    assert "gradients  does not apply  differences in bfloat16 are too coarse" in answer.out
    assert "\nreference  holds           largest difference 0.0" in answer.out
    answer = seqloom("verify", "my.py:Wrong", *common)
    assert answer.code == 1
    assert "reference  breaks          forward over" in answer.out
    assert "the gradient of k.weight is off by" in answer.out
    monkeypatch.delitem(sys.modules, "my")


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
