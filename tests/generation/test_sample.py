"""Drawing a token: the distribution by its definition, draws from it, wrong settings in one line."""

import math
from typing import Any

import pytest
import torch

from seqloom.core.config import read
from seqloom.generation.sample import Sampling, draw, probabilities


def by_definition(logits: list[float], temperature: float, top_k: int | None, top_p: float | None) -> list[float]:
    weights = [math.exp(z / temperature) for z in logits]
    order = sorted(range(len(logits)), key=lambda id: (-weights[id], id))[:top_k]
    if top_p is not None:
        total, kept, reached = sum(weights[id] for id in order), [], 0.0
        for id in order:
            kept.append(id)
            reached += weights[id]
            if reached / total >= top_p:
                break
        order = kept
    total = sum(weights[id] for id in order)
    return [weights[id] / total if id in order else 0.0 for id in range(len(logits))]


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("top_k", [None, 1, 3, 7, 50])
@pytest.mark.parametrize("top_p", [None, 1e-9, 0.5, 0.9, 1.0])
def test_the_distribution_is_its_definition(temperature: float, top_k: int | None, top_p: float | None) -> None:
    logits = torch.randn(5, 7, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * 2
    result = probabilities(logits, Sampling(temperature=temperature, top_k=top_k, top_p=top_p))
    want = torch.tensor([by_definition(row, temperature, top_k, top_p) for row in logits.tolist()], dtype=torch.float64)
    torch.testing.assert_close(result, want, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("scale", [0.1, 3.0])
@pytest.mark.parametrize("settings", [{"top_p": 0.9}, {"top_k": 300, "top_p": 0.8}, {"top_k": 700}, {"top_k": 2}])
def test_many_tokens_of_which_few_are_likely_or_all(settings: dict[str, Any], scale: float) -> None:
    """Equal logits too, of which the first stay."""
    logits = (scale * torch.randn(3, 1500, generator=torch.Generator().manual_seed(3)).double()).round(decimals=1)
    result = probabilities(logits, Sampling(**settings))
    top_k, top_p = settings.get("top_k"), settings.get("top_p")
    want = torch.tensor([by_definition(row, 1.0, top_k, top_p) for row in logits.tolist()], dtype=torch.float64)
    torch.testing.assert_close(result, want, rtol=1e-11, atol=1e-15)


ln = math.log


@pytest.mark.parametrize(
    ("logits", "settings", "want"),
    [
        ([0.0, 0.0, 0.0, 0.0], {"top_k": 3}, [1 / 3, 1 / 3, 1 / 3, 0]),  # ties: exactly k, the lower ids
        ([0.0, 1.0, 1.0, 1.0], {"top_k": 2}, [0, 0.5, 0.5, 0]),
        ([ln(4), ln(3), ln(2), ln(1)], {"top_p": 0.4}, [1, 0, 0, 0]),  # reached exactly: no more
        ([ln(4), ln(3), ln(2), ln(1)], {"top_p": 0.41}, [4 / 7, 3 / 7, 0, 0]),  # the crossing one is in
        ([ln(1), ln(2), ln(3), ln(4)], {"top_p": 0.9}, [0, 2 / 9, 3 / 9, 4 / 9]),
        ([0.0] * 10, {"top_p": 0.3}, [1 / 3] * 3 + [0] * 7),
        ([0.0] * 10, {"top_p": 0.8}, [1 / 8] * 8 + [0] * 2),  # 0.1 eight times is 0.7999999999999999
        ([0.0] * 2000, {"top_k": 1000}, [1 / 1000] * 1000 + [0] * 1000),
        ([ln(4), ln(3), ln(2), ln(1)], {"top_k": 2, "top_p": 0.5}, [1, 0, 0, 0]),  # 4/7 of what top-k left
        ([0.0, 60.0], {"top_p": 1.0}, [math.exp(-60), 1]),  # 1 cuts nothing, however small
        ([1.0, 3.0, 3.0], {"temperature": 0}, [0, 1, 0]),
        ([1.0, 3.0, 2.0], {"temperature": 1e-300}, [0, 1, 0]),
        ([1.0, 3.0, 3.0], {"temperature": 5e-324, "top_k": 3, "top_p": 0.9}, [0, 0.5, 0.5]),
        ([-math.inf, 0.0, 0.0], {"top_k": 3}, [0, 0.5, 0.5]),
        ([1e30, -1e30], {}, [1, 0]),
    ],
)
def test_limits_of_the_distribution(logits: list[float], settings: dict[str, float], want: list[float]) -> None:
    logits64 = torch.tensor([logits], dtype=torch.float64)
    assert probabilities(logits64, Sampling(**settings))[0].tolist() == pytest.approx(want, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.5, "top_k": 6}, {"top_p": 0.8}])
def test_draws_follow_the_distribution(settings: dict[str, float]) -> None:
    sampling, count = Sampling(**settings), 20_000
    logits = torch.randn(1, 9, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    p = probabilities(logits, sampling)[0]
    ids = draw(logits.expand(count, -1), sampling, torch.Generator().manual_seed(2))
    seen = torch.bincount(ids, minlength=9).double()
    assert seen[p == 0].sum() == 0
    possible = p > 0
    chi2 = ((seen - count * p)[possible] ** 2 / (count * p[possible])).sum()
    freedom = int(possible.sum()) - 1
    assert chi2 < freedom + 4 * math.sqrt(2 * freedom)


def test_what_is_impossible_is_never_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.full((4000, 5), -math.inf)
    logits[:, 2] = logits[:, 3] = 0.0
    ids = draw(logits, Sampling(), torch.Generator().manual_seed(0))
    assert set(ids.tolist()) == {2, 3}
    for u, id in ((0.0, 2), (0.5, 3), (1 - 2**-53, 3)):  # where the cumulated law has a step, and the largest u
        monkeypatch.setattr(torch, "rand", lambda n, *_, u=u, **settings: torch.full((n, 1), u, dtype=torch.float64))
        assert set(draw(logits, Sampling(), torch.Generator()).tolist()) == {id}


def test_a_seed_gives_the_same_ids_and_rounding_of_the_type_does_not_matter() -> None:
    logits = torch.randn(50, 30, generator=torch.Generator().manual_seed(5)).bfloat16()
    first, again, wide = (
        draw(z, Sampling(top_p=0.9), torch.Generator().manual_seed(4)) for z in (logits, logits, logits.double())
    )
    assert first.tolist() == again.tolist() == wide.tolist()
    assert first.dtype == torch.long
    assert first.tolist() != draw(logits, Sampling(top_p=0.9), torch.Generator().manual_seed(6)).tolist()


def test_greedy_takes_the_lowest_of_equal_ids_and_no_randomness() -> None:
    generator = torch.Generator().manual_seed(0)
    before = generator.get_state()
    logits = torch.tensor([[1.0, 5.0, 5.0], [2.0, 2.0, 2.0]])
    assert draw(logits, Sampling(temperature=0, top_k=2, top_p=0.5), generator).tolist() == [1, 0]
    assert torch.equal(generator.get_state(), before)


@pytest.mark.parametrize("settings", [{}, {"top_k": 2, "top_p": 0.5}])
def test_the_logits_stay_and_so_does_the_global_randomness(settings: dict[str, float]) -> None:
    logits = torch.randn(3, 8, dtype=torch.float64)
    copy, state = logits.clone(), torch.get_rng_state()
    draw(logits, Sampling(**settings), torch.Generator().manual_seed(0))
    assert torch.equal(logits, copy)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("row", [[math.nan, 0.0], [math.inf, 0.0], [-math.inf, -math.inf]])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_broken_logits_are_an_error(row: list[float], temperature: float) -> None:
    with pytest.raises(ValueError, match=r"^the model's logits are not finite.*checkpoint$"):
        probabilities(torch.tensor([[0.0, 1.0], row]), Sampling(temperature=temperature))


@pytest.mark.parametrize(
    ("name", "value"),
    [("temperature", v) for v in (-0.1, math.nan, math.inf)]
    + [("top_k", v) for v in (0, -1, 1.5, math.nan)]
    + [("top_p", v) for v in (0.0, -0.5, 1.01, math.nan)],
)
def test_settings_out_of_range_are_errors_of_one_line(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{name}: .*{value}$"):
        read(Sampling, {name: value})


def test_settings_are_frozen_and_know_their_names() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Sampling().temperature = 2.0  # type: ignore[misc]
    with pytest.raises(ValueError, match="did you mean 'top_p'"):
        read(Sampling, {"topp": 0.5})
