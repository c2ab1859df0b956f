"""The hidden Markov model: Baum-Welch and the next token against sums over all paths, in float64; wrong input."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.core.cost import Cost
from seqloom.core.state import nbytes
from seqloom.models.hmm import HMM, HMMConfig

N, W, T = 3, 4, 5
EPSILON = 0.01


def model(**settings: float) -> HMM:
    torch.manual_seed(0)
    return HMMConfig(vocab=W, states=N, context=T, smoothing=EPSILON, **settings).build().double()


def texts(rows: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(W, size=(rows, T)))


def paths(built: HMM, row: list[int]) -> dict[tuple[int, ...], float]:
    """p(path and row) of every path of hidden states."""
    pi, a, b = (table.exp().tolist() for table in (built.initial, built.moves, built.writes))
    joint = {}
    for path in itertools.product(range(N), repeat=len(row)):
        p = pi[path[0]] * math.prod(a[i][j] for i, j in itertools.pairwise(path))
        joint[path] = p * math.prod(b[state][w] for state, w in zip(path, row, strict=True))
    return joint


def fitted(built: HMM, rows: Tensor) -> float:
    """Collects the rows, after an id each that is never a target."""
    loss = built.fit({"ids": torch.cat([torch.zeros(len(rows), 1, dtype=torch.long), rows], 1)})
    return float(loss)


def test_a_pass_gives_the_expected_counts_of_all_paths() -> None:
    built, rows = model(), texts(4)
    initial, moves, writes = np.full(N, EPSILON), np.full((N, N), EPSILON), np.full((N, W), EPSILON)
    nats = 0.0
    for row in rows.tolist():
        joint = paths(built, row)
        whole = math.fsum(joint.values())
        nats -= math.log(whole)
        for path, p in joint.items():
            initial[path[0]] += p / whole
            for i, j in itertools.pairwise(path):
                moves[i, j] += p / whole
            for state, w in zip(path, row, strict=True):
                writes[state, w] += p / whole
    losses = [fitted(built, part) for part in rows.split((3, 1))]
    assert (3 * losses[0] + losses[1]) / 4 == pytest.approx(nats / rows.numel(), rel=1e-12)
    assert not built.end_pass()
    for table, counts in ((built.initial, initial), (built.moves, moves), (built.writes, writes)):
        np.testing.assert_allclose(table.exp(), counts / counts.sum(-1, keepdims=True), rtol=1e-11)


def test_the_next_token_has_the_ratio_of_the_texts_with_it_and_without() -> None:
    built, row = model(), texts(1)[0].tolist()
    log_p = built(torch.tensor([row]))[0]
    for t in range(1, T):
        whole = math.fsum(paths(built, row[:t]).values())
        expected = [math.fsum(paths(built, [*row[:t], w]).values()) / whole for w in range(W)]
        np.testing.assert_allclose(log_p[t - 1].exp(), expected, rtol=1e-12)


@pytest.mark.slow
def test_each_pass_makes_the_text_more_probable() -> None:
    built, rows = model(passes=30, tolerance=0.0), texts(40).sort(1).values
    losses = []
    ended = []
    for _ in range(30):
        losses.append(fitted(built, rows))
        ended.append(built.end_pass())
    assert ended == [False] * 29 + [True]
    assert all(after <= before + 1e-4 for before, after in itertools.pairwise(losses)), "up to the smoothing"
    assert losses[-1] < losses[0] - 0.3


@pytest.mark.slow
def test_passes_end_where_one_gains_too_little() -> None:
    built, rows = model(passes=100, tolerance=0.01), texts(40)
    ended = [fitted(built, rows) > 0 and built.end_pass() for _ in range(40)]
    assert not ended[0]
    assert any(ended)


@pytest.mark.slow
def test_long_rows_do_not_underflow() -> None:
    built = HMMConfig(vocab=W, states=N, context=4000).build()
    loss = built.fit({"ids": torch.zeros(1, 4001, dtype=torch.long)})
    assert torch.isfinite(loss)
    built.end_pass()
    assert all(torch.isfinite(table).all() for table in (built.initial, built.moves, built.writes))


def test_every_distribution_of_hmm_sums_to_one() -> None:
    logits = model()(texts(3))
    torch.testing.assert_close(logits.logsumexp(2), torch.zeros(3, T, dtype=torch.float64))


def test_a_text_in_pieces_and_tokens_is_read_as_the_whole() -> None:
    built, ids = model(), texts(2)
    whole, state, pieces = built(ids), built.start(2), []
    for piece in ids.split((2, 3), 1):
        logits, state = built.extend(piece, state)
        pieces.append(logits)
    torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=0, atol=1e-14)
    state = built.start(2)
    for t, column in enumerate(ids.T):
        logits, state = built.step(column, state)
        torch.testing.assert_close(logits, whole[:, t], rtol=0, atol=1e-14)
    assert nbytes(state) == 2 * 8 * N


def test_dropped_tokens_of_hmm_change_nothing() -> None:
    built, ids = model(), texts(2)
    keep = torch.tensor([[True, False, True, True, False], [False, True, True, True, True]])
    logits, state = built.extend(ids, built.start(2), keep)
    for row in range(2):
        alone, after = built.extend(ids[row][keep[row]][None], built.start(1))
        torch.testing.assert_close(logits[row][keep[row]], alone[0])
        torch.testing.assert_close(state.extra["next"][row], after.extra["next"][0])
    assert not logits[~keep].any()


def test_the_price_of_a_token_is_what_its_equation_does() -> None:
    token = model().cost(7, "token")
    expected = Cost(mul=N + N * N + N * W, add=N - 1 + (N - 1) * (N + W), div=N, other=W, state=N, path=token.path)
    assert token == expected


@pytest.mark.parametrize("settings", [{"states": 0}, {"passes": 0}, {"smoothing": 0.0}, {"tolerance": -1.0}])
def test_wrong_settings_are_an_error(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        HMMConfig(**settings)
