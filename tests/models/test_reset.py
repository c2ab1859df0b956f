"""Fresh weights: plain projections are drawn, and a mixer initializes its other parameters."""

import torch
from torch import Tensor, nn

from seqloom.core.mixer import Traits
from seqloom.core.state import Entries, State
from seqloom.mixers.base import PackedMixer


class Own(PackedMixer):
    """A mixer with a norm, a bias and a decay of its own."""

    traits = Traits(causal="always", streams=True, state="none")

    def __init__(self) -> None:
        super().__init__()
        self.dim, self.norm, self.w = 64, nn.LayerNorm(64), nn.Linear(64, 64)
        self.decay = nn.Parameter(torch.linspace(0.9, 0.999, 64))

    def mix(self, x: Tensor, state: State | None = None, lengths: Tensor | None = None) -> tuple[Tensor, Entries]:
        return self.w(self.norm(x)) * self.decay, {}


def test_a_mixers_own_parameters_stay() -> None:
    mixer = Own()
    decay = mixer.decay.clone()
    with torch.no_grad():
        mixer.norm.weight.fill_(3.0)
        mixer.w.bias.fill_(3.0)
    mixer.reset(0.01)
    assert mixer.decay.equal(decay)
    assert mixer.norm.weight.equal(torch.ones(64))
    assert mixer.norm.bias.equal(torch.zeros(64))
    assert mixer.w.bias.equal(torch.zeros(64))
    assert 0.009 < float(mixer.w.weight.detach().std()) < 0.011
