"""The six models of README: from the newest protocol that has all of them."""

import json
from pathlib import Path

from seqloom.report.charts.draw import svg
from seqloom_studies.board import section, short
from seqloom_studies.board.protocols import PROTOCOLS
from tests.studies.board.test_section import kept

OLD, NEW = PROTOCOLS[1].models, PROTOCOLS[0].models


def write(folder: Path, file: str, models: tuple[str, ...], more: dict | None = None, *, text: str = "books") -> None:
    rows = [
        {
            **kept(name, seed, 2.0 + number / 100 + (1 + number % 2) * seed / 1000),
            "state_bytes": {"512": 1_048_576 if number == 0 else 1000, "2048": 5},
            "text": text,
            "digest": f"{text}{name}{seed}",
            **(more or {}),
        }
        for number, name in enumerate(models)
        for seed in range(3)
    ]
    with (folder / file).open("a") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in rows)


def test_nothing_without_all_six(tmp_path: Path) -> None:
    assert short.newest(tmp_path) is None
    write(tmp_path, "board.jsonl", OLD[:5])
    assert short.newest(tmp_path) is None


def test_a_line_per_model_with_its_sizes(tmp_path: Path) -> None:
    write(tmp_path, "board.jsonl", OLD)
    times = [
        {"contender": "attention", "step": 0.4918},
        {"contender": "attention", "tokens": 2048, "ms_per_token": 1.0, "state_bytes": 4_194_304},
    ]
    (tmp_path / "board_times.jsonl").write_text("".join(json.dumps(row) + "\n" for row in times))
    six = short.newest(tmp_path)
    assert six is not None
    assert six.lines[0] == ["Llama attention", "2.001 ± 0.002 (3)", "1.000", "1.05 MB", "4.19 MB", "492 ms"]
    assert six.lines[1][3:] == ["1.00 kB", "-", "-"]
    assert len(six.head) == 6 <= 8
    assert six.verdicts[0].startswith("the HE Extractor +0.040")
    assert six.first_choice is None, "it is not below attention in these rows"
    drawn = svg(short.chart(six))
    assert all(f">{name}</text>" in drawn for name in short.NAMES), "a name has no room"


def test_the_first_choice_is_one_that_needs_significantly_fewer_bits(tmp_path: Path) -> None:
    write(tmp_path, "board.jsonl", ("gated_delta", "gated_delta-3-1", "he", "rwkv7", "attention-window", "attention"))
    six = short.newest(tmp_path)
    assert six is not None
    assert six.first_choice is not None
    assert six.first_choice.startswith("`gated_delta` is a good first choice; at equal parameters it needs fewer bits")
    assert "-0.051 ± 0.002, 3 runs, significant (p " in six.first_choice


def test_the_new_protocol_replaces_the_old_one_when_it_has_all_six(tmp_path: Path) -> None:
    write(tmp_path, "board.jsonl", OLD)
    result = {"use": "result"}
    write(tmp_path, "comparison.jsonl", ("attention", *NEW[:5]), result)
    rate = [{**kept(name, 0, 2.0), "use": "rate", "digest": f"rate{name}"} for name in NEW]
    with (tmp_path / "comparison.jsonl").open("a") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in rate)
    six = short.newest(tmp_path)
    assert six is not None
    assert six.protocol.rows == "board.jsonl"
    write(tmp_path, "comparison.jsonl", NEW[5:], result)
    six = short.newest(tmp_path)
    assert six is not None
    assert six.protocol.rows == "comparison.jsonl"
    assert "(../results/comparison.jsonl)" in (section.section(tmp_path) or ""), "README and results of one protocol"
    assert six.code is None
    assert len(six.head) == 6
    write(tmp_path, "comparison.jsonl", NEW, result, text="code")
    with (tmp_path / "comparison.jsonl").open("a") as lines:
        lines.writelines(json.dumps({**row, "text": "code", "digest": row["digest"] + "code"}) + "\n" for row in rate)
    six = short.newest(tmp_path)
    assert six is not None
    assert six.head[3] == "on code, windows of 512 ± (runs)"
    assert [len(line) for line in six.lines] == [7] * 6
