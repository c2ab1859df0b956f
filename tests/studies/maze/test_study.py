"""The study of mazes: its agents, its rows and page, and wrong input."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seqloom.studies.runner import run
from seqloom_studies.maze import page as maze_page
from seqloom_studies.maze.study import Maze, Turned, agent

pytest.importorskip("gymnasium")
TINY = ("model.dim=8", "model.ffn=8", "model.depth=1", "training.batch=4")
SMALL: dict[str, Any] = {"episodes": (4, 12), "contexts": (1, 10), "batches": 2, "played": 2, "changes": TINY}


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQLOOM_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.slow
def test_the_maze_has_a_row_for_each_score(tmp_path: Path) -> None:
    changes = ("model.dim=8", "model.ffn=8", "model.depth=1", "training.batch=2", "training.evaluate_every=1")
    study = Maze([agent("gtrxl"), agent("lstm")], (10,), 2, changes=changes)
    rows = run(study.study, tmp_path, command="seqloom study maze").of(Turned)
    assert [(row.agent, row.batches) for row in rows] == [("gtrxl", 1), ("gtrxl", 2), ("lstm", 1), ("lstm", 2)]
    assert all(0 <= row.reached <= 1 and 1 <= row.steps <= 40 for row in rows)  # type: ignore[operator]
    assert maze_page.BY_LENGTH in maze_page.write(tmp_path).read_text()


def test_the_agents_differ_in_gates_norms_and_mixers() -> None:
    study = Maze([agent(name) for name in ("gtrxl", "xl", "lstm", "mamba:state_dim=4")], (10,))
    models = [study.config(each, 10, 0).layered_model for each in study.agents]
    gtrxl, xl, lstm, mamba = models
    assert [model.residual for model in models] == ["gru", "add", "add", "add"]  # type: ignore[attr-defined]
    assert [model.norm_place for model in models] == ["before", "after", "before", "before"]  # type: ignore[attr-defined]
    assert gtrxl.position.kind == xl.position.kind == "transformer_xl"
    assert (lstm.mixers[0].kind, mamba.mixers[0].kind, mamba.position.kind) == ("lstm", "mamba", "none")


def test_a_maze_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="a T-maze has a length of 10 to 100, not 5"):
        Maze([agent("xl")], (5,))
    with pytest.raises(ValueError, match="needs agents that differ, not xl, xl"):
        Maze([agent("xl"), agent("xl")], (10,))
