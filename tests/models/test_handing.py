"""Tensors that a layer hands to later layers in the same pass, such as RWKV-7's first values: forward, extend, step."""

from typing import ClassVar, Literal, final

import pytest
import torch
from torch import Tensor

from seqloom.contracts.reading import pieces, token_steps
from seqloom.contracts.subject import Subject
from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer, Traits
from seqloom.core.mixer_config import MixerConfig
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.layers.linear import Linear
from seqloom.mixers.cross_layer import CrossLayerMixer, CrossLayerTensors
from seqloom.mixers.linear.linear import LinearConfig
from seqloom.mixers.state_space.spade import SpadeConfig
from seqloom.models.decoder import Decoder, DecoderConfig

DIM, VOCAB = 8, 11
TRAITS = Traits(causal="always", streams=True, state="constant")


@final
class FirstValues(CrossLayerMixer):
    """v_t = x_t W, s_t = Σ_{j≤t} (v_j + v_j of the first layer)."""

    traits = TRAITS

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim, self.w = dim, Linear(dim, dim, bias=False)

    @property
    def state_spec(self) -> StateSpec:
        return {"sum": StateEntry((self.dim,))}

    def mix_cross_layer(
        self, x: Tensor, handed: CrossLayerTensors, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Entries, CrossLayerTensors]:
        v = self.w(x)
        first = handed.get("values", v)
        y = (v + first).cumsum(1)
        if state is not None:
            y = y + state["sum"][:, None]  # padding is 0 and adds nothing
        return y, {"sum": y[:, -1].clone()}, {"values": first}


class FirstValuesConfig(MixerConfig):
    """Sums of values and of the first layer's values."""

    kind: Literal["first_values"] = "first_values"
    traits: ClassVar = TRAITS

    def make(self, layer: Layer) -> Mixer:
        return FirstValues(layer.dim)


def built(*mixers: MixerConfig) -> Decoder:
    torch.manual_seed(4)
    sizes = {"vocab": VOCAB, "dim": DIM, "depth": 4, "context": 12, "dropout": 0.0, "std": 0.3, "channel": "none"}
    return Decoder(DecoderConfig(**sizes, mixer=mixers)).double().eval()


MODELS = {"alone": (FirstValuesConfig(),), "beside another": (LinearConfig(heads=2), FirstValuesConfig())}


def test_later_layers_read_what_the_first_handed_over() -> None:
    model, ids = built(*MODELS["beside another"]), torch.randint(VOCAB, (2, 5))
    x = model._embed(ids, model._time(ids, torch.zeros(2, dtype=torch.long), None), None)
    first = None
    for block in model.blocks:
        normed = block.norm_1(x)
        if isinstance(block.mixer, FirstValues):
            v = block.mixer.w(normed)
            first = v if first is None else first
            x = x + (v + first).cumsum(1)
        else:
            x = x + block.mixer(normed)
    torch.testing.assert_close(model.features(ids), x)


@pytest.mark.parametrize("name", MODELS)
def test_it_is_the_same_through_pieces_steps_and_dropped_tokens(name: str) -> None:
    model, ids = built(*MODELS[name]), torch.randint(VOCAB, (2, 8))
    whole = model(ids)
    with torch.no_grad():
        logits, state = model.extend(ids[:, :3], model.start(2))
        result = [logits]
        for position in range(3, 6):
            logits, state = model.step(ids[:, position], state, reuse=position > 4)
            result.append(logits[:, None])
        result.append(model.extend(ids[:, 6:], state)[0])
    torch.testing.assert_close(torch.cat(result, 1), whole)
    keep = torch.tensor([[True, False, True, True, False, True, True, False], [False] * 3 + [True] * 5])
    for row in range(2):
        alone = model(ids[row, keep[row]][None])[0]
        torch.testing.assert_close(model(ids, keep)[row, keep[row]], alone)
        torch.testing.assert_close(model.extend(ids, model.start(2), keep)[0][row, keep[row]], alone)


def test_gradients_reach_the_first_layer_through_it() -> None:
    model, ids = built(FirstValuesConfig()), torch.randint(VOCAB, (2, 5))
    model(ids).square().sum().backward()
    mixer = model.blocks[0].mixer
    assert mixer.get_parameter("w.weight").grad.abs().sum() > 0


@pytest.mark.slow
def test_it_compiles() -> None:
    model, ids = built(FirstValuesConfig()), torch.randint(VOCAB, (2, 5))
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(ids), model(ids))


@pytest.mark.slow
@pytest.mark.parametrize("promise", [pieces, token_steps], ids=lambda promise: promise.__name__)
def test_alone_it_is_the_first_layer(promise) -> None:
    def make(context: int | None, dtype: torch.dtype, /) -> Mixer:
        torch.manual_seed(2)
        return FirstValuesConfig().build(DIM, context).to(dtype)

    assert promise(Subject("first_values", DIM, make)).verdict == "holds"
    mixer, x = make(6, torch.float64), torch.randn(2, 3, DIM, dtype=torch.float64)
    torch.testing.assert_close(mixer(x), 2 * x.cumsum(1) @ mixer.get_parameter("w.weight").T)


def test_a_mixer_of_two_cannot_pass_it_on() -> None:
    both = SpadeConfig(far=FirstValuesConfig(), near=LinearConfig(heads=2))
    with pytest.raises(ValueError, match="spade cannot pass on what first_values hands over to later layers"):
        both.build(DIM, 6)
