"""A model read in pieces, token by token and with dropped tokens gives the outputs of the whole sequence."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from seqloom.core.state import copy_state, flat, nbytes, select
from seqloom.models.decoder import Decoder
from tests.models.drawing import CONTEXT, DEPTH, KINDS, VOCAB, decoder, ids

# rows of 6, 3, 0 and 4 kept tokens: dropped in front, at the end, in the middle, and all of them
KEEP = torch.tensor(
    [
        [1, 1, 1, 1, 1, 1, 0, 0],
        [0, 0, 0, 0, 0, 1, 1, 1],
        [0, 0, 0, 0, 0, 0, 0, 0],
        [1, 0, 0, 1, 0, 1, 0, 1],
    ],
    dtype=torch.bool,
)
every_kind = pytest.mark.parametrize("kind", [*KINDS, "mixed"])


def made(kind: str, position: str = "learned") -> Decoder:
    mixer = [{"kind": "she"}, {"kind": "attention"}] if kind == "mixed" else kind
    return decoder(mixer, position=position)


def near(actual: Tensor, expected: Tensor) -> None:
    assert actual.shape == expected.shape
    if expected.numel():
        assert float((actual - expected).abs().max()) <= 1e-10 * max(1.0, float(expected.abs().max()))


@pytest.fixture(autouse=True)
def _no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


@every_kind
def test_dropped_tokens_of_models_are_as_if_never_written(kind: str) -> None:
    model, text = made(kind), ids(*KEEP.shape)
    result = model(text, KEEP)
    assert bool((result[~KEEP] == 0).all())
    for row, keep in enumerate(KEEP):
        near(result[row][keep], model(text[row, keep][None])[0])
    changed = torch.where(KEEP, text, (text + 1) % VOCAB)
    near(model(changed, KEEP), result)


@pytest.mark.slow
@every_kind
@pytest.mark.parametrize("position", ["learned", "none"])
def test_pieces_and_steps_of_models_are_the_whole(kind: str, position: str) -> None:
    model, text = made(kind, position), ids(2, CONTEXT)
    expected = model(text)
    for cuts in ([6], [1, 5], [2, 0, 3, 1], [1] * 6):
        state, actual = model.start(2), []
        for piece in text.split(cuts, 1):
            logits, state = model.extend(piece, state)
            actual.append(logits)
        near(torch.cat(actual, 1), expected)
        assert state.extra["length"].tolist() == [6, 6]
    for reuse in (False, True):
        state = model.start(2)
        for index in range(CONTEXT):
            logits, state = model.step(text[:, index], state, reuse=reuse)
            near(logits, expected[:, index])


@every_kind
@pytest.mark.parametrize("cut", [0, 1, 4, 8])
def test_ragged_pieces_then_a_step(kind: str, cut: int) -> None:
    model, text = made(kind), ids(*KEEP.shape)
    expected = model(text, KEEP)
    state, actual = model.start(4), []
    for piece, keep in zip(text.split([cut, 8 - cut], 1), KEEP.split([cut, 8 - cut], 1), strict=True):
        logits, state = model.extend(piece, state, keep)
        actual.append(logits)
    near(torch.cat(actual, 1), expected)
    assert state.extra["length"].tolist() == KEEP.sum(1).tolist()
    short = torch.tensor([1, 2, 3])  # rows with room left under the learned positions
    after = model.step(ids(3, seed=5), select(state, short))[0]
    for position, row in enumerate(short):
        whole = torch.cat([text[row, KEEP[row]], ids(3, seed=5)[position : position + 1]])
        near(after[position], model(whole[None])[0, -1])


@every_kind
def test_the_given_state_stays_and_trims(kind: str) -> None:
    model = made(kind)
    _, state = model.extend(ids(2, 3), model.start(2, capacity=20))
    before = copy_state(state)
    one, _ = model.step(ids(2, seed=1), state)
    model.extend(ids(2, 2), state)
    assert all(tensor.equal(flat(before)[name]) for name, tensor in flat(state).items())
    trimmed = model.trim(state)
    assert nbytes(trimmed) <= nbytes(state)
    assert all(tensor.is_contiguous() for tensor in flat(trimmed).values())
    near(model.step(ids(2, seed=1), trimmed)[0], one)
    assert len(state.layers) == DEPTH
    assert state.extra.keys() == {"length"}


def test_learned_positions_count_kept_tokens_and_end_with_the_context() -> None:
    model = decoder("we")
    assert model.longest == CONTEXT
    long = ids(1, CONTEXT + 3)
    keep = torch.ones(1, CONTEXT + 3, dtype=torch.bool)
    keep[:, 2:5] = False
    assert model(long, keep).shape == (1, CONTEXT + 3, VOCAB)  # 6 kept tokens fit
    keep[:, 2] = True
    for call in (
        lambda: model(long, keep),
        lambda: model(ids(1, CONTEXT + 1)),
        lambda: model.extend(ids(1, CONTEXT + 1), model.start(1)),
        lambda: model.step(ids(1), model.extend(ids(1, CONTEXT), model.start(1))[1]),
        lambda: model.extend(ids(1, 1), model.extend(ids(1, CONTEXT), model.start(1))[1]),
    ):
        with pytest.raises(ValueError, match=rf"7 tokens long, the learned positions reach {CONTEXT}"):
            call()


def test_a_row_that_is_full_may_go_on_dropping() -> None:
    model = decoder("she")
    _, state = model.extend(ids(1, CONTEXT), model.start(1))
    logits, after = model.extend(ids(1, 2), state, torch.zeros(1, 2, dtype=torch.bool))
    assert bool((logits == 0).all())
    assert all(tensor.equal(flat(state)[name]) for name, tensor in flat(after).items())


def test_without_positions_any_length_is_read() -> None:
    model = decoder("she", position="none")
    assert model.longest is None
    expected = model(ids(1, 4 * CONTEXT))
    state = model.start(1)
    for position in range(4 * CONTEXT):
        logits, state = model.step(ids(1, 4 * CONTEXT)[:, position], state, reuse=True)
        near(logits, expected[:, position])
