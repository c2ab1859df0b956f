"""Which changes of a mixer's source are changes of its code, and which are not."""

import linecache
import sys
import textwrap
from collections.abc import Callable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import pytest

from seqloom.mixers import kinds, mixer_config
from seqloom.mixers.linear.linear import LinearConfig
from seqloom.runs import module_source, notebook_source
from seqloom.runs.code import changed_kinds, changed_words, codes, of_meta, unwritten_kinds
from seqloom.training.settings import resolve

PACKAGE = {
    "__init__": "",
    "mixer": "from . import shapes\nfrom .parts.kernel import scale\n\ndef run(x):\n    return scale(x) + shapes.ONE\n",
    "shapes": "ONE = 1\n",
    "parts/__init__": "",
    "parts/kernel": "def scale(x):\n    import edited.late\n    return 2 * x\n",
    "late": "LATE = 1\n",
    "unused": "UNUSED = 1\n",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the package `edited`, which nothing has imported."""
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "edited"
    (folder / "parts").mkdir(parents=True)
    for name, text in PACKAGE.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def digests(folder: Path, file: str = "", text: str = "") -> dict[str, str]:
    """The digests of the mixer's module, once a file of its package has been given another text."""
    if file:
        (folder / file).write_text(text)
    return module_source.sources("edited.mixer")


def test_the_modules_are_those_that_it_imports(package: Path) -> None:
    assert digests(package).keys() == {
        *("edited", "edited.mixer", "edited.shapes", "edited.parts", "edited.parts.kernel", "edited.late"),
    }
    assert not any(name.startswith("edited") for name in sys.modules), "nothing is imported to know"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("shapes.py", "# one\nONE   =   1  # of it\n"),
        ("shapes.py", '"""About it."""\n\nONE = 1\n'),
        ("parts/kernel.py", 'def scale(x):\n    """Twice."""\n\n    import edited.late\n    return (2 * x)\n'),
        ("unused.py", "UNUSED = 2\n"),
        ("notes.txt", "of no meaning"),
    ],
    ids=["comments and spaces", "a docstring", "one of a function", "what is not imported", "what is not code"],
)
def test_what_is_no_change(package: Path, file: str, text: str) -> None:
    before = digests(package)
    assert digests(package, file, text) == before


@pytest.mark.parametrize(
    ("file", "text", "module"),
    [
        ("mixer.py", PACKAGE["mixer"].replace("+", "-"), "edited.mixer"),
        ("shapes.py", "ONE = 1.0\n", "edited.shapes"),
        ("parts/kernel.py", PACKAGE["parts/kernel"].replace("2", "3"), "edited.parts.kernel"),
        ("late.py", "LATE = 2\n", "edited.late"),
        ("__init__.py", "import torch\n", "edited"),
        ("shapes.py", "ONE = 'a string that is no docstring'\n", "edited.shapes"),
        ("kernel.cu", "__global__", "edited/kernel.cu"),
    ],
)
def test_what_is_a_change(package: Path, file: str, text: str, module: str) -> None:
    before = digests(package)
    after = digests(package, file, text)
    assert {name for name in after if after[name] != before.get(name)} == {module}


def test_an_extension_counts_by_its_bytes(package: Path) -> None:
    fast = f"fast{EXTENSION_SUFFIXES[0]}"
    (package / "mixer.py").write_text("from edited import fast")
    before = digests(package, fast, "one build")
    assert "edited.fast" in before
    after = digests(package, fast, "the next")
    assert {name for name in after if after[name] != before[name]} == {"edited.fast"}


def test_modules_next_to_a_module_are_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "edited_alone.py").write_text("import torch, edited_helper, json")
    (tmp_path / "edited_helper.py").write_text("broken = ")
    assert module_source.sources("edited_alone").keys() == {"edited_alone", "edited_helper"}


def test_a_long_expression_has_a_digest(package: Path) -> None:
    text = f"ONE = {' + '.join(['1'] * 900)}\n"
    assert digests(package, "shapes.py", text) != digests(package, "shapes.py", text.replace("1", "2", 1))


CELLS = (
    "SCALE = 2\nOTHER = 1\n",
    "def helper(x):\n    return SCALE * x\n",
    "class Module:\n    def forward(self, x):\n        return helper(x)\n",
    "class Own(LinearConfig):\n    kind: str = 'noted'\n    def make(self, layer):\n        return Module()\n",
)
Notebook = Callable[..., type[Any]]


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    """Runs cells as a notebook does, in `__main__` and with their text kept, and returns the class `Own`."""
    count = 0

    def run(*cells: str) -> type[Any]:
        nonlocal count
        names = vars(sys.modules["__main__"])
        monkeypatch.setitem(names, "LinearConfig", LinearConfig)
        for name in ("SCALE", "OTHER", "helper", "Module", "Own"):
            monkeypatch.setitem(names, name, None)
        for cell in cells:
            count += 1
            file = f"<test cell {count}>"
            linecache.cache[file] = (len(cell), None, cell.splitlines(True), file)
            exec(compile(textwrap.dedent(cell), file, "exec"), names)
        kind: type[Any] = names["Own"]
        return kind

    yield run
    for number in range(count):
        linecache.cache.pop(f"<test cell {number + 1}>")


def test_a_class_of_a_notebook_counts_with_what_it_names(notebook: Notebook) -> None:
    before = notebook_source.sources(notebook(*CELLS))
    assert before.keys() == {"Own", "Module", "helper", "SCALE"}
    assert notebook_source.sources(notebook("# first\n\n" + CELLS[0], *CELLS[1:], "trained = 7")) == before
    assert notebook_source.sources(notebook(CELLS[0].replace("OTHER = 1", "OTHER = 5"), *CELLS[1:])) == before
    for cell, (old, new) in enumerate([("2", "3"), ("*", "-"), ("helper(x)", "-helper(x)"), ("noted", "other")]):
        cells = [text.replace(old, new) if place == cell else text for place, text in enumerate(CELLS)]
        after = notebook_source.sources(notebook(*cells))
        names = ("SCALE", "helper", "Module", "Own")
        assert {name for name in after if after[name] != before[name]} == {names[cell]}


def test_a_class_without_a_source_counts_by_its_code(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linecache, "getlines", lambda *_: [])
    before = notebook_source.sources(notebook(*CELLS))
    assert before.keys() == {"Own", "Module", "helper", "SCALE"}
    assert notebook_source.sources(notebook(*CELLS)) == before
    after = notebook_source.sources(notebook(*CELLS[:2], CELLS[2].replace("helper(x)", "-helper(x)"), CELLS[3]))
    assert {name for name in after if after[name] != before[name]} == {"Module"}


def test_a_helper_of_a_notebook_that_is_defined_again(notebook: Notebook) -> None:
    kind = notebook(*CELLS)
    before = codes(kind())
    assert before.keys() == {"noted"}
    exec(CELLS[1].replace("*", "+"), vars(sys.modules["__main__"]))
    assert changed_kinds(before, codes(kind())) == ["noted"]


def test_our_mixers_count_with_their_version(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, config in kinds().items():
        if config.__module__.startswith("seqloom."):
            assert config.equation_version >= 1
            assert codes(config()) == ({} if config.equation_version == 1 else {kind: config.equation_version})
    monkeypatch.setattr(LinearConfig, "equation_version", 3)
    nested = mixer_config({"kind": "both_ways", "mixer": {"kind": "linear"}})
    assert codes(nested) == {"linear": 3}
    assert codes(resolve("tiny", ["model.depth=2", "model.mixer=[{kind: she}, {kind: linear}]"])) == {"linear": 3}


def test_a_class_that_derives_from_ours_counts_with_both(monkeypatch: pytest.MonkeyPatch) -> None:
    class Derived(LinearConfig):
        kind: str = "derived"

    class Again(LinearConfig):
        kind: str = "derived"

    before = codes(Derived())
    assert before.keys() == {"derived"}
    monkeypatch.setattr(LinearConfig, "equation_version", 2)
    assert changed_kinds(before, codes(Again())) == ["derived"]


def test_what_has_changed() -> None:
    assert changed_kinds({}, {}) == changed_kinds({"own": "a", "she": 2}, {"own": "a", "she": 2}) == []
    assert changed_kinds({"own": "a"}, {"own": "b", "she": 2}) == ["own", "she"]
    assert changed_kinds({"she": 2}, {}) == ["she"]
    assert changed_kinds({}, {"own": "a"}) == []
    assert unwritten_kinds({}, {"own": "a", "she": 2}) == ["own"]
    assert changed_words(["own", "she"]) == "own's and she's code changed since"


@pytest.mark.parametrize("meta", [{}, {"surroundings": 3}, {"surroundings": {"code": [1]}}, {"code": {"she": None}}])
def test_a_checkpoint_without_codes(meta: dict[str, Any]) -> None:
    assert of_meta(meta) == {}
    assert of_meta({"surroundings": {"code": {"she": 2}}}) == of_meta({"code": {"she": 2}}) == {"she": 2}
