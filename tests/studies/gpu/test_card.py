"""What the queue knows of its code and its card: digests, named commits, a machine without a card."""

import json
from pathlib import Path

import pytest

from seqloom.analysis import origin
from seqloom_studies.gpu import card
from seqloom_studies.gpu.card import card_here, code_digest, require_commit, source_digest


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of few modules in place of ours."""
    folder = tmp_path / "src" / "seqloom"
    (folder / "ops").mkdir(parents=True)
    for name, text in {
        "__init__.py": "",
        "train.py": "def train():\n    from seqloom.ops import kernel\n",
        "unused.py": "",
        "ops/__init__.py": "",
        "ops/kernel.py": "",
        "ops/kernel.c": "int x;",
        "ops/README.md": "",
    }.items():
        (folder / name).write_text(text)
    monkeypatch.setattr(card, "SOURCE", tmp_path / "src")
    return folder


def digest(*modules: str) -> str:
    code_digest.cache_clear()
    card._imports.cache_clear()
    return code_digest(modules)


@pytest.mark.parametrize("name", ["train.py", "ops/kernel.py", "ops/kernel.c", "__init__.py"])
def test_a_digest_changes_with_all_that_a_module_imports(tree: Path, name: str) -> None:
    before = digest("seqloom.train")
    (tree / name).write_text((tree / name).read_text() + "\n")
    assert digest("seqloom.train") != before


@pytest.mark.parametrize("name", ["unused.py", "ops/README.md"])
def test_and_not_with_what_it_does_not(tree: Path, name: str) -> None:
    before = digest("seqloom.train")
    (tree / name).write_text("# another\n")
    assert digest("seqloom.train") == before


def test_a_module_that_is_not_there_is_an_error(tree: Path) -> None:
    with pytest.raises(ValueError, match=r"no module seqloom\.gone"):
        digest("seqloom.gone")


@pytest.fixture
def stamped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(origin, "_named", [])
    monkeypatch.setattr(card, "name_commit", lambda name, tag: named.append((name, tag)))
    named.clear()
    (tmp_path / "queue").mkdir()
    stamp = {"commit": "abc1234", "tag": "comparison-2", "source": source_digest()}
    (tmp_path / "queue" / "stamp.json").write_text(json.dumps(stamp))
    return tmp_path


named: list[tuple[str, str | None]] = []


def test_a_named_commit_is_that_of_the_rows_with_its_tag(stamped: Path) -> None:
    require_commit("abc1234", stamped)
    assert named == [("abc1234", "comparison-2")]


def test_code_that_changed_since_it_was_packed_is_refused(stamped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card, "source_digest", lambda: "another")
    with pytest.raises(ValueError, match=r"src/ is not that of commit abc1234: .* pack again"):
        require_commit("abc1234", stamped)
    assert not named


def test_another_commit_and_no_stamp_are_refused(stamped: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(ValueError, match="of commit abc1234, not def5678"):
        require_commit("def5678", stamped)
    with pytest.raises(ValueError, match=r"no stamp\.json in"):
        require_commit("abc1234", tmp_path_factory.mktemp("empty"))


@pytest.mark.parametrize(
    ("commit", "message"), [("seqloom 0.1.0", "--commit"), ("26108d14+", "changes that were not committed")]
)
def test_code_of_no_commit_makes_no_rows_but_tries(
    commit: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(card, "commit", lambda: commit)
    monkeypatch.setattr(card, "untraceable", lambda commits: {commit: "26108d14 with changes that were not committed"})
    with pytest.raises(ValueError, match=message):
        require_commit(None, tmp_path)
    require_commit(None, tmp_path, tries=True)


def test_without_a_card_one_line_says_so() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match="can use no CUDA GPU here") as raised:
        card_here("cuda")
    assert "\n" not in str(raised.value)
    assert card_here("cpu").slug == "cpu"
