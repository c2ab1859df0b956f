"""Learn then Test: p-values by hand, the order of tests, the guarantee over resamples, a model's thresholds."""

import math
from typing import Any

import numpy as np
import pytest

import seqloom
from seqloom.core.progress import show_nothing
from seqloom.data.tokens import Tokens
from seqloom.evaluation.calibration import calibrate, count_rejected, p_values

VOCAB = 11


def texts(count: int, length: int = 7) -> Tokens:
    ids = np.random.default_rng(0).integers(1, VOCAB, (count, length))
    ids[:, -1] = 0
    starts = np.arange(count) * length
    return Tokens(ids.flatten().astype("<u2"), starts.astype(np.int64), np.full(count, length, np.int64))


def test_p_values_and_their_order_by_hand() -> None:
    losses = np.array([[0.0, 0.1, 0.2], [0.0, 0.0, 0.4]])
    expected = [math.exp(-2 * 2 * 0.2**2), math.exp(-2 * 2 * 0.15**2), 1.0]
    np.testing.assert_allclose(p_values(losses, 0.2), expected)
    assert count_rejected(np.array([0.01, 0.04, 0.2, 0.001]), 0.05) == 2, "what follows the first failure is not tested"
    assert count_rejected(np.array([0.06, 0.01]), 0.05) == 0
    assert count_rejected(np.array([0.01, 0.02]), 0.05) == 2


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.05, 0.3])
def test_the_promise_over_resamples(epsilon: float) -> None:
    """Of 1,000 draws of 600 texts, at most a share ε chooses a threshold whose true loss is above δ; some choose well.

    The expected losses lie close to δ on both sides, where a mistake is likeliest.
    """
    delta, generator = 0.1, np.random.default_rng(3)
    true = np.array([0.0, 0.02, 0.05, 0.08, 0.095, 0.101, 0.11, 0.15])
    failures = chosen = 0
    for _ in range(1000):
        losses = generator.random((600, 1)) < true  # all or nothing, and the same texts for all thresholds
        valid = count_rejected(p_values(losses.astype(float), delta), epsilon)
        failures += bool(valid) and true[valid - 1] > delta
        chosen += bool(valid) and true[valid - 1] >= 0.02
    assert failures <= 1000 * epsilon
    assert chosen > 300
    careless = sum(
        bool(valid := int(((generator.random((600, 1)) < true).mean(0) <= delta).sum())) and true[valid - 1] > delta
        for _ in range(1000)
    )
    assert careless > 1000 * epsilon, "a mean below δ alone would not do"


@pytest.mark.slow
def test_a_model_and_its_texts() -> None:
    model = seqloom.decoder("he", vocab=VOCAB, dim=8, depth=3, context=16, ffn=16, position="none", std=0.5).eval()
    asked = {"thresholds": [1.0, 0.5, 0.0], "by": "state", "longest": 6, "show": show_nothing}
    result = calibrate(model, texts(40), delta=0.5, epsilon=0.2, **asked)
    assert result.depths[0] >= result.depths[1] >= result.depths[2] >= 1
    assert result.losses[0] <= result.losses[2]
    assert result.texts == 40
    assert result.chosen in (None, 1.0, 0.5, 0.0)
    losses = np.array(result.losses)
    np.testing.assert_allclose(result.p, np.exp(-80 * np.maximum(0, 0.5 - losses) ** 2), rtol=1e-6)
    few = calibrate(model, texts(2), delta=0.1, epsilon=0.01, **asked)
    assert few.chosen is None, "two texts vouch for nothing"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"delta": 0.0}, "delta lies between 0 and 1, and is 0.0"),
        ({"epsilon": 1.0}, "epsilon lies between 0 and 1, and is 1.0"),
        ({"epsilon": math.nan}, "epsilon lies between 0 and 1, and is nan"),
        ({"thresholds": [0.5, 0.9]}, "from the highest on"),
        ({"thresholds": []}, "give at least one"),
        ({"thresholds": [1.5]}, "the threshold of exits is from 0 to 1, not 1.5"),
        ({"by": "sure"}, "unknown measure 'sure'"),
    ],
)
def test_impossible_settings_of_calibration(changes: dict[str, Any], words: str) -> None:
    model = seqloom.decoder("he", vocab=VOCAB, dim=8, depth=2, context=16, ffn=16).eval()
    asked: dict[str, Any] = {"thresholds": [1.0], "delta": 0.1, "epsilon": 0.1, "show": show_nothing}
    with pytest.raises(ValueError, match=words):
        calibrate(model, texts(2), **{**asked, **changes})
