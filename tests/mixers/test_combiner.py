"""Combiner: the weights of all tokens sum to 1 and are causal, the equation token by token, and its price."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.counting.count import count
from seqloom.mixers import mixer_config
from seqloom.ops.attention import attend
from seqloom.ops.attention.combiner import Form, combine
from seqloom.ops.attention.combiner.reference import partition
from seqloom.ops.backends import use

D, H, T = 8, 2, 21
FORMS: tuple[Form, ...] = ("fixed", "axial", "logsparse")
every_form = pytest.mark.parametrize("form", FORMS)


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def build(form: Form, **settings: Any) -> Any:
    torch.manual_seed(0)
    block = {} if form == "logsparse" else {"block": 4}
    mixer = mixer_config({"kind": "combiner", "heads": H, "form": form, **block, **settings}).build(D, T).double()
    for parameter in mixer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return mixer


@every_form
def test_the_weights_are_positive_causal_and_sum_to_1(form: Form) -> None:
    """Full attention: no earlier token is without a weight."""
    q, k = draw(2, H, T, 4), draw(2, H, T, 4, seed=2)
    weights = combine(q, k, torch.eye(T, dtype=torch.float64).expand(2, H, -1, -1), form, 4)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, H, T, dtype=torch.float64), rtol=0, atol=1e-12)
    assert not weights.triu(1).any()
    assert (weights[:, :, torch.ones(T, T, dtype=torch.bool).tril()] > 0).all()


@every_form
@pytest.mark.parametrize("i", [0, 3, 4, 13, 20])
def test_direct_tokens_and_regions_are_all_tokens_once(form: Form, i: int) -> None:
    direct, regions = partition(form, 4, i)
    assert sorted([*direct, *(j for region in regions for j in region)]) == list(range(i + 1))


def test_partitions_by_hand() -> None:
    """Token 10: of the third block of 4; 10 is 8 + 2."""
    assert partition("fixed", 4, 10) == ([8, 9, 10], [(0, 1, 2, 3), (4, 5, 6, 7)])
    assert partition("axial", 4, 10) == ([8, 9, 10], [(0, 4), (1, 5), (2, 6), (3, 7)])
    assert partition("logsparse", 4, 10) == ([10], [(0, 1, 2, 3, 4, 5, 6, 7), (8, 9)])


@pytest.mark.slow
@every_form
def test_combiner_is_its_equation(form: Form) -> None:
    mixer, x = build(form), draw(T, D)
    q, k, v = ((x @ w.weight.T).view(T, H, -1) for w in (mixer.w_q, mixer.w_k, mixer.w_v))
    y = torch.zeros(T, H, D // H, dtype=torch.float64)
    for i in range(T):
        direct, regions = partition(form, 4, i)
        for h in range(H):
            keys, values = [*k[direct, h]], [*v[direct, h]]
            for j in map(list, regions):
                inside = torch.exp(k[j, h] @ q[j, h].max(0).values / 2)
                keys.append(k[j, h].max(0).values)
                values.append((inside / inside.sum()) @ v[j, h])
            e = torch.exp(torch.stack(keys) @ q[i, h] / 2)
            y[i, h] = (e / e.sum()) @ torch.stack(values)
    torch.testing.assert_close(mixer(x[None])[0], y.flatten(1) @ mixer.w_out.weight.T, rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", ["fixed", "axial"])
def test_one_block_is_attention(form: Form) -> None:
    q, k, v = (draw(2, H, T, 4, seed=n) for n in range(3))
    torch.testing.assert_close(combine(q, k, v, form, T), attend(q, k, v), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("form", "growth"), [("fixed", 8.4), ("axial", 8.4), ("logsparse", 4.9)])
def test_pairs_grow_as_stated(form: Form, growth: float) -> None:
    """From 1,024 to 4,096 tokens: by 4 · 2 with blocks of √T, by 4 · 12/10 with stretches; dense attention by 16."""
    config = mixer_config({"kind": "combiner", "heads": 1, "form": form})
    small, large = (config.build(2, T).cost(T).exp for T in (1024, 4096))
    assert 0.85 * growth < large / small < growth


@every_form
def test_rows_of_combiner_of_different_lengths_read_on(form: Form) -> None:
    mixer, x = build(form), draw(2, T, D)
    keep = torch.rand(2, T, generator=torch.Generator().manual_seed(0)) < 0.7
    y, state = mixer.extend(x[:, :15], mixer.start(2), keep[:, :15])
    z, _ = mixer.extend(x[:, 15:], state, keep[:, 15:])
    torch.testing.assert_close(torch.cat([y, z], 1), mixer(x, keep), rtol=0, atol=1e-12)


@every_form
def test_the_last_token_alone_reads_its_own_regions(form: Form) -> None:
    q, k, v = draw(2, H, T, 4), draw(2, H, T, 4, seed=2), draw(2, H, T, 4, seed=3)
    for tokens in range(1, T + 1):
        whole = combine(q[:, :, :tokens], k[:, :, :tokens], v[:, :, :tokens], form, 4)
        last = combine(q[:, :, :tokens], k[:, :, :tokens], v[:, :, :tokens], form, 4, tokens - 1)
        torch.testing.assert_close(last, whole[:, :, -1:], rtol=0, atol=1e-12)


@pytest.mark.slow
def test_a_step_forms_its_regions_again() -> None:
    """It executes its price where all its regions are new, and less than the whole text's later."""
    mixer, x = build("fixed"), draw(1, T, D)
    state, tokens = mixer.start(1), []
    with torch.no_grad(), use(combiner="reference", projection="reference"):
        for t in range(T):
            step = partial(mixer.step, x[:, t], state)
            tokens.append(count(step).mul)
            _, state = step()
        whole = count(partial(mixer, x)).mul
    prices = [mixer.cost(t, per="token").mul for t in range(1, T + 1)]
    assert tokens[:5] == prices[:5]
    assert tokens[5] > prices[5]
    assert max(tokens) < whole


def test_settings_of_combiner_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="logsparse has no blocks: leave out block"):
        build("logsparse", block=3)
    with pytest.raises(ValueError, match="dim 8 is not divisible by heads 3"):
        build("fixed", heads=3)
