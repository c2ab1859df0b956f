"""A probe in the shapes that the training loop works with: a source of batches, and a model that answers at each place.

    batch (B, 2, T):  tokens, and beneath them the targets, `IGNORED` where nothing is asked
    y = decoder(tokens)                                                        answers at every place
    y_t = W (z_s + MLP([z_s, e_t])) + b,   s = summary, t > s                  where one place alone may answer

z: the decoder's stream after its last layer; e: an embedding of the place that is asked for. Source: the decoder of
MAD's compression task, arXiv:2403.17844, is an MLP over the sum of z and a sinusoidal e.
"""

from collections.abc import Mapping
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from seqloom.core.extras import Extras
from seqloom.core.mixer import Mixer
from seqloom.core.shapes import Logits
from seqloom.data.probes import Probe, Questions
from seqloom.models.decoder import Decoder, DecoderConfig

IGNORED = -100
"""a target that costs nothing: cross_entropy's own"""


@final
class Batches:
    """The rows of a probe as `data.windows.Windows` gives those of a text: a function of (seed, step) alone."""

    def __init__(self, probe: Probe, seed: int) -> None:
        self._probe, self._seed = probe, seed

    def batch(self, step: int, batch: int) -> Int[Tensor, "B 2 T"]:
        """The rows of one step, counted from 0: inputs are [:, :-1], targets [:, 1:]."""
        return stacked(self._probe.questions(self._seed, step, batch))


def stacked(asked: Questions) -> Int[Tensor, "B 2 T"]:
    """Questions as one tensor."""
    targets = np.where(asked.scored, asked.targets, IGNORED)
    return torch.from_numpy(np.stack([asked.tokens, targets], axis=1))


def reads(probe: Probe) -> int:
    """Tokens of a row that a model reads: all of them, or those up to the summary."""
    return probe.places if probe.summary is None else probe.summary + 1


@final
class Answers(nn.Module):
    """A decoder that answers a probe."""

    def __init__(self, config: DecoderConfig, probe: Probe) -> None:
        super().__init__()
        self.decoder = Decoder(config)
        self.unpack = None if probe.summary is None else Unpack(config.dim, probe.places - reads(probe))

    @property
    def token(self) -> nn.Embedding:
        """The decoder's embedding of tokens."""
        return self.decoder.token

    @property
    def halves(self) -> list[Mixer]:
        """See `Decoder.halves`."""
        return self.decoder.halves

    @property
    def loss_weights(self) -> Mapping[str, float]:
        """See `Decoder.loss_weights`."""
        return self.decoder.loss_weights

    def after_update(self, step: int, statistics: Mapping[str, Tensor]) -> None:
        """See `Decoder.after_update`."""
        self.decoder.after_update(step, statistics)

    def forward(self, ids: Int[Tensor, "B 1 T"]) -> Logits:
        """The logits of the answer at each place (B, T, W); 0 at places that a summary leaves nothing to say of."""
        return self.forward_with_extras(ids)[0]

    def forward_with_extras(self, ids: Int[Tensor, "B 1 T"]) -> tuple[Logits, Extras]:
        """`forward`, and the decoder's auxiliary losses and statistics."""
        tokens = ids[:, 0]
        if self.unpack is None:
            return self.decoder.forward_with_extras(tokens)
        read = tokens.shape[1] - self.unpack.places.num_embeddings
        features, extras = self.decoder.features_with_extras(tokens[:, :read])
        said = self.decoder.logits(self.unpack(features[:, -1]))
        return torch.cat([said.new_zeros(len(said), read, said.shape[2]), said], dim=1), extras


@final
class Unpack(nn.Module):
    """Draws what was asked for out of one place's channels."""

    def __init__(self, dim: int, places: int) -> None:
        super().__init__()
        self.places = nn.Embedding(places, dim)
        self.network = nn.Sequential(nn.Linear(2 * dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, z: Float[Tensor, "B D"]) -> Float[Tensor, "B T D"]:
        """From the channels of one place to those of all places that ask."""
        places = self.places.weight.expand(len(z), -1, -1)
        packed = z[:, None].expand_as(places)
        found: Tensor = packed + self.network(torch.cat([packed, places], dim=2))
        return found
