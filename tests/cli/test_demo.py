"""`demo`: all of it at once."""

import re
from pathlib import Path

import pytest

from seqloom.cli import command


@pytest.mark.slow
def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["demo", "--scale", "tiny", "--out", str(tmp_path)]) == 0
    output = capsys.readouterr()
    for name in ("attention-heads=4", "he", "gated_delta", "gru"):
        assert f"\n{name} " in output.out
    assert "One run of each model, so that no difference of their losses can be called significant" in output.out
    assert "Certain: of one text, after 8,192 tokens, in models with that context, the state holds" in output.out
    assert re.search(r"logits of reading the whole text, within \d\.\de-0[5-7]", output.out)
