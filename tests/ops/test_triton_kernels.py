"""No Triton kernel of ours is without a run under the interpreter, nor without a compilation for sm_90.

Both are started as programs of their own: the interpreter must be asked for before Triton is imported.
"""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from seqloom.ops import gpu

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
FILES = sorted(str(file) for file in Path(__file__).parent.glob("test_triton*.py"))

installed = pytest.mark.skipif(gpu.why().startswith("Triton"), reason=gpu.why())
outside = pytest.mark.skipif(gpu.INTERPRETED, reason="this is what it starts")


def compiled_by_triton(function: ast.FunctionDef) -> bool:
    return any("jit" in ast.unparse(decorator) for decorator in function.decorator_list)


def kernels() -> set[str]:
    """The functions that Triton compiles and none of them calls, as module.name: those are launched."""
    jitted: set[str] = set()
    called: set[str] = set()
    for file in SOURCE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if "import triton" not in text:
            continue
        module = ".".join(file.relative_to(SOURCE).with_suffix("").parts)
        tree = ast.parse(text)
        names = {}
        for node in tree.body:
            if isinstance(node, ast.ImportFrom):
                names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            if isinstance(node, ast.FunctionDef) and compiled_by_triton(node):
                names[node.name] = f"{module}.{node.name}"
                jitted.add(f"{module}.{node.name}")
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        called |= {names[call.id] for call in calls if isinstance(call, ast.Name) and call.id in names}
    return jitted - called


def alone(*words: str, **setting: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("SEQLOOM_SHAPES", "TRITON_INTERPRET")}
    path = f"{ROOT}{os.pathsep}{kept.get('PYTHONPATH', '')}"
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**kept, "PYTHONPATH": path, **setting},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_list_has_kernels_and_not_what_they_call() -> None:
    listed = kernels()
    assert "seqloom.ops.wkv_average.gpu_kernels.forward" in listed
    assert "seqloom.ops.wkv_average.gpu_kernels.interpolate" not in listed
    assert "seqloom.ops.linear_decay.gpu_kernels.tile" not in listed


@pytest.mark.slow
@installed
@outside
def test_every_kernel_runs_under_the_interpreter() -> None:
    """With the numbers and gradients of the reference."""
    done = alone("tests/ops/interpret_triton.py", TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stderr[-3000:]
    assert set(done.stdout.split()) == kernels()


@pytest.mark.slow
@installed
@outside
@pytest.mark.parametrize(
    ("architecture", "kind"),
    [
        ("90", "fp32"),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (("90", "fp64"), ("80", "fp32"), ("80", "fp64"))),
    ],
)
def test_every_kernel_compiles_for_a_gpu(architecture: str, kind: str, tmp_path: Path) -> None:
    """To machine code, with all that it takes and with nothing, and with sizes of 1, which Triton makes constants."""
    done = alone("tests/ops/compile_triton.py", architecture, kind, TRITON_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr[-3000:]
    assert set(done.stdout.split()) == kernels()


@installed
@outside
@pytest.mark.slow
def test_all_of_this_under_the_interpreter() -> None:
    done = alone("-m", "pytest", "-o", "addopts=-q", "-p", "no:cacheprovider", *FILES, TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stdout[-3000:]
    assert "passed" in done.stdout
