"""The token shift: the token before each token, over whole rows, pieces and rows that end in padding."""

import torch

from seqloom.core.state import bound_state
from seqloom.ops.past.token_shift import shift_tokens


def test_a_piece_follows_the_last_token_of_each_row() -> None:
    x = torch.arange(1.0, 13.0).reshape(2, 6, 1)
    earlier, entries = shift_tokens(x)
    assert earlier[:, :, 0].tolist() == [[0, 1, 2, 3, 4, 5], [0, 7, 8, 9, 10, 11]]
    assert entries == {}
    empty = bound_state({"last": torch.zeros(2, 1), "length": torch.zeros(2, dtype=torch.long)})
    earlier, entries = shift_tokens(x, empty)
    assert earlier[:, :, 0].tolist() == [[0, 1, 2, 3, 4, 5], [0, 7, 8, 9, 10, 11]]
    assert entries["last"].tolist() == [[6], [12]]
    full = bound_state({"last": torch.tensor([[50.0], [60.0]]), "length": torch.tensor([1, 1])})
    earlier, entries = shift_tokens(x, full, torch.tensor([2, 0]))
    assert earlier[0, :2, 0].tolist() == [50, 1]
    assert entries["last"].tolist() == [[2], [60]]
