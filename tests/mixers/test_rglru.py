"""RG-LRU's first tokens, what it begins with, and gates at the ends of their range.

Griffin's recurrent block, number by number, in the paper's letters.

    r_t = σ(W_a u_t + b_a),  i_t = σ(W_x u_t + b_x)                                                  Eq. 1, 2
    a = σ(Λ),  a_t = a^{c r_t},  c = 8                                                               Eq. 3
    h_t = a_t h_{t-1} + √(1 - a_t²) (i_t u_t),   with 1 for the root at t = 1                        Eq. 4
    out = (h ∘ GeLU(x W_y + b_y)) W_o + b_o,   u the convolution of x W_x + b_x                      section 2.3

Source: De et al., arXiv:2402.19427; the 1 and GeLU by tanh from the authors' recurrentgemma.
"""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from tests.mixers.equation import Case, check_equation
from tests.mixers.peers import DIM, MLP, check_cached_tokens, check_peer, strengthened, taps
from tests.mixers.recurrences.activations import each
from tests.mixers.recurrences.arithmetic import Array, Weights, cut, projected, sigmoid
from tests.mixers.recurrences.mamba import convolved


def built(dtype: torch.dtype = torch.float32) -> Mixer:
    torch.manual_seed(3)
    return mixer_config({"kind": "rglru", "heads": 2}).build(8, None).to(dtype)


def draw(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)


@torch.no_grad()
def test_the_first_token_is_each_rows_own() -> None:
    """Rows of one state that have read different numbers of tokens, one of them none."""
    mixer, x = built(torch.float64), draw(3, 6, 8)
    keep = torch.tensor([[False, False, False], [True, False, False], [True, True, True]])
    _, state = mixer.extend(x[:, :3], mixer.start(3), keep)
    y, state = mixer.step(x[:, 3], state)
    rest, _ = mixer.extend(x[:, 4:], state)
    for row, kept in enumerate((0, 1, 3)):
        tokens = torch.cat([x[row, :kept], x[row, 3:]])
        expected = mixer(tokens[None])[0, kept:]
        torch.testing.assert_close(torch.cat([y[row, None], rest[row]]), expected, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_it_is_initialized_as_the_authors_program() -> None:
    mixer = mixer_config({"kind": "rglru", "width": 4096}).build(8, None)
    rate, gates = mixer.get_parameter("rate").detach(), mixer.get_parameter("gates.weight").detach()
    square = torch.exp(-2 * torch.nn.functional.softplus(rate.double()))
    assert 0.9**2 - 1e-6 <= float(square.min()) < 0.9**2 + 0.01
    assert 0.999**2 - 0.01 < float(square.max()) <= 0.999**2 + 1e-6
    assert float(square.mean()) == pytest.approx((0.9**2 + 0.999**2) / 2, abs=0.01)
    assert float(gates.std()) == pytest.approx(1024**-0.5, rel=0.05)
    assert float(mixer.get_parameter("conv.weight").detach().std()) == pytest.approx(0.05, rel=0.1)
    assert not mixer.get_parameter("gates.bias").any()
    assert not mixer.get_parameter("conv.bias").any()


@pytest.mark.parametrize("rate", [-1e4, 0.0, 1e4])
@pytest.mark.parametrize("logit", [-1e4, 1e4])
def test_decays_of_0_and_of_1(rate: float, logit: float) -> None:
    """Outputs and gradients are finite: the root of 1 - a² = 0 has a bounded derivative."""
    mixer = built()
    with torch.no_grad():
        mixer.get_parameter("rate").fill_(rate)
        mixer.get_parameter("gates.bias").fill_(logit)
    x = draw(1, 50, 8, dtype=torch.float32).requires_grad_()
    y = mixer(x)
    y.square().sum().backward()
    assert bool(y.isfinite().all())
    assert x.grad is not None
    assert bool(x.grad.isfinite().all())
    assert all(bool(parameter.grad.isfinite().all()) for parameter in mixer.parameters() if parameter.grad is not None)


@torch.no_grad()
def test_16384_tokens_that_leave_nothing() -> None:
    """e^{-80,000} per token is 0, and so is what is left of the tokens before; inputs of 1e4 are read."""
    mixer = built()
    mixer.get_parameter("rate").fill_(1e4)
    x = 1e4 * draw(1, 16384, 8, dtype=torch.float32)
    assert bool(mixer(x).isfinite().all())
    mixer.get_parameter("gates.bias").fill_(1e6)  # r = i = 1, so a = 0
    alone = mixer(torch.cat([torch.zeros_like(x[:, :-4]), x[:, -4:]], 1))[:, -1]
    torch.testing.assert_close(mixer(x)[:, -1], alone, rtol=0, atol=0)


def test_heads_of_rglru_that_do_not_divide() -> None:
    with pytest.raises(ValueError, match="8 channels of the recurrence are not divisible by heads 3"):
        mixer_config({"kind": "rglru", "heads": 3}).build(8, None)


C = 8


def gelu(z: float) -> float:
    return z / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))


def rglru(x: Array, w: Weights) -> Array:
    """x (T, D) -> (T, D); w["gates"] (2N, N, H) and w["b_gates"] (H, 2N): r's columns, then i's; w["taps"] (E, W)."""
    u = convolved(projected(x, w["w_x"]) + w["b_x"], w["taps"].T, w["b_taps"])
    branch = each(gelu, projected(x, w["w_y"]) + w["b_y"])
    h, (_, N, H) = np.zeros_like(u), w["gates"].shape
    for head in range(H):
        logits = projected(cut(u, head, H), w["gates"][:, :, head].T) + w["b_gates"][head]
        for n in range(N):
            channel, before = head * N + n, 0.0
            a = sigmoid(-w["rate"][channel])  # the paper's Λ is minus the program's
            for t in range(len(x)):
                a_t = a ** (C * sigmoid(logits[t, n]))
                root = math.sqrt(1 - a_t**2) if t else 1.0
                before = a_t * before + root * sigmoid(logits[t, N + n]) * u[t, channel]
                h[t, channel] = before
    return projected(h * branch, w["w_out"]) + w["b_out"]


LETTERS = {
    **{f"w_{name}.{part}": f"{of}_{name}" for name in "xy" for part, of in (("weight", "w"), ("bias", "b"))},
    **{"w_o.weight": "w_out", "w_o.bias": "b_out", "conv.weight": "taps", "conv.bias": "b_taps"},
    **{"gates.weight": "gates", "gates.bias": "b_gates", "rate": "rate"},
}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "rglru": ({"kind": "rglru", "heads": 2}, rglru),
    "rglru, wider": ({"kind": "rglru", "heads": 4, "width": 12, "kernel": 2}, rglru),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_rglru_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)


def griffin() -> tuple[nn.Module, Mixer, dict[str, Tensor]]:
    transformers = pytest.importorskip("transformers")
    from transformers.models.recurrent_gemma.modeling_recurrent_gemma import RecurrentGemmaRecurrentBlock

    H, E = 2, DIM
    config = transformers.RecurrentGemmaConfig(
        **{**MLP, "num_attention_heads": H, "lru_width": E, "num_hidden_layers": 2, "use_cache": False}
    )
    peer = OfPositions(strengthened(RecurrentGemmaRecurrentBlock(config, 0), config))
    theirs = dict(peer.named_parameters())
    names = {"w_y": "linear_y", "w_x": "linear_x", "w_o": "linear_out"}
    projections = {
        f"{ours}.{part}": theirs[f"block.{name}.{part}"] for ours, name in names.items() for part in ("weight", "bias")
    }
    gates = [f"block.rg_lru.{name}_gate" for name in ("recurrent", "input")]
    return (
        peer,
        mixer_config({"kind": "rglru", "heads": H}).build(DIM, None),
        {
            **projections,
            "conv.weight": taps(theirs["block.conv_1d.weight"]),
            "conv.bias": theirs["block.conv_1d.bias"],
            "gates.weight": torch.cat([theirs[f"{name}_weight"] for name in gates], 2),
            "gates.bias": torch.cat([theirs[f"{name}_bias"] for name in gates], 1),
            "rate": theirs["block.rg_lru.recurrent_param"],
        },
    )


class OfPositions(nn.Module):
    """A layer that wants positions, and keeps its cache to itself."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block
        self.settings = block.settings
        self.read = 0

    def forward(self, x: Tensor, cache_params: object = None) -> Tensor:
        first = 0 if cache_params is None else self.read
        positions = torch.arange(first, first + x.shape[1]).expand(len(x), -1)
        self.read = first + x.shape[1]
        return self.block(x, positions, None, use_cache=cache_params is not None)[0]


@pytest.mark.parametrize("T", [1, 7, 70])
def test_rglru_is_the_layer_of_transformers(T: int) -> None:
    check_peer(griffin, T)


def test_rglru_reads_cached_tokens_as_transformers() -> None:
    check_cached_tokens(griffin)
