"""`data`."""

import pytest

from tests.cli.conftest import Seqloom


@pytest.mark.slow
def test_data(seqloom: Seqloom) -> None:
    answer = seqloom("data", "stories:20", "--vocab", 300)
    assert answer.code == 0
    assert "stories:20: training 19 documents" in answer.out
    assert "vocabulary 300" in answer.out
