"""`import seqloom` keeps its promises: each name in one call, quick to import, usable in plain torch code."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import seqloom
from seqloom.core.cost import Cost
from seqloom.core.mixer import Mixer, Traits
from seqloom.data.tokenizer import Tokenizer
from seqloom.mixers import kinds
from seqloom.models.decoder import Decoder
from tests.kinds import CAUSAL

NAMES = [
    *("compare", "decoder", "distill", "generate", "list_mixers", "load", "mixer", "quantize", "results", "save"),
    "swap",
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(["Once upon a time there was a dog. The dog was happy, and once it sang."] * 3, 280)


@pytest.mark.slow
def test_the_example_of_the_design(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """The lines of the design, one after the other, at small sizes."""
    seqloom.list_mixers()
    mixer = seqloom.mixer("she", dim=16, context=8)
    x = torch.randn(2, 12, 16)
    y = mixer(x)
    assert y.shape == x.shape
    prompt = torch.randn(1, 5, 16)
    y, state = mixer.extend(prompt, mixer.start(batch=1))
    torch.testing.assert_close(y, mixer(prompt))
    assert state["length"].tolist() == [5]
    cost = mixer.cost(8)
    assert isinstance(cost, Cost)
    assert min(cost.mul, cost.add, cost.params, cost.state, len(cost.path)) > 0

    model = seqloom.decoder("he", vocab=tokenizer.vocab, dim=16, depth=2, context=8)
    seqloom.save(model, tmp_path / "mine", tokenizer=tokenizer)
    model = seqloom.load(tmp_path / "mine")
    assert isinstance(model.tokenizer, Tokenizer)
    pieces = list(seqloom.generate(model, "Once upon a time", top_p=0.6, seed=0, max_tokens=20))
    assert pieces
    assert all(isinstance(piece, str) for piece in pieces)
    assert pieces == list(seqloom.generate(model, "Once upon a time", top_p=0.6, seed=0, max_tokens=20))


@pytest.mark.slow
def test_ids_work_without_a_tokenizer(tmp_path: Path) -> None:
    model = seqloom.load(seqloom.save(seqloom.decoder("me", vocab=10, dim=4, depth=1, context=4), tmp_path / "model"))
    assert model.tokenizer is None
    ids = list(seqloom.generate(model, [1, 2, 3], max_tokens=6))
    assert len(ids) == 6
    assert all(0 <= id < 10 for id in ids)


def test_every_mixer_is_listed_with_what_it_can_do() -> None:
    listed = seqloom.list_mixers()
    assert list(listed) == list(kinds())
    assert {"attention", "she", "he", "we", "me"} <= set(listed)
    assert all(isinstance(traits, Traits) for traits in listed.values())
    assert listed["attention"].state == "grows"
    assert listed["she"].state == "window"


def test_the_names() -> None:
    assert sorted(seqloom.__all__) == NAMES
    assert set(NAMES) | {"__version__"} <= set(dir(seqloom))
    assert all(callable(getattr(seqloom, name)) and getattr(seqloom, name).__doc__ for name in NAMES)
    with pytest.raises(AttributeError, match="no attribute 'mixers_'"):
        getattr(seqloom, "mixers_")  # noqa: B009  mypy knows that it is not there


def test_the_package_loads_without_torch() -> None:
    program = "import sys, seqloom; dir(seqloom); print(sorted({'torch', 'numpy', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.slow
@pytest.mark.parametrize("kind", CAUSAL)
def test_a_saved_model_comes_back_bit_for_bit(kind: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    model = seqloom.decoder(kind, vocab=tokenizer.vocab, dim=8, depth=2, context=6).eval()
    model.tokenizer = tokenizer
    assert seqloom.save(model, tmp_path / "run") == tmp_path / "run"
    again = seqloom.load(tmp_path / "run")
    assert again.config == model.config
    assert not again.training
    assert again.tokenizer.json == tokenizer.json
    weights = model.state_dict()
    assert list(again.state_dict()) == list(weights)
    assert all(torch.equal(tensor, weights[name]) for name, tensor in again.state_dict().items())
    ids = torch.randint(model.config.vocab, (2, 6))
    assert torch.equal(again(ids), model(ids))


def test_saved_again_after_a_change(tmp_path: Path) -> None:
    model = seqloom.decoder("we", vocab=10, dim=4, depth=1, context=4)
    seqloom.save(model, tmp_path / "run")
    with torch.no_grad():
        model.head.bias += 1
    seqloom.save(model, tmp_path / "run")
    assert torch.equal(seqloom.load(tmp_path / "run").head.bias, model.head.bias)


@pytest.mark.slow
def test_a_list_of_mixers_repeats(tmp_path: Path) -> None:
    mixers = [{"kind": "she", "groups": 2}, {"kind": "attention", "heads": 2}]
    model = seqloom.decoder(mixers, vocab=10, dim=8, depth=3, context=4)
    assert [config.kind for config in model.config.mixers] == ["she", "attention", "she"]
    again = seqloom.load(seqloom.save(model, tmp_path / "run"))
    assert again.config == model.config


@pytest.mark.slow
def test_the_defaults_are_the_paper_s() -> None:
    with torch.device("meta"):
        model = seqloom.decoder("attention", vocab=5000, heads=32)
    config = model.config
    assert (config.dim, config.depth, config.context, config.ffn_width, config.dropout) == (128, 18, 128, 512, 0.1)
    assert isinstance(model, Decoder)
    assert seqloom.decoder("me", vocab=5, dim=6, depth=1, context=2).config.ffn_width == 24


class Layer(nn.Module):
    """A layer as anybody writes it; `mixer` replaces self-attention."""

    def __init__(self, dim: int, mixer: nn.Module) -> None:
        super().__init__()
        self.norm_1, self.mixer, self.norm_2 = nn.LayerNorm(dim), mixer, nn.LayerNorm(dim)
        self.ffn = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.mixer(self.norm_1(x))
        return x + self.ffn(self.norm_2(x))


class Usual(nn.Module):
    """torch's own, as one calls it."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(dim, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attention(x, x, x, need_weights=False)[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["usual", *CAUSAL])
def test_a_mixer_replaces_attention(kind: str) -> None:
    model = nn.Sequential(*(Layer(8, Usual(8) if kind == "usual" else _mixer(kind)) for _ in range(2)))
    adam = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x, target = torch.randn(4, 10, 8), torch.randn(4, 10, 8)
    losses = []
    for _ in range(5):
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        missing = [name for name, parameter in model.named_parameters() if parameter.grad is None]
        assert not missing
        adam.step()
        adam.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    copy = nn.Sequential(*(Layer(8, Usual(8) if kind == "usual" else _mixer(kind)) for _ in range(2)))
    copy.load_state_dict(model.state_dict())
    assert torch.equal(copy(x), model(x))
    assert model.double()(x.double()).dtype == torch.float64


def _mixer(kind: str) -> Mixer:
    settings: dict[str, Any] = {"heads": 2} if kind == "attention" else {}
    mixer = seqloom.mixer(kind, dim=8, context=16, **settings)
    assert isinstance(mixer, nn.Module)
    return mixer
