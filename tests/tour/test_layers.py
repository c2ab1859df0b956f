"""What a changed word changes in the first layer, exactly: column and row of attention, no tap, rows of the table."""

import torch

from seqloom.tour import layers
from tests.tour.making import three

IDS = [5, 60, 7, 80, 9, 10, 7, 60, 30]
PLACE = 3
OTHER = [*IDS[:PLACE], 81, *IDS[PLACE + 1 :]]


def test_attention_weights_move_from_the_word_on() -> None:
    model = three().models["attention"]
    before, after = (layers.attention_weights(model.mixers[0], layers.input_of(model, ids)) for ids in (IDS, OTHER))
    assert before.shape == (2, len(IDS), len(IDS))
    torch.testing.assert_close(before.sum(-1), torch.ones(2, len(IDS)))
    assert torch.equal(before[:, :PLACE], after[:, :PLACE])
    moved = (before - after).abs().sum(-1).amin(0)
    assert (moved[PLACE:] > 0).all()


def test_no_tap_moves_and_the_adjustment_of_the_word_alone() -> None:
    model = three().models["he"]
    first, second = (layers.input_of(model, ids) for ids in (IDS, OTHER))
    mixer = model.mixers[0]
    assert torch.equal(layers.extractor_taps(mixer, first), layers.extractor_taps(mixer, second))
    changed = (layers.extractor_adjustment(mixer, first) != layers.extractor_adjustment(mixer, second)).any(1)
    assert changed.nonzero().flatten().tolist() == [PLACE]


def test_keys_change_at_the_word_and_as_far_as_the_convolution_reaches() -> None:
    model = three().models["gated_delta"]
    mixer = model.mixers[0]
    before, after = (layers.delta_writes(mixer, layers.input_of(model, ids)) for ids in (IDS, OTHER))
    assert (before.keys - after.keys).abs().amax((0, 2))[[*range(PLACE), *range(PLACE + 4, len(IDS))]].max() == 0
    assert (before.keys - after.keys).abs().amax((0, 2))[PLACE : PLACE + 4].min() > 0
    assert torch.equal(before.tables[:, :PLACE], after.tables[:, :PLACE])


def test_the_table_is_the_state_of_the_mixer_and_the_sum_of_what_was_written() -> None:
    model = three().models["gated_delta"]
    mixer = model.mixers[0]
    x = layers.input_of(model, IDS)
    writes = layers.delta_writes(mixer, x)
    with torch.no_grad():
        _, state = mixer.extend(x, mixer.start(1))
    torch.testing.assert_close(writes.tables[:, -1], state["S"][0])
    table = torch.zeros_like(writes.tables[:, 0])
    for t in range(len(IDS)):
        table = writes.decay[:, t, None, None] * table
        table = table + writes.keys[:, t, :, None] * writes.changes[:, t, None, :]
        torch.testing.assert_close(table, writes.tables[:, t])
    torch.testing.assert_close(writes.keys.norm(dim=-1), torch.ones(2, len(IDS)), rtol=0, atol=0.01)
