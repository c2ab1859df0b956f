"""Three small models with one tokenizer, untrained, as the tour shows them."""

from functools import cache

import torch

import seqloom
from seqloom.core.model import Model
from seqloom.data.stories import corpus
from seqloom.data.tokenizer import Tokenizer
from seqloom.tour.models import KINDS, Kind, Three

TEXT = "Once upon a time there was a poor girl"


@cache
def three() -> Three:
    """Dim 16, context 32, two layers."""
    tokenizer = Tokenizer.train(corpus(150, 1), 700)
    models: dict[Kind, Model] = {}
    for number, kind in enumerate(KINDS):
        torch.manual_seed(number)
        heads = {} if kind == "he" else {"heads": 2}
        model = seqloom.decoder(kind, vocab=700, dim=16, depth=2, context=32, position="none", **heads)
        models[kind] = model.eval()
    return Three(models, tokenizer, "a test")
