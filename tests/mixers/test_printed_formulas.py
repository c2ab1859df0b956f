"""Seeds 001 and 004 to the letter against the papers they describe: where a reader who builds the print goes wrong.

docs/errata.md has the list. State spaces are in test_printed_formulas_state_spaces.py, attention in ..._attention.py.
"""

import math

import numpy as np
import pytest

from seqloom.mixers import mixer_config
from tests.mixers.recurrences import aft, hyena, linear, performer, printed, retention, rwkv
from tests.mixers.recurrences.arithmetic import Array, dot

T, D = 6, 4
RNG = np.random.default_rng(5)
Q, K, V = (RNG.normal(size=(T, D)) * 0.7 for _ in range(3))
BIASES = RNG.normal(size=(T, T))
ONE = np.eye(D)


def near(a: Array, b: Array) -> bool:
    return bool(np.allclose(a, b, rtol=0, atol=1e-12))


def ungated(k: Array, v: Array, biases: Array) -> Array:
    """AFT-full of keys and values as they are, with a gate of 1/2 taken off again."""
    w = {"w_q": np.zeros((2 * D, D)), "w_k": np.eye(2 * D)[:, :D], "w_v": np.eye(2 * D)[:, D:], "biases": biases}
    return 2 * aft.aft_full(np.concatenate([k, v], 1), w)


def wkv(k: Array, v: Array, w: float, u: float) -> Array:
    return rwkv.wkv_as_a_sum(k[:, None], v[:, None], np.array([w]), np.array([u]))[:, 0]


def averaged(q: Array, k: Array, v: Array) -> Array:
    """The linear Transformer's causal mean of one head."""
    return performer.averaged([linear.phi(row) for row in q], [linear.phi(row) for row in k], v)


def test_001_eq_6_gives_a_token_one_key() -> None:
    """Printed: k_m is a scalar. AFT's K is a matrix: each channel weights the tokens separately."""
    right = ungated(K, V, BIASES)
    assert not any(near(printed.aft_001_eq_6(K[:, c], V, BIASES.T), right) for c in range(D))
    for c in range(D):
        assert near(printed.aft_001_eq_6(K[:, c], V, BIASES.T)[:, c], right[:, c])


def test_001_eq_7_sums_over_the_wrong_index() -> None:
    """Printed: the sum below runs over n with m free. Weights do not add up to 1, whatever m is."""
    same = np.ones((T, D))
    assert near(ungated(K, same, BIASES), same)
    for m in (lambda n: n, lambda n: 0):
        assert not near(printed.aft_001_eq_7(K[:, 0], same, BIASES.T, m), same)


def test_001_eq_8_has_a_key_of_no_token() -> None:
    """Printed: k_j below, where nothing binds j. Only j = m makes it a mean."""
    same = np.ones((T, D))
    for j, means in ((lambda n, m: m, True), (lambda n, m: n, False), (lambda n, m: 0, False)):
        assert near(printed.rwkv_001_eq_8_9(K[:, 0], same, 0.5, 0.3, j), same) is means


def test_001_eq_8_gives_a_token_one_key() -> None:
    """Printed: k_m is a scalar, as in Eq. 6. RWKV's keys are vectors: each channel weights the tokens separately."""
    right = rwkv.wkv_as_a_sum(K, V, np.full(D, 0.5), np.full(D, 0.3))
    for c in range(D):
        result = printed.rwkv_001_eq_8_9(K[:, c], V, 0.5, 0.5 - 0.3, lambda n, m: m)
        assert near(result[:, c], right[:, c])
        assert not near(result, right)


def test_001_eq_9_needs_the_decay_in_alpha() -> None:
    """Printed: distance n-m, α for the token itself. RWKV counts n-1-m: α = w - u makes them one, α = -u does not."""
    k, v, w, u = K[:, 0], V[:, :1], 0.5, 0.3
    right = wkv(k, v[:, 0], w, u)[:, None]
    assert near(printed.rwkv_001_eq_8_9(k, v, w, w - u, lambda n, m: m), right)
    assert not near(printed.rwkv_001_eq_8_9(k, v, w, -u, lambda n, m: m), right)


def test_001_eq_9_has_one_decay_for_all_channels() -> None:
    """Printed: ω and α are scalars. RWKV's are vectors, and no scalar does for two channels."""
    decay, bonus = np.array([0.1, 0.5, 1.0, 2.0]), np.array([0.3, -0.2, 0.1, 0.0])
    right = rwkv.wkv_as_a_sum(K, V, decay, bonus)
    for c in range(D):
        every = rwkv.wkv_as_a_sum(K, V, np.full(D, decay[c]), np.full(D, bonus[c]))
        assert near(every[:, c], right[:, c])
        assert not near(every, right)


def test_001_conclusion_claims_that_inference_of_rwkv_grows() -> None:
    """Two sums a channel are enough for the next token, at any length; AFT-full reads what it kept of all of them."""
    decay, bonus = np.array([0.1, 0.5, 1.0, 2.0]), np.array([0.3, -0.2, 0.1, 0.0])
    assert near(rwkv.wkv_as_a_recurrence(K, V, decay, bonus), rwkv.wkv_as_a_sum(K, V, decay, bonus))
    for kind, grows in (("rwkv", False), ("aft_full", True)):
        mixer = mixer_config({"kind": kind}).build(dim=8, context=1000)
        near_, far = (mixer.cost(position, per="token") for position in (10, 1000))
        assert ((far.total > near_.total), (far.state > near_.state)) == (grows, grows)


def test_001_eq_10_is_normalised_by_the_future() -> None:
    """Printed: the sum below to N. A later key changes an earlier output, and weights do not add up to 1."""

    def sim(a: Array, b: Array) -> float:
        return dot(linear.phi(a), linear.phi(b))

    same, later = np.ones((T, D)), K.copy()
    later[-1] += 1
    result = printed.kernel_001_eq_10(Q, K, same, sim)
    assert not near(result, same)
    assert near(result[-1], same[-1])
    assert not near(printed.kernel_001_eq_10(Q, later, same, sim)[0], result[0])
    assert near(averaged(Q, K, same), same)


def test_001_eq_11_asks_with_the_wrong_query() -> None:
    """Printed: z[q_m]. A token's own query then does not change what it reads: it must be z[q_n]."""
    result, other = printed.kernel_001_eq_11(Q, K, V, linear.phi), Q.copy()
    assert not near(result, averaged(Q, K, V))
    other[-1] = -other[-1]
    before = averaged(Q, K, V)
    assert not near(averaged(other, K, V)[-1], before[-1])
    assert near(averaged(other, K, V)[:-1], before[:-1])
    flat = np.repeat(V[:1], T, 0)
    assert near(printed.kernel_001_eq_11(Q, K, flat, linear.phi), flat)  # still a mean: only whose query is wrong


def test_001_eq_21_cannot_have_gamma_0() -> None:
    """Printed: γ in [0, 1], learned. γ^{-m} does not exist at 0; RetNet's γ are fixed, 31/32 the smallest."""
    assert near(
        printed.retention_001_eq_20(Q, K, V, 0.0), np.array([dot(a, b) * c for a, b, c in zip(Q, K, V, strict=True)])
    )
    with pytest.raises(ZeroDivisionError):
        0.0**-(1.0)
    with np.errstate(all="ignore"):
        assert not np.isfinite(printed.retention_001_eq_22(Q, K, V, np.float64(0), ordered=True)).any()


def test_001_eq_20_calls_fixed_numbers_learned() -> None:
    """Said: θ and γ are learned. RetNet fixes both: γ_h = 1 - 2^{-5-h}; only matrices are learned."""
    mixer = mixer_config({"kind": "retention", "heads": 2}).build(dim=8, context=None)
    assert all(parameter.ndim == 2 for parameter in mixer.parameters())


def test_001_eq_22_multiplies_in_the_wrong_order() -> None:
    """Printed: a_n q_n. With a = Σ kᵀv it is q_n a_n; the other product is Σ (v·q) k."""
    right = printed.retention_001_eq_20(Q, K, V, 0.9)
    assert near(printed.retention_001_eq_22(Q, K, V, np.float64(0.9), ordered=True), right)
    result = printed.retention_001_eq_22(Q, K, V, np.float64(0.9), ordered=False)
    assert not near(result, right)
    assert near(result, printed.retention_001_eq_20(Q, V, K, 0.9))


@pytest.mark.parametrize(("kind", "term", "total"), [(np.float16, 350, 240), (np.float32, 2795, 2686)])
def test_001_eq_22_overflows(kind: type[np.floating], term: int, total: int) -> None:
    """Printed: a sum of γ^{-n} kᵀv. For γ = 31/32 it leaves the numbers; S_n = γ S_{n-1} + kᵀv does not."""
    gamma, one = kind(31 / 32), np.ones((term, 1))
    with np.errstate(all="ignore"):
        assert np.isfinite(gamma ** -kind(term - 1))
        assert not np.isfinite(gamma ** -kind(term))
        result = printed.retention_001_eq_22(one, one, one, gamma, ordered=True)[:, 0]
    assert np.isfinite(result).argmin() + 1 == pytest.approx(total, abs=2)
    state = kind(0)
    for _ in range(term):
        state = gamma * state + kind(1)
    assert state == pytest.approx(32, rel=0.05)


def test_001_normalisation_of_retention_changes_the_output() -> None:
    """Said: the three normalisations do not change the output. That is so for GroupNorm's ε = 0 alone."""
    row = V[0] * 1e-2
    assert near(retention.normalised(row, 0.0), retention.normalised(row / 7, 0.0))
    assert not near(retention.normalised(row, 1e-5), retention.normalised(row / 7, 1e-5))


def test_004_eq_10_is_one_feature() -> None:
    """Printed: one ω. Eq. 12 with one feature does not read the query at all; the paper has m of them."""
    omega = RNG.normal(size=D)
    feature = [np.array([printed.phi_004_eq_10(row, omega)]) for row in K]
    one, other = ([np.array([printed.phi_004_eq_10(row, omega)]) for row in q] for q in (Q, -Q))
    assert near(performer.averaged(one, feature, V), performer.averaged(other, feature, V))
    many = RNG.normal(size=(8, D))
    q, k, minus = ([performer.phi(row, many) for row in rows] for rows in (Q, K, -Q))
    assert not near(performer.averaged(q, k, V), performer.averaged(minus, k, V))


def test_004_eq_9_and_10_forget_the_temperature() -> None:
    """Printed: e^{q·k}. Attention, its own Eq. 13, has e^{q·k/√d}: q and k must be divided by d^{1/4} first."""
    many = RNG.normal(size=(200_000, D))
    scaled = np.exp(many @ (Q[0] + K[0]) / D**0.25 - (dot(Q[0], Q[0]) + dot(K[0], K[0])) / 2 / D**0.5).mean()
    plain = np.exp(many @ (Q[0] + K[0]) - (dot(Q[0], Q[0]) + dot(K[0], K[0])) / 2).mean()
    assert plain == pytest.approx(math.exp(dot(Q[0], K[0])), rel=0.05)
    assert scaled == pytest.approx(math.exp(dot(Q[0], K[0]) / math.sqrt(D)), rel=0.02)
    assert abs(plain / scaled - 1) > 0.1


def test_004_eq_11_is_no_mean() -> None:
    """Printed: Φ(Q)(Φ(K)ᵀV) alone. Eq. 12 divides, and only then do equal values stay what they are."""
    many, same = RNG.normal(size=(8, D)), np.ones((T, D))
    q, k = ([performer.phi(row, many) for row in rows] for rows in (Q, K))
    assert not near(printed.performer_004_eq_11(Q, K, same, lambda row: performer.phi(row, many)), same)
    assert near(performer.averaged(q, k, same), same)


def test_004_eq_16_reads_the_future() -> None:
    """Printed: sums to T. As a language model it would see the token that it is to foretell."""
    w = {"w_q": np.eye(3 * D)[:, :D], "w_k": np.eye(3 * D)[:, D : 2 * D], "w_v": np.eye(3 * D)[:, 2 * D :]}
    right = aft.aft_full(np.concatenate([Q, K, V], 1), w | {"biases": BIASES})
    result, later = printed.aft_004_eq_16(Q, K, V, BIASES), V.copy()
    later[-1] += 1
    assert near(result[-1], right[-1])
    assert not near(printed.aft_004_eq_16(Q, K, later, BIASES)[0], result[0])
    assert near(aft.aft_full(np.concatenate([Q, K, later], 1), w | {"biases": BIASES})[:-1], right[:-1])


def test_004_eq_19_grows_with_distance() -> None:
    """Printed: -(t-1-j) w_tj with w_tj = -(t-j) w. From step 3 on old tokens gain: their weights leave the numbers."""
    k, v, w, u = K[:, 0], V[:, 0], 0.5, 0.3
    right, result = wkv(k, v, w, u), printed.rwkv_004_eq_18_19(k, v, w, u, lambda t: t)
    assert near(result[:2], right[:2])
    assert not np.isclose(result[2:], right[2:], rtol=0, atol=1e-3).any()
    marks = np.array([1.0, *np.zeros(19)])
    assert printed.rwkv_004_eq_18_19(np.zeros(20), marks, w, u, lambda t: t)[-1] > 0.999
    assert wkv(np.zeros(20), marks, w, u)[-1] < 1e-4
    assert np.isfinite(printed.rwkv_004_eq_18_19(np.zeros(39), np.zeros(39), w, u, lambda t: t)).all()
    with pytest.raises(OverflowError):
        printed.rwkv_004_eq_18_19(np.zeros(40), np.zeros(40), w, u, lambda t: t)


def test_004_eq_19_gives_the_bonus_to_no_token() -> None:
    """Printed: e^{k_j + u_t} outside the sum, where j is unbound. It is the token's own key; u has no time."""
    k, v = K[:, 0], V[:, 0]
    right, result = wkv(k, v, 0.5, 0.3), printed.rwkv_004_eq_18_19(k, v, 0.5, 0.3, lambda t: max(t - 1, 1))
    assert np.isclose(result[0], right[0])
    assert not np.isclose(result[1], right[1], rtol=0, atol=1e-3)


def test_004_eq_19_has_a_bonus_for_each_step() -> None:
    """Printed: u_t. RWKV's u has a number for each channel: what is right for one is wrong for two."""
    w, bonus = 0.5, np.array([0.3, -0.2])
    right = rwkv.wkv_as_a_sum(K[:, :2], V[:, :2], np.full(2, w), bonus)
    for c in range(2):
        of_steps = [printed.rwkv_004_eq_18_19(K[:2, i], V[:2, i], w, np.full(2, bonus[c]), lambda t: t) for i in (0, 1)]
        assert [near(result, right[:2, i]) for i, result in enumerate(of_steps)] == [c == 0, c == 1]


def test_004_eq_21_adds_a_key_to_an_exponential() -> None:
    """Printed below: b + e^u + k. Right: b + e^{u+k}. The first output must be the first value."""
    k, v = K[:, 0], V[:, 0]
    right = wkv(k, v, 0.5, 0.3)
    assert np.isclose(right[0], v[0])
    assert not np.isclose(printed.rwkv_004_eq_21(k, v, 0.5, 0.3), right, rtol=0, atol=1e-4).any()
    with np.errstate(all="ignore"):
        assert np.isinf(printed.rwkv_004_eq_21(-np.ones(1), np.ones(1), 0.5, 0.0))


def channel_weights() -> dict[str, Array]:
    shapes = {"w_r": (D, D), "w_k": (D, 4 * D), "w_v": (4 * D, D)}
    rng = np.random.default_rng(1)
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def test_004_eq_22_reads_no_token_but_its_own() -> None:
    """Printed: W x_t. The inputs are shifted, as Eq. 17 has it; the print is the case μ = 1."""
    w, mu = channel_weights(), np.full(D, 0.4)
    result = printed.channel_mixing_004_eq_22(V, w)
    assert near(result, rwkv.channel_mixing(V, w | {"mu_r": np.ones(D), "mu_k": np.ones(D)}))
    right = rwkv.channel_mixing(V, w | {"mu_r": mu, "mu_k": mu})
    assert not np.isclose(result, right, rtol=0, atol=1e-3).all(1).any()


def test_004_eq_23_loses_both_residuals() -> None:
    """Printed: the stream is the shifted input, and time mixing is not added. Right: x + TimeMix, + ChannelMix."""

    def nothing(x: Array) -> Array:
        return np.zeros_like(x)

    mu = np.full(D, 0.4)
    assert not near(printed.block_004_eq_23(V, mu, nothing, nothing), V)
    assert near(printed.block_004_eq_23(V, mu, np.exp, nothing), printed.block_004_eq_23(V, mu, nothing, nothing))


def test_004_receptance_remembers_two_tokens() -> None:
    """Said: r accumulates the prior steps. It is a product of the token and the one before; wkv is the memory."""
    other = V.copy()
    other[0] += 1
    r, changed = (rwkv.shifted(x, np.full(D, 0.4)) @ ONE for x in (V, other))
    assert near(r[2:], changed[2:])
    assert not near(r[1], changed[1])


def test_000_hyena_takes_products_that_are_convolutions() -> None:
    """Said: convolutions in time and in frequency by turns. So it is: a product has the convolved spectra, by 1/T."""
    x, u = V[:, 0], K[:, 0]
    spectra = np.fft.fft(x), np.fft.fft(u)
    turned = np.array([sum(spectra[0][i] * spectra[1][(n - i) % T] for i in range(T)) for n in range(T)])
    assert near(np.fft.fft(x * u), turned / T)
    delta = np.eye(T)[:, :1]
    assert near(hyena.operator([x[:, None]], u[:, None], [delta], np.zeros((1, 1)))[:, 0], x * u)
