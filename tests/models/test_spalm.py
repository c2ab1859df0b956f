"""SPALM: its equation by hand, gradients, prices, and reading by pieces around any mixer that streams."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.core.progress import show_nothing
from seqloom.core.state import flat, repeat, select
from seqloom.counting.count import count
from seqloom.evaluation.reading import remembering
from seqloom.models.decoder import Decoder
from seqloom.models.kinds import model_config
from seqloom.models.spalm import Spalm
from seqloom.ops.backends import known_backends, use
from seqloom.retrieval.building import build
from seqloom.retrieval.lookup import StoreLookup
from seqloom_studies.extrapolate.longer_windows import at_length
from tests.retrieval.test_knn import CONTEXT, VOCAB, text
from tests.retrieval.test_knn import model as plain

SIZES: dict[str, Any] = {"vocab": VOCAB, "dim": 8, "depth": 2, "context": CONTEXT, "ffn": 16, "dropout": 0.0}
MIXERS: list[dict[str, Any]] = [
    {"kind": "transformer_xl", "heads": 2, "memory": 6},
    {"kind": "he"},
    {"kind": "mamba"},
]


def built(mixer: dict[str, Any] = MIXERS[1], kind: str = "spalm", **settings: Any) -> Any:
    torch.manual_seed(0)
    values = {**SIZES, "kind": kind, "mixer": mixer, "position": "none", "std": 0.4, "tie": True, **settings}
    return model_config(values).build().double().eval()


def spalm(tmp_path: Path, mixer: dict[str, Any], frozen: str = "gru", **settings: Any) -> Spalm:
    """With a store of its own of a text, whose model has no positions, so that it reads any length."""
    model: Spalm = built(mixer, k=3, **settings)
    reader = plain(frozen, position={"kind": "none"}, channel="ffn").double()
    store = build(reader, text(2, (40, 30)), tmp_path / "store", source="text", show=show_nothing)
    model.take_lookup(StoreLookup(reader, store, 3))
    return model


def ids(seed: int = 0, rows: int = 2, length: int = 11) -> Tensor:
    return torch.randint(1, VOCAB, (rows, length), generator=torch.Generator().manual_seed(seed))


def followed(of: Tensor, k: int = 3) -> Tensor:
    return torch.randint(VOCAB, (*of.shape, k), generator=torch.Generator().manual_seed(9))


def test_gate_and_mixture_worked_by_hand() -> None:
    """h = (1, 2), y = (ln 2, 0), (0, ln 3 / 2), nothing: scores ln 2 and ln 3, m = 2/5 y_1 + 3/5 y_2, g = σ(ln 3)."""
    model = built(dim=2, ffn=2, norm_place="after", vocab=3, mixer={"kind": "gru"})
    h = torch.tensor([[[1.0, 2.0]]], dtype=torch.float64)
    with torch.no_grad():
        model.token.weight.copy_(torch.tensor([[math.log(2), 0.0], [0.0, math.log(3) / 2], [5.0, 5.0]]))
        model.gate.weight.copy_(torch.tensor([[-math.log(3), math.log(3)]]))
        z = model.mix_followed(h, torch.tensor([[[0, 1, -1]]]))
    m = torch.tensor([2 / 5 * math.log(2), 3 / 5 * math.log(3) / 2], dtype=torch.float64)
    torch.testing.assert_close(z[0, 0], 0.25 * m + 0.75 * h[0, 0], rtol=0, atol=1e-7)
    torch.testing.assert_close(model.mix_followed(h, torch.full((1, 1, 3), -1)), h, rtol=0, atol=0)


def test_the_gate_is_one_number_and_the_values_are_learned() -> None:
    """Seed 002 prints g in bold, and y of a pretrained model: w_g is a vector, and y are rows of the embedding."""
    model, of = built(), ids()
    assert model.gate.weight.shape == (1, SIZES["dim"])
    assert model.gate.bias is None
    logits, _ = model.forward_with_extras(of, None, torch.full((*of.shape, 3), VOCAB - 1))
    assert VOCAB - 1 not in of[:, :5]
    logits[:, :5, 0].sum().backward()
    assert float(model.token.weight.grad[VOCAB - 1].abs().max()) > 1e-6, "neither read nor predicted, only retrieved"
    assert float(model.gate.weight.grad.abs().max()) > 1e-6


@pytest.mark.slow
def test_gradients_are_those_of_the_equation(tmp_path: Path) -> None:
    model, of = spalm(tmp_path, MIXERS[1]), ids(length=3)
    parameters = [model.gate.weight, model.token.weight, model.norm.weight]
    assert torch.autograd.gradcheck(
        lambda *_: model.forward_with_extras(of, None, followed(of))[0].square().mean(), parameters
    )
    model(of).sum().backward()
    lookup: Any = model.lookup
    assert all(weights.grad is None and not weights.requires_grad for weights in lookup._model.parameters())
    assert not lookup._store.keys.requires_grad
    assert not any("lookup" in name for name in model.state_dict()), "the frozen model is no part of the weights"


def test_without_retrieved_tokens_it_is_the_decoder() -> None:
    model, decoder = built(), built(kind="decoder")
    assert isinstance(decoder, Decoder)
    decoder.load_state_dict({name: value for name, value in model.state_dict().items() if name != "gate.weight"})
    found, _ = model.forward_with_extras(ids(), None, torch.full((*ids().shape, 3), -1))
    torch.testing.assert_close(found, decoder(ids()), rtol=0, atol=1e-12)
    other, _ = model.forward_with_extras(ids(), None, followed(ids()))
    assert float((other - found).detach().abs().max()) > 1e-2


@pytest.mark.slow
@pytest.mark.parametrize("frozen", ["gru", "attention"])
@pytest.mark.parametrize("mixer", MIXERS, ids=str)
def test_pieces_and_steps_of_spalm_are_the_whole(mixer: dict[str, Any], frozen: str, tmp_path: Path) -> None:
    """The frozen model streams next to the model: `forward` of a window, `extend` of pieces and `step` agree."""
    model, of = spalm(tmp_path, mixer, frozen), ids(length=CONTEXT)
    with torch.no_grad():
        whole = model(of)
        first, state = model.extend(of[:, :2], model.start(2))
        second, after = model.extend(of[:, 2:], state)
        torch.testing.assert_close(torch.cat([first, second], 1), whole, rtol=0, atol=1e-10)
        before = {name: tensor.clone() for name, tensor in flat(state).items()}
        steps, stepped = [], state
        for token in of[:, 2:].unbind(1):
            logits, stepped = model.step(token, stepped)
            steps.append(logits)
        torch.testing.assert_close(torch.stack(steps, 1), second, rtol=0, atol=1e-10)
        assert all(torch.equal(before[name], tensor) for name, tensor in flat(state).items()), "reuse is off"
        assert flat(after).keys() == flat(model.trim(stepped)).keys()
        twice, _ = model.step(of[:1, 2].expand(2), repeat(select(state, torch.tensor([0])), 2))
        torch.testing.assert_close(twice, steps[0][:1].expand(2, -1), rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("mixer", MIXERS[:2], ids=str)
def test_dropped_tokens_of_spalm_are_as_if_never_written(mixer: dict[str, Any], tmp_path: Path) -> None:
    model, of = spalm(tmp_path, mixer), ids(length=CONTEXT)
    keep = torch.tensor([[True, False, True, True, False, True], [True] * 4 + [False] * 2])
    with torch.no_grad():
        logits = model(of, keep)
        read, state = model.extend(of, model.start(2), keep)
        torch.testing.assert_close(read, logits, rtol=0, atol=1e-10)
        assert not logits[~keep].any()
        for row in range(2):
            alone = model(of[row, keep[row]][None])
            torch.testing.assert_close(logits[row, keep[row]], alone[0], rtol=0, atol=1e-10)
            following, _ = model.extend(of[row : row + 1, :2], select(state, torch.tensor([row])))
            longer, _ = model.extend(torch.cat([of[row, keep[row]], of[row, :2]])[None], model.start(1))
            torch.testing.assert_close(following, longer[:, -2:], rtol=0, atol=1e-10)


@pytest.mark.slow
def test_given_and_looked_up_are_the_same(tmp_path: Path) -> None:
    model, of = spalm(tmp_path, MIXERS[1]), ids(length=CONTEXT)
    assert model.lookup is not None
    rows = model.lookup.read(of)
    assert rows.shape == (2, CONTEXT, 3)
    with torch.no_grad():
        torch.testing.assert_close(model.forward_with_extras(of, None, rows)[0], model(of), rtol=0, atol=0)
        _, state, _ = model.extend_with_extras(of[:, :3], model.start(2), None, rows[:, :3])
        read, _, _ = model.extend_with_extras(of[:, 3:], state, None, rows[:, 3:])
        torch.testing.assert_close(read, model(of)[:, 3:], rtol=0, atol=1e-10)
        for verb in (lambda: model.extend(of[:, 3:], state), lambda: model.step(of[:, 3], state)):
            with pytest.raises(ValueError, match="has not read what this state holds: give `followed`"):
                verb()


@pytest.mark.slow
def test_the_price_of_spalm_is_the_count(tmp_path: Path) -> None:
    model, of = built(k=3), ids(rows=1)
    reference = {op: "reference" for op, names in known_backends().items() if "reference" in names}
    given = followed(of)
    with torch.no_grad(), use(**reference):
        counted = count(lambda: model.forward_with_extras(of, None, given)[0].softmax(-1))
    price = model.cost(of.shape[1])
    for name in ("mul", "add", "div", "exp"):
        assert getattr(counted, name) == getattr(price, name), name
    assert price.params == sum(p.numel() for p in model.parameters()) == sum(v.numel() for v in model.parameters())
    opened = spalm(tmp_path, MIXERS[1])
    lookup: Any = opened.lookup
    whole, frozen = opened.cost(of.shape[1]), lookup._model.cost(of.shape[1], outputs=0)
    q, keys = torch.rand(of.shape[1], 8), lookup._store.keys
    searched = count(lambda: q.square().sum(1, keepdim=True) + (keys.square().sum(1) + -2 * (q @ keys.T)))
    for name in ("mul", "add"):
        assert getattr(whole, name) == getattr(price, name) + getattr(frozen, name) + getattr(searched, name), name
    assert (whole.params, whole.state) == (price.params, price.state + frozen.state)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda model: model(ids()), "the model's store is not open: load the model with seqloom.load"),
        (lambda model: model.start(1), "the model's store is not open"),
        (lambda model: model.forward_with_extras(ids(), None, ids()), "what followed is int64"),
        (lambda model: model.forward_with_extras(ids(), None, [[1]]), "what followed is a tensor"),
        (lambda model: model.exits(ids()), "a model of kind spalm cannot leave layers out"),
        (lambda model: model.extend(ids(), None), "a model's state is a ModelState"),
        (lambda model: built(k=0), "k: input should be"),
        (lambda model: built(tie=False), "tie"),
        (lambda model: built(kind="decoder").take_lookup(None), "kind decoder cannot look up in a store"),
    ],
)
def test_calls_that_do_not_fit(call: Any, error: str) -> None:
    with pytest.raises((ValueError, TypeError), match=error) as caught:
        call(built())
    assert "\n" not in str(caught.value)


def test_a_model_that_is_rebuilt_for_more_tokens_has_the_same_lookup(tmp_path: Path) -> None:
    model = spalm(tmp_path, MIXERS[0], frozen="gru")
    assert remembering(model, 9).lookup is model.lookup
    longer = at_length(model, 2 * SIZES["context"])
    assert longer.lookup is model.lookup
    assert longer(ids(length=2 * SIZES["context"])).isfinite().all()
