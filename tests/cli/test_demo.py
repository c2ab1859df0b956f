"""`demo`: all of it at once."""

import re
from pathlib import Path

import pytest

from seqloom.cli import command


@pytest.mark.slow
def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["demo", "--scale", "tiny", "--out", str(tmp_path)]) == 0
    output = capsys.readouterr()
    for name in ("attention-heads=4", "he", "gated_delta", "mamba", "gru"):
        assert f"\n{name} " in output.out
    assert "Observed once" in output.out
    assert "After 8,192 tokens, of models with that context, the next token takes and the state holds: " in output.out
    assert re.search(r"logits of reading the whole text, within \d\.\de-0[5-7]", output.out)
