"""Kneser-Ney as a model: the library's estimates, in every verb; states, prices, ARPA, wrong input."""

import numpy as np
import pytest
import torch

from seqloom.core.cost import Cost
from seqloom.core.state import nbytes, select
from seqloom.models.ngram.config import NgramConfig
from seqloom.models.ngram.interpolated import Interpolated
from seqloom.models.ngram.kneser_ney import kneser_ney

W = 9


def text(length: int = 500, seed: int = 0) -> np.ndarray:
    return np.minimum(np.random.default_rng(seed).geometric(0.3, length) - 1, W - 1)


def counted(order: int = 4, length: int = 500) -> Interpolated:
    """A model that has read a text of windows of 10 tokens, four in a batch."""
    model = NgramConfig(vocab=W, order=order, context=10).build().double()
    assert isinstance(model, Interpolated)
    windows = torch.from_numpy(text(length)).unfold(0, 11, 10)
    for batch in windows.split(4):
        assert model.fit({"ids": batch}) is None
    assert model.end_pass()
    return model


@pytest.mark.parametrize("order", [1, 2, 3, 5, 8])
def test_its_losses_are_those_of_the_whole_text_counted_at_once(order: int) -> None:
    model, probe = counted(order), text(200, seed=1)
    expected = kneser_ney(text()[: 1 + 499 // 10 * 10], order, W).log_probabilities(probe, begin=False)
    ids = torch.from_numpy(probe)[None]
    log_p = model(ids)[0, :-1].gather(1, ids[0, 1:, None])[:, 0]
    np.testing.assert_allclose(log_p, expected[1:], rtol=1e-12)


def test_every_distribution_of_ngram_sums_to_one() -> None:
    logits = counted()(torch.from_numpy(text(200, seed=2))[None])
    torch.testing.assert_close(logits.logsumexp(2), torch.zeros(1, 200, dtype=torch.float64))


def test_before_a_text_was_counted_every_token_is_equally_likely() -> None:
    model = NgramConfig(vocab=W, order=3).build()
    torch.testing.assert_close(model(torch.zeros(1, 2, dtype=torch.long)).exp(), torch.full((1, 2, W), 1 / W))


@pytest.mark.parametrize("order", [1, 2, 4])
def test_a_text_in_pieces_and_tokens_is_read_as_the_whole(order: int) -> None:
    model, ids = counted(order), torch.from_numpy(text(60, seed=3)).view(3, 20)
    whole, state, pieces = model(ids), model.start(3), []
    for piece in ids.split((7, 1, 12), 1):
        logits, state = model.extend(piece, state)
        pieces.append(logits)
    assert torch.equal(torch.cat(pieces, 1), whole)
    state, steps = model.start(3), []
    for column in ids.T:
        logits, state = model.step(column, state)
        steps.append(logits)
    assert torch.equal(torch.stack(steps, 1), whole)
    assert nbytes(state) == 3 * 8 * (order - 1)
    assert model.cost(20, "token").state == order - 1
    rows = torch.tensor([2, 0])
    assert torch.equal(model.step(ids[rows, 0], select(state, rows))[0], model.step(ids[:, 0], state)[0][rows])


def test_dropped_tokens_of_ngram_change_nothing() -> None:
    model, ids = counted(), torch.from_numpy(text(24, seed=4)).view(2, 12)
    keep = torch.tensor([[True, False, True, True] * 3, [False, True, True, False] * 3])
    logits, state = model.extend(ids, model.start(2), keep)
    for row in range(2):
        alone, after = model.extend(ids[row][keep[row]][None], model.start(1))
        assert torch.equal(logits[row][keep[row]], alone[0])
        assert torch.equal(state.extra["past"][row], after.extra["past"][0])
        assert int(state.extra["length"][row]) == int(keep[row].sum())
    assert not logits[~keep].any()


def test_a_state_that_does_not_fit_is_an_error() -> None:
    model = counted()
    with pytest.raises(ValueError, match="3 rows, the input of 2"):
        model.extend(torch.zeros(2, 1, dtype=torch.long), model.start(3))
    with pytest.raises(ValueError, match="does not hold what it was after 1 tokens"):
        model.crop(model.extend(torch.zeros(1, 3, dtype=torch.long), model.start(1))[1], 1)
    with pytest.raises(ValueError, match=r"must lie in 0 … 8"):
        model(torch.full((1, 1), W))


def test_an_arpa_file_of_the_model_is_that_of_the_tables() -> None:
    words = [f"w{i}" for i in range(W)]
    written = list(counted().arpa(words))
    expected = list(kneser_ney(text()[: 1 + 499 // 10 * 10], 4, W).arpa(words))
    assert written == expected


def test_the_price_of_a_token_is_what_its_equation_does() -> None:
    model = counted()
    searches = sum(len(model.keys(order)).bit_length() for order in (2, 3))
    token = model.cost(7, "token")
    assert token == Cost(mul=2 + 3 * W, add=2, other=searches + W, state=3, path=token.path)
    assert model.cost(7).mul == 7 * token.mul
    assert model.cost(7, outputs=1).mul == 7 * 2 + 3 * W


def test_an_order_above_the_text_is_one_line() -> None:
    model = NgramConfig(vocab=W, order=8, context=3).build()
    model.fit({"ids": torch.zeros(1, 4, dtype=torch.long)})
    with pytest.raises(ValueError, match="order 8 is above the text, which has 4 tokens; lower the order"):
        model.end_pass()
