"""A Decision Transformer against that of `transformers`, weights copied: actions and the gradient of every weight.

Both in float64, for discrete actions (as unit vectors, without tanh) and for vectors. The peer's positions of GPT-2 are
0, which its forward takes for every token, and its predictions of states and returns have no gradient.
"""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from seqloom.data.episodes import Environment
from seqloom.models.decision import Decision
from seqloom.models.kinds import model_config
from seqloom.training.recipes import recipe

transformers = pytest.importorskip("transformers")
B, T, S, D, DEPTH, HEADS, WIDTH, LIMIT = 2, 6, 3, 16, 2, 4, 24, 11
TOP = {
    **{"token.weight": "embed_timestep.weight", "head.weight": "predict_action.0.weight"},
    **{"head.bias": "predict_action.0.bias", "norm.weight": "encoder.ln_f.weight", "norm.bias": "encoder.ln_f.bias"},
    **{f"embed_norm.{part}": f"embed_ln.{part}" for part in ("weight", "bias")},
    **{
        f"of_{what}.{part}": f"embed_{what}.{part}"
        for what in ("return", "state", "action")
        for part in ("weight", "bias")
    },
}
LAYER = {
    **{f"norm_{n}.{part}": f"ln_{n}.{part}" for n in (1, 2) for part in ("weight", "bias")},
    **{f"mixer.w_qkv.{part}": f"attn.c_attn.{part}" for part in ("weight", "bias")},
    **{f"mixer.w_out.{part}": f"attn.c_proj.{part}" for part in ("weight", "bias")},
    **{f"ffn.w_1.{part}": f"mlp.c_fc.{part}" for part in ("weight", "bias")},
    **{f"ffn.w_2.{part}": f"mlp.c_proj.{part}" for part in ("weight", "bias")},
}


def names() -> dict[str, str]:
    """Theirs by ours."""
    layers = {f"layers.{n}.{own}": f"encoder.h.{n}.{other}" for n in range(DEPTH) for own, other in LAYER.items()}
    return TOP | layers


def as_ours(name: str, tensor: Tensor) -> Tensor:
    """GPT-2's matrices are (inputs, outputs)."""
    return tensor.T if tensor.ndim == 2 and ".h." in name else tensor


def theirs(actions: int, continuous: bool) -> Any:
    config = transformers.DecisionTransformerConfig(
        state_dim=S,
        act_dim=actions,
        hidden_size=D,
        max_ep_len=LIMIT,
        action_tanh=continuous,
        n_layer=DEPTH,
        n_head=HEADS,
        n_inner=WIDTH,
        activation_function="relu",
        bos_token_id=0,
        eos_token_id=0,
    )
    model = transformers.DecisionTransformerModel(config).double().eval()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            drawn = 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            gain = "ln" in name and name.endswith("weight")
            parameter.copy_(0 * drawn if "wpe" in name else drawn + 1 if gain else drawn)
    return model


def ours(actions: int, continuous: bool) -> Decision:
    values = recipe("decision/cartpole")["model"]
    sizes = {"vocab": LIMIT, "dim": D, "depth": DEPTH, "context": T, "ffn": WIDTH, "dropout": 0.0}
    bounds = {"low": (-1.0,) * actions, "high": (1.0,) * actions} if continuous else {}
    environment = Environment(name="any", states=S, actions=actions, continuous=continuous, **bounds)
    further = {"environment": environment.model_dump(), "position": {"kind": "none"}}
    mixer = {"kind": "attention", "heads": HEADS, "bias": "all"}
    model = model_config({**values, **sizes, **further, "mixer": mixer}).build().double().eval()
    assert isinstance(model, Decision)
    return model


@pytest.mark.slow
@pytest.mark.parametrize(("actions", "continuous"), [(4, False), (2, True)], ids=["discrete", "continuous"])
def test_actions_and_gradients_are_the_peers(actions: int, continuous: bool) -> None:
    other, model = theirs(actions, continuous), ours(actions, continuous)
    given = dict(other.named_parameters())
    own = dict(model.named_parameters())
    assert own.keys() == names().keys()
    left = {name for name in given if name not in names().values()}
    assert {name.partition(".")[0] for name in left} == {"encoder", "predict_state", "predict_return"}
    assert sorted(name for name in left if name.startswith("encoder")) == ["encoder.wpe.weight", "encoder.wte.weight"]
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(as_ours(names()[name], given[names()[name]]))
    draws = torch.Generator().manual_seed(4)
    states = torch.randn(B, T, S, generator=draws, dtype=torch.float64)
    returns = torch.randn(B, T, generator=draws, dtype=torch.float64)
    times = torch.stack([torch.arange(T), torch.arange(3, 3 + T)])
    chosen = torch.randint(actions, (B, T), generator=draws)
    vectors = torch.rand(B, T, actions, generator=draws, dtype=torch.float64) * 2 - 1
    read = vectors if continuous else one_hot(chosen, actions).double()
    expected = other(states=states, actions=read, returns_to_go=returns[..., None], timesteps=times).action_preds
    actual = model(times, None, returns, states, vectors if continuous else chosen)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-11)
    out = torch.randn(actual.shape, generator=draws, dtype=torch.float64)
    for each in (actual, expected):
        (each * out).sum().backward()
    for name, parameter in own.items():
        slope = given[names()[name]].grad
        assert parameter.grad is not None
        assert slope is not None
        torch.testing.assert_close(parameter.grad, as_ours(names()[name], slope), rtol=1e-9, atol=1e-10, msg=name)
