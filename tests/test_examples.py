"""The examples run, at tiny scale, and do what their first lines say."""

import importlib.util
import os
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from seqloom.cli import command
from seqloom.core import mixer_config as registry
from seqloom.data.stories import corpus
from seqloom.mixers import plugins
from seqloom.ops import gpu

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "text.txt"
    path.write_text("\n".join(corpus(30, 1)))
    return path


TINY = (
    *("data.vocab=300", "model.dim=16", "model.ffn=16", "model.context=16", "model.depth=1"),
    *("training.batches=2", "training.evaluate_every=2"),
)


@pytest.mark.slow
def test_a_mixer_in_your_own_module_learns() -> None:
    assert loaded("own_module").main("gru", steps=60) < 2.0  # ln 16 = 2.77 before it learns


def test_streaming_equals_whole_reading() -> None:
    differences = loaded("streaming").main("he", "rwkv", dim=16, tokens=160)
    assert set(differences) == {"he", "rwkv"}
    assert max(differences.values()) < 1e-4


@pytest.mark.slow
def test_your_own_text(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story = loaded("own_text").main(str(text), str(tmp_path / "run"), TINY)
    assert story
    assert f"Once upon a time{story}" in capsys.readouterr().out


@pytest.mark.slow
def test_rows_into_pandas(text: Path, tmp_path: Path) -> None:
    loaded("own_text").main(str(text), str(tmp_path / "run"), TINY)
    rows = loaded("rows_to_pandas").main(str(tmp_path / "run"))
    assert list(rows["step"]) == [1, 2, 2]
    assert set(rows["mixer"]) == {"he"}


@pytest.mark.slow
def test_a_layer_of_your_own(text: Path, tmp_path: Path) -> None:
    module = loaded("my_layer")
    sys.modules["my_layer"] = module  # as a script or a module has it
    settings = {name: int(value) for name, _, value in (change.partition("=") for change in TINY)}
    rows = module.main(str(text), str(tmp_path / "layers"), settings)
    assert {row["model"] for row in rows} == {"attention-heads=4", "my_layer.DecayedMean"}
    assert all(row["state bytes"] for row in rows)


@pytest.mark.slow
def test_attention_is_replaced_in_a_llama() -> None:
    pytest.importorskip("transformers")
    before, after = loaded("swap_llama").main(steps=60)
    assert after < before / 2


@pytest.mark.slow
def test_a_fair_comparison(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = (EXAMPLES / "fair_comparison.sh").read_text().replace("\\\n", " ")
    (line,) = (line for line in script.splitlines() if line.startswith("seqloom "))
    words = shlex.split(line.replace('"$1"', str(text)).replace('"$2"', str(tmp_path / "fair")))[1:]
    words = [word for word in words if word not in ("rwkv", "mamba")]
    words[words.index("time")] = "params"  # at tiny sizes the time of a step is all overhead
    changes = [word for change in TINY for word in ("--set", change)]
    assert command([*words, "--seeds", "1", *changes]) == 0
    assert "he" in capsys.readouterr().out


def write_metadata(package: str, folder: Path) -> None:
    """What pip would write about an example's package into a folder of packages."""
    project = tomllib.loads((EXAMPLES / package / "pyproject.toml").read_text())
    ((group, points),) = project["project"]["entry-points"].items()
    info = folder / f"{package}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['project']['name']}\nVersion: 0.1.0\n")
    lines = "\n".join(f"{name} = {module}" for name, module in points.items())
    (info / "entry_points.txt").write_text(f"[{group}]\n{lines}\n")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The package `my_mixer`, as pip would install it; its mixer's name."""
    write_metadata("my_mixer", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES / "my_mixer")
    yield "decayed_mean"
    plugins._loaded.clear()
    if "decayed_mean" in registry.kinds():
        registry.unregister("decayed_mean")
    sys.modules.pop("my_mixer", None)


@pytest.mark.slow
def test_the_package_is_importable_and_fulfills_the_contract(
    installed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["list", installed]) == 0
    assert "exponential moving average" in capsys.readouterr().out
    code = command(["verify", installed, "--dim", "8", "--set", "decay=0.5"])
    assert "breaks" not in capsys.readouterr().out
    assert code == 0


@pytest.mark.slow
def test_compare_takes_the_package(installed: str, text: Path, tmp_path: Path) -> None:
    changes = [word for change in TINY for word in ("--set", change)]
    out = str(tmp_path / "compare")
    assert command(["compare", installed, "--preset", "tiny", "--data", str(text), "--out", out, *changes]) == 0


def run_with_the_kernel(folder: Path, *words: str, **settings: str) -> str:
    """What a process prints to which `my_kernel` is installed; one of its own, since an op stays registered."""
    kept = {name: value for name, value in os.environ.items() if name not in ("SEQLOOM_SHAPES", "TRITON_INTERPRET")}
    path = os.pathsep.join([str(folder), str(EXAMPLES / "my_kernel"), str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**kept, "PYTHONPATH": path, "TRITON_CACHE_DIR": str(folder / "triton"), **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_a_kernel_of_your_own_is_found(tmp_path: Path) -> None:
    write_metadata("my_kernel", tmp_path)
    printed = run_with_the_kernel(tmp_path, "-m", "seqloom", "list", "indrnn")
    assert "A recurrent layer whose channels do not mix over time" in printed


@pytest.mark.slow
@pytest.mark.skipif(gpu.why().startswith("Triton"), reason=gpu.why())
@pytest.mark.parametrize(
    ("interpreted", "checks"), [("1", "kernels_are or kernels_have"), ("0", "not kernels_are and not kernels_have")]
)
def test_a_kernel_of_your_own_is_the_loop_and_compiles(interpreted: str, checks: str, tmp_path: Path) -> None:
    words = ("-m", "pytest", "-p", "no:cacheprovider", "-o", "addopts=-q", "-k", checks, "examples/my_kernel")
    printed = run_with_the_kernel(tmp_path, *words, TRITON_INTERPRET=interpreted)
    assert "passed" in printed
    assert "skipped" not in printed


@pytest.mark.slow
def test_the_tour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nbclient
    import nbformat

    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "cache"))
    notebook = nbformat.read(EXAMPLES / "tour.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "outputs are not committed"
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))
    assert "taps that change: 0" in printed
    assert "four pairs read once: attention-heads=2 100%" in printed
