"""docs/replication.md is what docs/making/replication.py makes of the stored rows, which are stored unchanged."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from docs.making import replication
from docs.making.replication import FOLDER
from seqloom.report.charts.draw import digest
from seqloom_studies.paper import timed
from seqloom_studies.paper.claims import CLAIMS
from seqloom_studies.paper.counted import COUNTS
from seqloom_studies.paper.page_rows import read
from seqloom_studies.paper.replication import studies_in
from seqloom_studies.paper.rules import MANY, ONE
from seqloom_studies.paper.stored_rows import LOCAL_PATH, store
from seqloom_studies.paper.studies import STUDIES, TABLES
from tests.studies.paper.made_up import rows, write

SIX = {ONE: [4.30, 4.31, 4.29], MANY: [4.20, 4.21, 4.20], "she": [4.10, 4.11, 4.09], "he": [4.15, 4.16, 4.16],
       "we": [4.25, 4.24, 4.25], "me": [4.32, 4.31, 4.31]}  # fmt: skip
HELD = SIX | {"she": [4.4, 4.4, 4.4]}


@pytest.mark.slow
def test_the_page_is_of_today() -> None:
    assert replication.PAGE.read_text(encoding="utf-8") == replication.page(), "make pages"


@pytest.mark.slow
def test_the_pictures_are_those_of_the_rows() -> None:
    charts = {name: chart for files in studies_in(FOLDER).values() for file, study in files
              for name, chart in replication.charts_of(file, study).items()}  # fmt: skip
    drawn = {path.name: path.read_text(encoding="utf-8") for path in replication.IMAGES.glob("*.svg")}
    assert set(charts) == set(drawn), "make pages"
    text = replication.page()
    for name, chart in charts.items():
        assert f"(images/paper/{name})" in text
        assert digest(chart) in drawn[name], f"{name}: make pages"


@pytest.mark.slow
def test_a_picture_is_drawn_and_old_ones_go(tmp_path: Path) -> None:
    result = {"fig7": studies_in(FOLDER)["fig7"]}
    replication.draw(result, tmp_path)
    (picture,) = tmp_path.iterdir()
    assert picture.name == "fig7-training-second-half.svg"
    first = picture.read_bytes()
    replication.draw(result, tmp_path)
    assert picture.read_bytes() == first, "the same rows are the same picture"
    replication.draw({}, tmp_path)
    assert not list(tmp_path.iterdir())


def test_stored_rows_name_no_path_of_a_machine() -> None:
    for path in FOLDER.glob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            written = json.loads(line).get("origin", {}).get("command", "")
            assert not LOCAL_PATH.search(written), path.name


@pytest.mark.slow
def test_without_rows(tmp_path: Path) -> None:
    made = replication.page(tmp_path)
    assert f"None of the paper's {len(CLAIMS)} claims about losses is measured so far." in made
    assert "not measured yet) | `seqloom study paper fig8 --scale small` |" in made
    assert "No study's rows are stored yet." in made
    assert "Not measured yet: `seqloom study paper equal-params --scale small`, `seqloom study paper equal-mul" in made
    assert "HE does better with its adjustment" not in made
    assert "after 58.5 passes over it; and its SHE model has 8.6 times the parameters of its attention model." in made


def test_a_sweep_that_the_paper_does_not_have_is_not_at_its_size(tmp_path: Path) -> None:
    losses = {(name, rate): [4.0] for name in (MANY, "she") for rate in (0.001, 0.002)}
    sizes = {"name": "lr", "kind": "sweep", "over": "learning rate", "differs": "batches 1,000 (paper: 30,000)"}
    write(tmp_path, rows(losses, batches=1000, seeds=1, **sizes))
    (line,) = [
        line
        for line in replication.page(tmp_path).splitlines()
        if line.startswith("| SHE does better than 32-head self-attention, each at")
    ]
    assert line.count("at depth 2 and context 32 after 1,000 batches") == 2
    assert "paper's size" not in line


@pytest.mark.slow
def test_with_rows(tmp_path: Path) -> None:
    write(tmp_path, rows(SIX, HELD))
    write(tmp_path, rows({MANY: [4.0], "she": [4.1]}, batches=10000, seeds=1), "fig8-10000")
    write(
        tmp_path,
        rows({MANY: [4.0], "she": [3.9]}, batches=700, seeds=1, differs="batches 700 (paper: 60,000)"),
        "fig8-700",
    )
    made = replication.page(tmp_path)
    assert "on the training loss, as in the paper, 8 hold; on held-out text 6 hold and 2 do not." in made
    assert (
        "Its headline, that SHE does evidently better than self-attention, holds (adjusted p 0.003) on the training "
        "loss and does not hold (adjusted p 0.002) on held-out text; after 10,000 batches it rests on one run "
        "on the training loss and on held-out text; at the paper's size after 700 batches it rests on one run on the "
        "training loss and on held-out text." in made
    )
    (line,) = [line for line in made.splitlines() if line.startswith("| SHE does evidently")]
    _, _, training, held_out, command, _ = line.split("|")
    assert training.startswith(" after 3,000 batches **holds** (adjusted p 0.003): SHE - 32 heads: -0.103 ± 0.0")
    assert "<br>after 10,000 batches **one run**: SHE - 32 heads: +0.100<br>" in training
    assert training.endswith("<br>at the paper's size after 700 batches **one run**: SHE - 32 heads: -0.100 ")
    assert held_out.startswith(" after 3,000 batches **does not hold** (adjusted p 0.002): SHE - 32 heads: +0.197")
    assert command == " `seqloom study paper fig8 --scale small --batches 3000` "
    assert "| SHE | 4.100 ± 0.025 | -0.103 ± 0.020 (p 0.002) |" in made
    assert "| 32 heads | 4.203 ± 0.014 | - | 4.203 ± 0.014 | - | 7 | 8 | 3 of 3 |" in made
    assert "Training: The smallest difference to 32 heads that would have been significant: 0.0" in made
    assert "No difference to 32 heads can be called significant: one run of each." in made
    assert "Figure 8: depth 2 (paper: 18); Figure 8: batches 700 (paper: 60,000). Seeds of a model: 1, 3. Text:" in made
    assert "Text: `books`. On 2-core M, commit abc, D." in made


@pytest.mark.slow
def test_what_the_paper_leaves_open(tmp_path: Path) -> None:
    write(tmp_path, rows({"she": [4.2], "attention as she": [4.1]}, name="equal-params"))
    made = replication.page(tmp_path)
    message = "| SHE does better than 32-head self-attention of equal parameters. | after 3,000 batches **one run**"
    assert message in made
    assert "| HE does better than 32-head self-attention of equal parameters." not in made
    assert "Not measured yet: `seqloom study paper equal-mul --scale small`" in made


@pytest.mark.slow
def test_texts_are_shown_as_they_are(tmp_path: Path) -> None:
    row = {"name": "she", "batches": 3000, "text": "Once *upon*\n| a time", "command": "seqloom paper table2"}
    write(tmp_path, [row], "table2")
    assert "`she`, after 3,000 batches: Once \\*upon\\* \\| a time" in replication.page(tmp_path)


def test_the_order_of_the_files_of_a_study(tmp_path: Path) -> None:
    for name, changes in {
        "fig8": {"seeds": 1},
        "fig8-10": {"seeds": 3, "batches": 10},
        "fig8-20": {"seeds": 3, "batches": 20},
        "fig8-60000": {"seeds": 1, "differs": ""},
    }.items():
        write(tmp_path, rows(SIX, **changes), name)
    write(tmp_path, rows(SIX), "fig8-notes")
    result = [file for file, _ in studies_in(tmp_path)["fig8"]]
    assert result == ["fig8-60000.jsonl", "fig8-20.jsonl", "fig8-10.jsonl", "fig8.jsonl"]


def every(count: int) -> dict[str, Any]:
    steps = list(range(1, count + 1))
    return {
        "row": "batches",
        "cell": "she.seed-0",
        "line": 0,
        "seed": 0,
        "steps": steps,
        "losses": [float(s) for s in steps],
    }


def test_rows_are_stored(tmp_path: Path) -> None:
    out, folder = tmp_path / "paper", tmp_path / "kept"
    made = [*rows({"she": [4.0]}, name="fig9"), every(1000)]
    write(out, made)
    assert store(out, folder) == store(out, folder) == [folder / "fig9.jsonl"]
    stored_batches = [json.loads(line) for line in (folder / "fig9.jsonl").read_text().splitlines()]
    assert stored_batches[:-1] == made[:-1]
    assert stored_batches[-1]["steps"] == list(range(1, 1001, 3))
    assert stored_batches[-1]["losses"][1] == 4.0
    assert stored_batches[-1]["kept_each"] == 3
    longer = write(tmp_path / "longer", rows({"she": [4.0]}, name="fig9", batches=10000))
    assert store(longer.parent, folder) == [folder / "fig9-10000.jsonl"]
    assert read(folder / "fig9.jsonl").figure.batches == 3000
    with pytest.raises(ValueError, match="no rows of a study"):
        store(folder.parent, folder)


@pytest.mark.parametrize("word", ["/home/me/books", "--out=/tmp/x", "../books", "~/books", "C:\\books", "./x"])
def test_rows_that_name_a_path_are_an_error(word: str, tmp_path: Path) -> None:
    origin = {"date": "D", "commit": "abc", "command": f"seqloom study paper fig8 --data {word}", "machine": "M"}
    write(tmp_path, rows({"she": [4.0]}, origin=origin))
    with pytest.raises(ValueError, match="names a path of a machine"):
        store(tmp_path, tmp_path / "kept")
    assert not (tmp_path / "kept/fig8.jsonl").exists()


@pytest.mark.slow
def test_replication_as_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["replication", str(tmp_path)])
    monkeypatch.setattr(replication, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(replication, "draw", lambda *_: None)
    assert replication.main() == 2
    assert "has no rows of a study" in capsys.readouterr().err
    assert not (tmp_path / "page.md").exists()
    monkeypatch.setattr(sys, "argv", ["replication"])
    assert replication.main() == 0
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == replication.page()


def test_counts() -> None:
    wrong = {count.text.split(" (")[0] for count in COUNTS if count.count().word == "does not hold"}
    assert wrong == {
        "Tables 3 to 6 give operations and parameters.",  # the additions of Table 5
        "HE takes fewer operations and fewer parameters than 32 heads.",
        "Training loss equals perplexity.",
        "Equal settings make a fair comparison",
    }
    message = " ".join(count.count().measured for count in COUNTS)
    for number in ("12.8 times", "1/512", "58.5 passes", "36 of 36", "180,224", "SHE 8.64", "SHE 5, HE 7, WE 5, ME 2"):
        assert number in message


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [(0.8, 0.9, "holds"), (0.9, 1.1, "undecided"), (1.1, 1.2, "does not hold"), (None, None, "undecided")],
)
def test_races(low: float | None, high: float | None, word: str, tmp_path: Path) -> None:
    race = timed.RACES[0]
    common = {**race.which, "ratio_median": 0.5, "ratio_quartiles": [0.4, 0.6], "command": "c", "machine": "M"}
    made = [{"mixer": mixer, **common} for mixer in ("she", "he", "we", "me")]
    made += [{**made[0], "ratio_quartiles": [low, high]}] if low else []
    write(tmp_path, made if low else made[1:], race.file)
    verdict, command = timed.judge_race(race, tmp_path)
    assert verdict.word == word
    assert command == ("c" if low else "python benchmarks/extractors.py")


def test_every_claim_names_a_study() -> None:
    assert {claim.study for claim in CLAIMS} <= {*STUDIES, *TABLES}
