"""Values by which a text is written: which go together, a search for the best text, and the neighbors of a store."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seqloom.core.progress import show_nothing
from seqloom.data.tokens import Tokens
from seqloom.generation.beams import Beams, beam_search
from seqloom.generation.decode import generate
from seqloom.generation.drafting import Draft
from seqloom.generation.draws import tokens
from seqloom.generation.exits import Exits
from seqloom.generation.sample import Sampling
from seqloom.generation.ways import APART, WAYS, Ways
from seqloom.models.decoder import Decoder
from seqloom.retrieval.building import build
from seqloom.retrieval.neighbors import Neighbors, Retrieval
from seqloom.retrieval.store import Mix, open_store

Build = Callable[..., Decoder]


def values(decoder: Build) -> dict[type, Any]:
    exits, draft = Exits(threshold=0.5), Draft(model=decoder("gru"))
    return {Sampling: Sampling(), Beams: Beams(), Draft: draft, Exits: exits, Retrieval: Retrieval(store="store")}


def test_what_goes_together(decoder: Build) -> None:
    every = values(decoder)
    assert set(every) == set(WAYS)
    for one in WAYS:
        for other in WAYS:
            pair = [every[one], every[other]]
            words = APART.get((one, other)) or APART.get((other, one))
            if one is other or words:
                with pytest.raises(ValueError, match=words or f"{one.__name__} is given twice"):
                    Ways(pair, {})
            else:
                assert Ways(pair, {}).get(one) is pair[0]
    with pytest.raises(ValueError, match="Sampling is given twice"):
        Ways([Sampling()], {"top_k": 3})
    with pytest.raises(ValueError, match="did you mean 'top_p'"):
        Ways([], {"topp": 0.5})
    with pytest.raises(TypeError, match="a text is written by Sampling, Beams, Draft, Exits, Retrieval, not 3"):
        Ways([3], {})


def test_settings_are_a_sampling(decoder: Build) -> None:
    model = decoder("gru")
    given = list(generate(model, [1, 2], Sampling(top_k=3, seed=4), max_tokens=20))
    assert given == list(generate(model, [1, 2], max_tokens=20, top_k=3, seed=4))
    assert given != list(generate(model, [1, 2], max_tokens=20, top_k=3, seed=5))


def test_the_best_text_of_a_search(decoder: Build) -> None:
    model = decoder("he")
    ((best,),) = beam_search(model, torch.tensor([[1, 2]]), max_tokens=6, beams=Beams(beams=3))
    assert list(generate(model, [1, 2], Beams(beams=3), max_tokens=6)) == best.ids
    with pytest.raises(ValueError, match="generate gives one text"):
        generate(model, [1, 2], Beams(beams=3, best=2), max_tokens=6)
    with pytest.raises(ValueError, match="leave out compile"):
        generate(model, [1, 2], Beams(beams=3), max_tokens=6, compile=True)


def test_the_neighbors_of_a_store(decoder: Build, tmp_path: Path) -> None:
    """They are those that `Neighbors` mixes in, and the model's hook goes with the text."""
    model = decoder("gru")
    ids = np.random.default_rng(0).integers(1, 11, 40).astype("<u2")
    text = Tokens(ids, np.array([0]), np.array([len(ids)]))
    build(model, text, tmp_path / "store", batch=2, source="a text", show=show_nothing)
    mix = Mix(k=4, weight=0.9)
    with Neighbors(model, open_store(tmp_path / "store", model), mix) as neighbors:
        expected = [int(draw.ids[0]) for draw in tokens(model, torch.tensor([[1]]), max_tokens=9, neighbors=neighbors)]
    hooks = sum(len(module._forward_hooks) for module in model.modules())
    assert list(generate(model, [1], Retrieval(store=str(tmp_path / "store"), mix=mix), max_tokens=9)) == expected  # type: ignore[arg-type]
    assert expected != list(generate(model, [1], max_tokens=9))
    early = generate(model, [1], Retrieval(store=tmp_path / "store", mix=mix), max_tokens=9)
    next(early)
    early.close()
    assert sum(len(module._forward_hooks) for module in model.modules()) == hooks
