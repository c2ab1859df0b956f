"""Texts of folds that are made ahead are those that the comparison asks for."""

import random
from pathlib import Path

import pytest

from seqloom.data import prepare
from seqloom_studies.board.study import Board
from seqloom_studies.gpu import ahead
from seqloom_studies.gpu.sizes import TINY


def test_a_text_that_was_made_ahead_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(0)
    for number in range(12):
        text = " ".join(draw.choices(["the", "little", "girl", "went", "into", "a", "dark", "wood"], k=400))
        (tmp_path / f"Name{number} Person{number} - A Tale.txt").write_text(text)
    ahead.main([str(tmp_path), "1", *TINY.board, "data.folds=3"])

    def encoded(*_: object) -> None:
        pytest.fail("it is encoded again")

    monkeypatch.setattr(prepare, "document_ids", encoded)
    assert Board(str(tmp_path), (*TINY.board, "data.folds=3")).corpus(0).test is not None
    with pytest.raises(pytest.fail.Exception, match="encoded again"):
        Board(str(tmp_path), (*TINY.board, "data.folds=3")).corpus(1)
