"""`seqloom list --patterns`: every drawing, in 80 columns, without torch, shows the keys that the mixer reads."""

import subprocess
import sys
from typing import Any

import pytest
import torch

from seqloom.cli import registry
from seqloom.cli.work.mixers import patterns
from seqloom.mixers import kinds, mixer_config
from tests.cli.test_list_mixers import Seqloom

DRAWN = [(kind, drawing) for kind, config in kinds().items() for drawing in config.drawings]


def test_every_drawing_is_listed(seqloom: Seqloom) -> None:
    answer = seqloom("list", "--patterns")
    assert answer.code == 0
    titles = [
        line.split()[0] for line in answer.out.splitlines() if " (causal): " in line or " (bidirectional): " in line
    ]
    assert titles == [kind for kind, _ in DRAWN]
    assert set(titles) == {"attention", "image", "sparse", "blockwise", "etc", "longformer", "bigbird"}
    assert max(len(line) for line in answer.out.splitlines()) <= 80
    assert "\n.....wwwwww.............  d....wwwwww.............  ...ss...ssw.............\n" in answer.out
    assert answer.out.strip() == patterns()


@pytest.mark.parametrize("number", range(len(DRAWN)))
def test_what_is_drawn_is_what_a_mixer_reads(number: int) -> None:
    """By its views: where a weight is not 0."""
    kind, drawing = DRAWN[number]
    if kind == "etc":
        pytest.skip("it has no views; tests/mixers/test_etc.py compares its masks with the paper's")
    settings: dict[str, Any] = {name: value for name, value in drawing.items() if name != "causal"}
    config = mixer_config({"kind": kind, **settings})
    mixer = config.build(4 * drawing["heads"], None, drawing.get("causal", True))
    heads = [view.values for view in mixer.plots(torch.randn(1, 24, mixer.dim)) if view.name.startswith("weights of")]
    looked = [[["." if a == 0 else "x" for a in row] for row in head.tolist()] for head in heads]
    result = {}
    for title, rows in config.draw_pattern(24, drawing.get("causal", True)).items():
        numbers = range(drawing["heads"]) if title == "all heads" else map(int, title.split(" ", 1)[1].split(", "))
        result |= {head: [["." if letter == "." else "x" for letter in row] for row in rows] for head in numbers}
    assert [result[head] for head in sorted(result)] == looked


@pytest.mark.slow
def test_it_loads_no_torch() -> None:
    run = "from seqloom.cli.work.mixers import patterns; import sys; patterns(); print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"


def test_patterns_take_no_other_option(seqloom: Seqloom) -> None:
    for words in (["--patterns", "--backends"], ["--patterns", "--json"], ["bigbird", "--patterns"]):
        answer = seqloom("list", *words)
        assert answer.code == 2
        assert "prints a list of its own: it takes no mixer and no other option" in answer.err.replace(
            "\n", " "
        ).replace("│ ", "")
    assert all("patterns" not in mixer for name, mixer in registry.mixers().items() if not kinds()[name].drawings)
