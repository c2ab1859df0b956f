"""`seqloom evaluate --tasks`: tasks of lm-eval from a folder, without a network, and lm-eval on the exported folder."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")

import seqloom
from seqloom.cli import command
from seqloom.data.tokenizer import Tokenizer

LINES = [{"text": "once upon", "end": " a time", "other": " zzz"}, {"text": "the cat", "end": " sat", "other": " qqq"}]
TASK = """
task: endings
dataset_path: json
dataset_kwargs: {data_files: {validation: endings.jsonl}}
output_type: multiple_choice
validation_split: validation
doc_to_text: "{{text}}"
doc_to_choice: "{{[end, other]}}"
doc_to_target: 0
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
metadata: {version: 1}
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    model = seqloom.decoder("gru", vocab=257, dim=8, depth=1, context=32, position="none")
    return seqloom.save(model, tmp_path / "run", tokenizer=Tokenizer.of_bytes())


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "endings.yaml").write_text(TASK)
    (folder / "endings.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in LINES))
    return folder


@pytest.mark.slow
def test_tasks_of_a_folder_are_scored(run: Path, tasks: Path, tmp_path: Path) -> None:
    pytest.importorskip("lm_eval")
    program = "import sys; from seqloom.cli import command; sys.exit(command(sys.argv[1:]))"
    arguments = ["evaluate", str(run), "--tasks", str(tasks), "--json"]
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    (score,) = json.loads(done.stdout.splitlines()[-1])["tasks"]
    assert score["task"] == "endings"
    assert score["metric"] == "acc"
    assert score["value"] in (0.0, 0.5, 1.0)
    assert command(["export", "hf", str(run), str(tmp_path / "folder")]) == 0
    model = f"pretrained={tmp_path / 'folder'},trust_remote_code=True"
    theirs = ["--model", "hf", "--model_args", model, "--tasks", "endings", "--include_path", str(tasks)]
    done = subprocess.run(
        [sys.executable, "-m", "lm_eval", "run", *theirs, "--device", "cpu", "--output_path", f"{tmp_path}/out.json"],
        cwd=tasks, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    (written,) = tmp_path.glob("out*.json")
    assert json.loads(written.read_text())["results"]["endings"]["acc,none"] == score["value"]


def test_what_does_not_go_together_is_named(run: Path, tasks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["evaluate", str(run), "--tasks", str(tasks), "--data", "text.txt"]) == 2
    assert "--tasks takes the place of a text: leave out --data" in capsys.readouterr().err
    assert command(["evaluate", str(run), "--tasks", str(run)]) == 2
    assert "is no folder of tasks" in capsys.readouterr().err
