"""Every position in a model, causal and bidirectional: the same through pieces, steps, dropped tokens and a window."""

from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.core.model import Model
from seqloom.counting.count import count
from seqloom.models.decoder import Decoder, DecoderConfig
from seqloom.models.encoder import Encoder, EncoderConfig
from seqloom.ops.backends import known_backends, use
from seqloom.positions import kinds

DIM, VOCAB, T = 12, 11, 10
CASES: dict[str, dict[str, Any]] = {
    **{kind: {"kind": kind} for kind in kinds()},
    "rotary of neighbors": {"kind": "rotary", "pairs": "neighbors", "share": 0.7},
    "few buckets": {"kind": "t5", "buckets": 4, "far": 5},
    "short reach": {"kind": "shaw", "reach": 2},
    "fast fading": {"kind": "xpos", "span": 3.0},
}
every_position = pytest.mark.parametrize("case", CASES)


def built(case: str, causal: bool = True, window: int | None = None, context: int = T + 2, **options: Any) -> Any:
    mixer = {"kind": "attention", "heads": 3, "window": window, **options}
    settings = {"vocab": VOCAB, "dim": DIM, "depth": 2, "context": context, "ffn": 16, "dropout": 0.0}
    kind = DecoderConfig if causal else EncoderConfig
    config = kind.model_validate({**settings, "mixer": mixer, "position": CASES[case]})
    model: Model = (Decoder if causal else Encoder)(config)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.double().parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.4)
    return model.eval()


def drawn(B: int = 2) -> Tensor:
    return torch.randint(VOCAB, (B, T), generator=torch.Generator().manual_seed(1))


@every_position
def test_no_output_depends_on_a_later_token(case: str) -> None:
    model, ids = built(case), drawn()
    changed = ids.clone()
    changed[:, 6:] = (changed[:, 6:] + 1) % VOCAB
    assert model(changed)[:, :6].equal(model(ids)[:, :6])
    assert not torch.allclose(model(changed)[:, 6:], model(ids)[:, 6:])


@pytest.mark.slow
@pytest.mark.parametrize("window", [None, 3])
@every_position
def test_pieces_steps_and_dropped_tokens(case: str, window: int | None) -> None:
    model, ids = built(case, window=window), drawn()
    whole = model(ids)
    with torch.no_grad():
        logits, state = model.extend(ids[:, :3], model.start(2))
        result = [logits]
        for position in range(3, 7):
            logits, state = model.step(ids[:, position], state, reuse=position > 4)
            result.append(logits[:, None])
        logits, state = model.extend(ids[:, 7:9], state)
        result += [logits, model.step(ids[:, 9], state)[0][:, None]]
    torch.testing.assert_close(torch.cat(result, 1), whole)
    keep = torch.rand(2, T, generator=torch.Generator().manual_seed(5)) < 0.6
    for row in range(2):
        torch.testing.assert_close(model(ids, keep)[row, keep[row]], model(ids[row, keep[row]][None])[0])
    with torch.no_grad():  # rows of different lengths
        _, state = model.extend(ids[:, :5], model.start(2), keep[:, :5])
        step, _ = model.step(ids[:, 5], state)
    with_last = keep[:, :6].clone()
    with_last[:, 5] = True
    torch.testing.assert_close(step, model(ids[:, :6], with_last)[:, 5])


@every_position
def test_bidirectional_layers(case: str) -> None:
    model, ids = built(case, causal=False), drawn()
    changed = ids.clone()
    changed[:, 6:] = (changed[:, 6:] + 1) % VOCAB
    assert not torch.allclose(model(changed)[:, :6], model(ids)[:, :6])
    keep = torch.rand(2, T, generator=torch.Generator().manual_seed(5)) < 0.6
    for row in range(2):
        torch.testing.assert_close(model(ids, keep)[row, keep[row]], model(ids[row, keep[row]][None])[0])


@every_position
def test_each_position_distinguishes_the_order_of_tokens(case: str) -> None:
    """A bidirectional model without positions gives the last token the same, in whichever order the others come."""
    model, ids = built(case, causal=False), drawn(1)
    changed = torch.cat([ids[:, :-1].flip(1), ids[:, -1:]], 1)
    assert torch.allclose(model(changed)[:, -1], model(ids)[:, -1]) == (case == "none")


@pytest.mark.slow
@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("causal", [True, False])
@every_position
def test_it_is_priced_as_counted(case: str, causal: bool, window: int | None) -> None:
    model, ids = built(case, causal, window, kv_heads=1), drawn(1)[:, :6]
    with torch.no_grad(), use(**{op: "reference" for op, names in known_backends().items() if "reference" in names}):
        executed = count(lambda: model(ids).softmax(-1))
    price = model.cost(6)
    assert (price.mul, price.add, price.div, price.exp) == (executed.mul, executed.add, executed.div, executed.exp)
    if causal:
        for mixer in model.mixers:
            token, before, after = mixer.cost(6, "token"), mixer.cost(5), mixer.cost(6)
            for name in ("mul", "add", "div", "exp", "other"):
                assert getattr(token, name) == getattr(after, name) - getattr(before, name), name
        state = model.extend(ids, model.start(1))[1]
        entries = [t for layer in state.layers for part in layer for name, t in part.items() if name != "length"]
        assert price.state == sum(tensor.numel() for tensor in entries)
    assert price.params == sum(parameter.numel() for parameter in model.parameters())


@every_position
def test_gradients_reach_every_parameter(case: str) -> None:
    model, ids = built(case), drawn()
    model(ids).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert float(parameter.grad.abs().sum()) > 0, name
