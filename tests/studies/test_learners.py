"""The pages of the studies `agents` and `maze` begin with the conclusion from their rows."""

from seqloom.report import html
from seqloom_studies.agents import page as agents
from seqloom_studies.maze import page as maze
from tests.report.reading import read
from tests.studies import page_rows as studies


def played(mixer: str, seed: int, asked: float, mean: float) -> agents.Played:
    return agents.Played.model_validate(studies.played(mixer=mixer, seed=seed, asked=asked, mean=mean))


def turned(agent: str, length: int, seed: int, batches: int, reached: float) -> maze.Turn:
    row = studies.turned(agent=agent, length=length, seed=seed, batches=batches, reached=reached)
    return maze.Turn.model_validate(row)


def test_agents_are_compared_where_they_are_asked_for_the_most() -> None:
    rows = [played(mixer, seed, 20, 999) for mixer in ("he", "attention") for seed in range(3)]
    rows += [played("he", seed, 500, 490 + seed) for seed in range(3)]
    rows += [played("attention", seed, 500, reached) for seed, reached in enumerate((390, 391.5, 391.4))]
    assert agents.answer(rows) == [
        "CartPole-v1:mixed, asked for 500: he 491, attention 391 (he to attention +100, significant (p below 0.001))."
    ]
    once = [row for row in rows if row.seed == 0]
    assert agents.answer(once)[0].endswith("(he to attention +100, one run).")
    assert agents.answer([row for row in rows if row.mixer == "he"]) == ["CartPole-v1:mixed, asked for 500: he 491."]
    assert agents.answer([row.model_copy(update={"findings": ["context"]}) for row in rows]) == []


def test_the_longest_maze_at_the_end_is_what_counts() -> None:
    rows = [turned(agent, 10, 0, 50, 1.0) for agent in ("lstm", "gtrxl")]
    rows += [turned(agent, 30, 0, 25, 0.0) for agent in ("lstm", "gtrxl")]
    rows += [turned("lstm", 30, 0, 50, 0.56), turned("gtrxl", 30, 0, 50, 0.9), turned("gtrxl", 30, 1, 50, 1.0)]
    assert maze.answer(rows) == [
        "Right turns 30 steps after the cue: gtrxl 95%, lstm 56%; without memory 50%.", "Means of up to 2 seeds.",
    ]  # fmt: skip
    assert maze.answer(rows[:-1])[1] == "One run each: no difference can be called significant."


def test_the_page_begins_with_the_answer() -> None:
    rows = [turned(agent, 30, 0, batches, 0.5) for agent in ("lstm", "gtrxl") for batches in (25, 50)]
    made = maze.MazeReport.from_rows(rows)
    page = read(html.render("rows.html.jinja", made, made.charts))
    assert page.one("header").one("p", **{"class": "verdict"}).text == made.answer[0]
