"""Whole RWKV-4: channel mixing with a state in the second sublayer of a layer, and a norm after the embedding."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqloom.core.state import ModelState, copy_state, flat, nbytes, select
from seqloom.models.decoder import Decoder
from seqloom.runs import model as stored
from seqloom.runs.state import load_state, save_state
from tests.at_once import first
from tests.models import rwkv
from tests.models.drawing import DEPTH, DIM, VOCAB, decoder, ids
from tests.models.test_reading import KEEP, near

WHOLE: dict[str, Any] = {"channel": "channel_mix", "embed_norm": True, "position": "none"}
KINDS = ("rwkv", "she", "attention")
"""channel mixing goes with any mixer; those whose state grows or is a window too"""


def made(kind: str = "rwkv", **settings: Any) -> Decoder:
    return decoder(kind, **{**WHOLE, **settings}).requires_grad_(False)


def verbs(model: Decoder, text: Tensor, keep: Tensor, state: ModelState) -> tuple[Tensor, Tensor, ModelState]:
    logits, state = model.extend(text, state, keep)
    token, state = model.step(text[:, 0], state)
    return logits, token, state


class Verbs(nn.Module):
    """What is captured as one graph."""

    def __init__(self, model: Decoder) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, text: Tensor, keep: Tensor, state: ModelState
    ) -> tuple[Tensor, tuple[Tensor, Tensor, ModelState]]:
        return self.model(text), verbs(self.model, text, keep, state)


@pytest.mark.parametrize("T", [1, 2, 9])
def test_it_is_the_papers_stack(T: int) -> None:
    model, text = made(depth=3), ids(2, T)
    expected = torch.stack([rwkv.model(row, dict(model.named_parameters())) for row in text])
    torch.testing.assert_close(model(text), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("changed", [{"channel": "ffn"}, {"embed_norm": False}])
def test_channel_mixing_and_embedding_norm_are_settings(changed: dict[str, Any]) -> None:
    names = {name for name, _ in made().named_parameters()} ^ {name for name, _ in made(**changed).named_parameters()}
    assert {name.split(".")[-2] if "norm" in name else name.split(".")[2] for name in names} == (
        {"ffn", "channel_mix"} if "channel" in changed else {"embed_norm"}
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_pieces_and_steps_of_rwkv_block_are_the_whole(kind: str) -> None:
    model, text = made(kind), ids(2, 9)
    expected = model(text)
    for cuts in ([9], [1, 8], [4, 0, 3, 2], [1] * 9):
        state, actual = model.start(2), []
        for piece in text.split(cuts, 1):
            logits, state = model.extend(piece, state)
            actual.append(logits)
        near(torch.cat(actual, 1), expected)
        assert state.extra["length"].tolist() == [9, 9]
    for reuse in (False, True):
        state = model.start(2)
        for position in range(9):
            logits, state = model.step(text[:, position], state, reuse=reuse)
            near(logits, expected[:, position])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cut", [0, 1, 4, 8])
def test_dropped_tokens_of_rwkv_block_are_as_if_never_written(kind: str, cut: int) -> None:
    model, text = made(kind), ids(*KEEP.shape)
    whole = model(text, KEEP)
    assert bool((whole[~KEEP] == 0).all())
    near(model(torch.where(KEEP, text, (text + 1) % VOCAB), KEEP), whole)
    for row, keep in enumerate(KEEP):
        near(whole[row][keep], model(text[row, keep][None])[0])
    first, state = model.extend(text[:, :cut], model.start(4), KEEP[:, :cut])
    second, state = model.extend(text[:, cut:], state, KEEP[:, cut:])
    near(torch.cat([first, second], 1), whole)
    assert state.extra["length"].tolist() == KEEP.sum(1).tolist()
    near(model.step(ids(4), state)[0][3], model(torch.cat([text[3, KEEP[3]], ids(4)[3:]])[None])[0, -1])


def test_the_state_of_a_layer() -> None:
    model, plain = made(), made(channel="ffn")
    _, state = model.extend(ids(3, 4), model.start(3, capacity=50))
    mixer, nothing, last = {"last", "sums", "length"}, {"length"}, {"last", "length"}
    assert all((a.keys(), b.keys()) == (mixer, nothing) for a, b in plain.start(3).layers)
    assert all((a.keys(), b.keys()) == (mixer, last) for a, b in (*state.layers, *model.start(3).layers))
    assert state.layers[1][1]["last"].shape == (3, DIM)
    before = copy_state(state)
    expected, after = model.step(ids(3), state)
    model.extend(ids(3, 2), state)
    assert all(tensor.equal(flat(before)[name]) for name, tensor in flat(state).items()), "the given state stays"
    assert not after.layers[0][1]["last"].equal(state.layers[0][1]["last"])
    rows = torch.tensor([2, 0, 0])
    near(model.step(ids(3)[rows], select(model.trim(state), rows), reuse=True)[0], expected[rows])
    assert nbytes(model.trim(state)) == 3 * DEPTH * 5 * DIM * 8


@pytest.mark.slow
def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    model = made()
    _, state = model.extend(ids(2, 5), model.start(2), torch.tensor([[True] * 5, [True, False, True, True, False]]))
    again = load_state(model, save_state(model, state, tmp_path / "state"))
    assert flat(again).keys() == flat(state).keys()
    assert all(tensor.equal(flat(again)[name]) for name, tensor in flat(state).items())
    near(model.extend(ids(2, 3), again)[0], model.extend(ids(2, 3), state)[0])
    stored.save(made().float(), tmp_path / "run")
    loaded, run = stored.load(tmp_path / "run")
    assert loaded.config == model.config
    assert run.settings["model"]["channel"] == "channel_mix"
    assert loaded(ids(1, 4)).equal(made().float()(ids(1, 4)))


@pytest.mark.slow
@pytest.mark.graph
@pytest.mark.parametrize("backend", first(1, ["eager", "aot_eager"]))
def test_it_is_one_graph(backend: str) -> None:
    torch._dynamo.reset()
    model, text, keep = made(), ids(2, 5), torch.tensor([[True] * 5, [False, True, True, False, True]])
    read = Verbs(model)
    with torch.no_grad():
        expected, (pieces, token, after) = read(text, keep, model.start(2))
        compiled = torch.compile(read, fullgraph=True, backend=backend)
        exported = torch.export.export(model, (text,), strict=False).module()
        actual, (again, next_token, state) = compiled(text, keep, model.start(2))
        for one, other in ((actual, expected), (again, pieces), (next_token, token)):
            near(one, other)
        assert flat(state).keys() == flat(after).keys()
        for name, tensor in flat(after).items():
            near(flat(state)[name], tensor)
        near(exported(ids(2, 5, seed=1)), model(ids(2, 5, seed=1)))
