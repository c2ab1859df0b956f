"""The studies of agents: the runs of each finding, their rows, resuming, charts by hand, and wrong input."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seqloom.studies.candidate import parse_candidate
from seqloom.studies.plan import plan
from seqloom.studies.results import Results
from seqloom.studies.runner import run
from seqloom.studies.study import Cell
from seqloom_studies.agents import page as agents_page
from seqloom_studies.agents.cell import ASKED, LATE, AgentCell, Reached, cloning
from seqloom_studies.agents.study import Agents
from seqloom_studies.maze.study import Maze
from tests.studies.page_rows import played

pytest.importorskip("gymnasium")
TINY = ("model.dim=8", "model.ffn=8", "model.depth=1", "training.batch=4")
SMALL: dict[str, Any] = {"episodes": (4, 12), "contexts": (1, 10), "batches": 2, "played": 2, "changes": TINY}


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQLOOM_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def cells_of(study: Agents | Maze, out: Path) -> list[Cell]:
    return next(study.stages(Results(out)))


@pytest.mark.slow
def test_a_run_serves_every_finding_that_it_fits(tmp_path: Path) -> None:
    study = Agents(["TMaze-10:random"], [parse_candidate("attention")], **SMALL)
    cells = [cell for cell in cells_of(study, tmp_path) if isinstance(cell, AgentCell)]
    served = {
        (cell.learner, cell.episodes, cell.config.model.context): {name for _, names in cell.asked for name in names}
        for cell in cells
    }
    assert len(served) == len(cells)
    assert served == {
        (ASKED, 12, 10): {"asked", "late rewards", "little data", "context"},
        (LATE, 12, 10): {"late rewards"},
        (ASKED, 4, 10): {"little data"},
        **{(cloning(share), count, 10): {"little data"} for share in (0.1, 1.0) for count in (4, 12)},
        (ASKED, 12, 1): {"context"},
    }
    for cell in cells:
        assert cell.config.model.returns == cell.learner.returns  # type: ignore[attr-defined]
        assert cell.config.training.objective.best == cell.learner.best  # type: ignore[union-attr]
        assert cell.asked[-1][0] == 1.0, "the last return that is asked for is the best that was recorded"
        assert [asked for asked, _ in cell.asked[:-1]] == (
            [0.0, 0.2, 0.4, 0.6, 0.8] if cell.learner in (ASKED, LATE) and len(cell.asked) > 1 else []
        )


@pytest.mark.slow
def test_rows_resume_and_page(tmp_path: Path) -> None:
    study = Agents(
        ["TMaze-10:random"], [parse_candidate("he")], asked=3, **{**SMALL, "episodes": (12,), "shares": (0.1,)}
    )
    assert str(plan(study.study, tmp_path)).endswith("; not included: playing")
    rows = run(study.study, tmp_path, command="seqloom study agents").of(Reached)
    assert [(row.asked, row.context) for row in rows] == [
        *([(asked, 10) for asked in (0.0, 0.5, 1.0)] * 2),
        *((None, 10), (1.0, 1)),
    ]
    assert all((row.asked is None) == row.learner.startswith("cloning") for row in rows)
    assert all(row.lowest <= row.mean <= row.highest for row in rows)  # type: ignore[operator]
    written = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert all({"machine", "commit", "command", "seed"} < row.keys() for row in written)
    assert "Context: TMaze-10:random" in agents_page.write(tmp_path).read_text()

    cell = "TMaze-10-random/cloning-best-10/episodes-12/context-10/he/seed-0"
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("rows.json")}
    (tmp_path / cell / "rows.json").unlink()
    again = run(study.study, tmp_path).of(Reached)
    assert sorted(again, key=str) == sorted(rows, key=str), "the row is made again from the run, which is there"
    changed = [path for path, at in kept.items() if path.stat().st_mtime_ns != at]
    assert [path.parent for path in changed] == [tmp_path / cell]


def reached(**changes: Any) -> agents_page.Played:
    return agents_page.Played.model_validate(played(**{"findings": ["asked", "late rewards"], **changes}))


def test_a_point_is_the_mean_over_seeds() -> None:
    rows = [
        reached(),
        reached(mean=6.0),
        reached(asked=9.0, mean=7.0),
        reached(learner="return asked, rewards at the end", mean=1.0, findings=["late rewards"]),
        reached(findings=["context"]),  # at one place alone: no chart
    ]
    assert [chart.heading.partition(":")[0] for chart in agents_page.charts(rows)] == [
        "Return reached and return asked",
        "Rewards at the end",
    ]
    asked, late = (chart.table.rows for chart in agents_page.charts(rows))
    assert [list(row) for row in asked] == [
        ["he", 5, 5, 4, 6],
        ["he", 9, 7, 7, 7],
        [agents_page.AS_ASKED, 5, 5, 5, 5],
        [agents_page.AS_ASKED, 9, 9, 9, 9],
    ]
    assert ["he, late rewards", 5, 1, 1, 1] in [list(row) for row in late]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sources": ["CartPole-v1"]}, "episodes are named ENV:POLICY here"),
        ({"episodes": (1, 4)}, "at least 2 episodes"),
        ({"contexts": (3, 3)}, "needs contexts that differ, not 3, 3"),
        ({"shares": (2.0,)}, "best"),
        ({"asked": 1}, "at least 2 returns"),
        ({"changes": ["model.size=3"]}, "unknown setting"),
    ],
)
def test_wrong_input_is_one_line(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        Agents(**{"sources": ["TMaze-10:mixed"], "mixers": [parse_candidate("he")], **settings})
    assert "\n" not in str(error.value)
