"""The whole model of `xlstm/small` against the authors' program (xlstm 2.0.6) without the sLSTM block's feed-forward.

Weights are copied, in float64: logits, those of single steps, and the gradient of every parameter. Theirs go through
1e-6 e^{m}, so gradients agree less closely: within 1e-6 of the largest.
"""

import pytest
import torch
from torch import Tensor, nn

from seqloom.core.model import Model
from seqloom.models.kinds import model_config
from seqloom.training.recipes import recipe
from tests.models.drawing import ids

VOCAB, D, CONTEXT, H = 13, 32, 12, 4
CENTRED = ("gain", "norm_1.weight", "norm.weight")
"""the ends of our names of what is 1 + weight there"""


def peer(slstm_at: list[int], depth: int) -> nn.Module:
    """The authors' model, with weights large enough to be seen."""
    xlstm = pytest.importorskip("xlstm")
    mlstm = xlstm.mLSTMBlockConfig(mlstm=xlstm.mLSTMLayerConfig(num_heads=H))
    slstm = xlstm.sLSTMLayerConfig(num_heads=H, backend="vanilla")
    sizes = {"vocab_size": VOCAB, "embedding_dim": D, "num_blocks": depth, "context_length": CONTEXT}
    blocks = {"mlstm_block": mlstm, "slstm_block": xlstm.sLSTMBlockConfig(slstm=slstm, feedforward=None)}
    model: nn.Module = xlstm.xLSTMLMModel(xlstm.xLSTMLMModelConfig(**sizes, **blocks, slstm_at=slstm_at)).double()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model.eval()


def translated(theirs: dict[str, Tensor], kinds: list[str]) -> dict[str, Tensor]:
    """Their tensors by our names, gains as theirs: less 1."""
    stack = "xlstm_block_stack."
    result = {"token.weight": theirs["token_embedding.weight"], "head.weight": theirs["lm_head.weight"]}
    result["norm.weight"] = theirs[f"{stack}post_blocks_norm.weight"]
    for layer, kind in enumerate(kinds):
        start = f"{stack}blocks.{layer}."
        result[f"layers.{layer}.norm_1.weight"] = theirs[f"{start}xlstm_norm.weight"]
        inside = {name.removeprefix(f"{start}xlstm."): tensor for name, tensor in theirs.items()}
        own = of_mlstm(inside) if kind == "mlstm" else of_slstm(inside)
        result |= {f"layers.{layer}.mixer.{name}": tensor for name, tensor in own.items()}
    return result


def of_mlstm(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    gates = {part: [theirs[f"mlstm_cell.{gate}.{part}"] for gate in ("igate", "fgate")] for part in ("weight", "bias")}
    return {
        "w_up.weight": theirs["proj_up.weight"],
        "w_down.weight": theirs["proj_down.weight"],
        "conv.weight": theirs["conv1d.conv.weight"][:, 0].flip(1).T,
        "conv.bias": theirs["conv1d.conv.bias"],
        "qkv": torch.stack([theirs[f"{name}_proj.weight"].mT for name in "qkv"]),
        "w_gates.weight": torch.cat(gates["weight"]),
        "w_gates.bias": torch.cat(gates["bias"]),
        "gain": theirs["mlstm_cell.outnorm.weight"],
        "skip": theirs["learnable_skip"],
    }


def of_slstm(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        "conv.weight": theirs["conv1d.conv.weight"][:, 0].flip(1).T,
        "conv.bias": theirs["conv1d.conv.bias"],
        "w_if.weight": torch.cat([theirs["fgate.weight"], theirs["igate.weight"]], 1).mT,  # fgate makes ĩ there
        "w_zo.weight": torch.cat([theirs["zgate.weight"], theirs["ogate.weight"]], 1).mT,
        "w_h.weight": theirs["slstm_cell._recurrent_kernel_"].mT,
        "w_h.bias": theirs["slstm_cell._bias_"].view(4, H, D // H).transpose(0, 1).flatten(1),
        "gain": theirs["group_norm.weight"],
    }


def ours() -> Model:
    values = recipe("xlstm/small")["model"]
    sizes = {"vocab": VOCAB, "dim": D, "context": CONTEXT, "position": {"kind": values["position"]}}
    return model_config({**values, **sizes}).build().double()


def test_the_model_of_the_recipe_is_the_authors() -> None:
    model = ours()
    kinds = [mixer.kind for mixer in model.config.mixers]
    assert (kinds.count("mlstm"), kinds.count("slstm")) == (7, 1)
    other = peer([layer for layer, kind in enumerate(kinds) if kind == "slstm"], len(kinds))
    weights = translated(dict(other.named_parameters()), kinds)
    shared = {name: p for name, p in model.named_parameters() if name in weights}
    rest = {name for name, _ in model.named_parameters()} - shared.keys()
    assert shared.keys() == weights.keys()
    assert all("norm" in name and name.endswith(".bias") for name in rest)  # they have none, ours begin at 0
    with torch.no_grad():
        for name, parameter in shared.items():
            parameter.copy_(weights[name] + 1 if name.endswith(CENTRED) else weights[name])
    text, out = ids(2, CONTEXT), torch.randn(2, CONTEXT, VOCAB, generator=torch.Generator().manual_seed(1)).double()
    logits, expected = model(text), other(text)
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-10)
    for each in (logits, expected):
        (each * out).sum().backward()
    gradients = translated({name: p.grad for name, p in other.named_parameters() if p.grad is not None}, kinds)
    largest = max(float(gradient.abs().max()) for gradient in gradients.values())
    for name, parameter in shared.items():
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, gradients[name], rtol=0, atol=1e-6 * largest, msg=name)
    with torch.no_grad():
        state = model.start(2)
        for t in range(CONTEXT):
            step, state = model.step(text[:, t], state, reuse=True)
            torch.testing.assert_close(step, expected[:, t], rtol=0, atol=1e-10)
