"""A regressor: its equation, causality, pieces, both heads, its price and its errors."""

from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.mixers import kinds
from seqloom.models.kinds import model_config
from seqloom.models.regressor import Regressor

B, T = 2, 9
COLUMNS = {"columns": ("a", "b"), "targets": ("y",), "mean": (1.0, -2.0), "deviation": (2.0, 0.5)}
SCALES = {"target_mean": (3.0,), "target_deviation": (4.0,)}
CAUSAL = [kind for kind, config in kinds().items() if config.traits.causal != "never" and kind != "both_ways"]


def built(mixer: dict[str, Any] | None = None, **changes: Any) -> Regressor:
    torch.manual_seed(0)
    sizes = {"dim": 16, "depth": 2, "context": T, "ffn": 12, "std": 0.5, "dropout": 0.0}
    settings = {**sizes, **COLUMNS, **SCALES, "mixer": mixer or {"kind": "gru"}, **changes}
    model = model_config({"kind": "regressor", **settings}).build()
    assert isinstance(model, Regressor)
    return model.double().eval()


def read(rows: int = B) -> tuple[Tensor, Tensor]:
    values = torch.randn(rows, T, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return torch.zeros(rows, T, dtype=torch.long), values


def test_what_the_layers_read_and_what_is_said() -> None:
    model = built(depth=1, ffn={"kind": "none"}, head="mean")
    ids, values = read()
    scaled = (values - torch.tensor([1.0, -2.0])) / torch.tensor([2.0, 0.5])
    x = scaled @ model.of_values.weight.T + model.token.weight[0]
    block = model.blocks[0]
    x = x + block.mixer(torch.nn.functional.layer_norm(x, (16,), block.norm_1.weight, block.norm_1.bias))
    x = torch.nn.functional.layer_norm(x, (16,), model.norm.weight, model.norm.bias)
    assert torch.allclose(model(ids, None, values), (x @ model.head.weight.T + model.head.bias) * 4 + 3)


@pytest.mark.slow
@pytest.mark.sample(12)
@pytest.mark.parametrize("kind", CAUSAL)
def test_later_numbers_do_not_change_earlier_predictions(kind: str) -> None:
    model = built({"kind": kind, **(kinds()[kind].examples[0] if kinds()[kind].examples else {})})
    ids, values = read()
    changed = values.clone()
    changed[:, 5:] += 1
    expected = model.outputs_with_extras(ids, None, values)[0]
    actual = model.outputs_with_extras(ids, None, changed)[0]
    assert torch.allclose(actual[:, :5], expected[:, :5], atol=1e-12)
    assert not torch.allclose(actual[:, 5:], expected[:, 5:])
    if model.reads_on:
        first, layers = model.predict(values[:, :4])
        outputs = [first]
        for time in range(4, T):
            one, layers = model.predict(values[:, time : time + 1], layers)
            outputs.append(one)
        assert torch.allclose(torch.cat(outputs, 1), expected, atol=1e-9)


def test_both_heads_have_their_loss() -> None:
    ids, values = read()
    targets = torch.randn(B, T, 1, dtype=torch.float64)
    mean = built(head="mean")
    outputs = mean.outputs_with_extras(ids, None, values)[0]
    assert torch.allclose(mean.losses(outputs, targets), (outputs - (targets - 3) / 4) ** 2)
    assert torch.allclose(mean.expect(outputs), outputs * 4 + 3)
    one = built(gaussians=1)
    outputs = one.outputs_with_extras(ids, None, values)[0]
    normal = torch.distributions.Normal(outputs[..., 1:2] * 4 + 3, outputs[..., 2:3].exp() * 4)
    assert torch.allclose(one.losses(outputs, targets), -normal.log_prob(targets) - torch.tensor(4.0).double().log())
    assert torch.allclose(one.expect(outputs), normal.mean)
    drawn = one.draw(outputs[:1, :1].expand(20000, -1, -1), torch.Generator().manual_seed(0))
    assert torch.allclose(drawn.detach().mean(), normal.mean[0, 0, 0], atol=0.05 * normal.stddev[0, 0, 0].item())
    assert torch.allclose(drawn.std(), normal.stddev[0, 0, 0], rtol=0.05)


def test_dropped_times_are_not_read() -> None:
    model = built()
    ids, values = read()
    keep = torch.ones(B, T, dtype=torch.bool)
    keep[:, 3] = False
    odd = values.clone()
    odd[:, 3] = torch.nan
    kept = torch.cat([values[:, :3], values[:, 4:]], 1)
    actual = model(ids, keep, odd)
    assert torch.allclose(torch.cat([actual[:, :3], actual[:, 4:]], 1), model(ids[:, 1:], None, kept))


def test_its_price_counts_its_parameters() -> None:
    for changes in ({}, {"head": "mean"}, {"norm": "rms", "head_bias": False}):
        model = built(**changes)
        assert model.cost(T).params == sum(parameter.numel() for parameter in model.parameters())
    model = built(head="mean")
    assert model.cost(T).mul - model.inner_cost(T).mul == T * (2 * 16 + 16 + 1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda model, ids, values: model(ids), "reads numbers: give values"),
        (lambda model, ids, values: model(ids, None, values[..., :1]), "values are numbers of shape"),
        (lambda model, ids, values: model(ids, None, values.long()), "values are numbers of shape"),
        (lambda model, ids, values: model.exits(ids), "leave layers out"),
        (lambda model, ids, values: model.start(2), "read on from a state"),
        (lambda model, ids, values: model.loss_with_extras(ids, ids), "predict tokens"),
        (lambda model, ids, values: built(head="mean").draw(values[..., :1], torch.Generator()), "head=gaussians"),
        (lambda model, ids, values: built(position="learned"), "unlike the table of model.position=learned"),
        (lambda model, ids, values: built({"kind": "rnn"}, tie=True), "tie"),
    ],
)
def test_wrong_calls(call: Any, words: str) -> None:
    ids, values = read()
    with pytest.raises(ValueError, match=words) as error:
        call(built(), ids, values)
    assert "\n" not in str(error.value)
