"""Any layer from (B, T, D) to (B, T, D) where a mixer is named: what it may be, what it does, what is said of it."""

import pickle
from pathlib import Path

import pytest
import torch

import seqloom
from seqloom.core.mixer import Mixer
from seqloom.mixers import find, mixer_config
from seqloom.mixers.layer_kind import LayerConfig, layer_kind
from tests.mixers import own_layers

OWN = "tests.mixers.own_layers"
SOUND = "tests.contracts.layers:Decay"


def build(name: str, dim: int = 8, context: int | None = 16, causal: bool = True, **settings: object) -> Mixer:
    kind = name if ":" in name else f"{OWN}:{name}"
    return mixer_config({"kind": kind, **settings}).build(dim, context, causal)


def test_a_layer_that_streams_reads_on_from_its_state() -> None:
    mixer, x = build(SOUND), torch.randn(2, 7, 8)
    assert mixer.traits.streams
    y = mixer(x)
    first, state = mixer.extend(x[:, :3], mixer.start(2))
    second, state = mixer.extend(x[:, 3:6], state)
    third, _ = mixer.step(x[:, 6], state)
    assert torch.allclose(torch.cat([first, second, third[:, None]], 1), y, atol=1e-5)


def test_padding_changes_nothing() -> None:
    mixer, x = build(SOUND), torch.randn(2, 6, 8)
    keep = torch.tensor([[False, True, True, False, True, True], [True] * 6])
    y, state = mixer.extend(x, mixer.start(2), keep)
    assert torch.allclose(y[0, keep[0]], mixer(x[:1, keep[0]])[0], atol=1e-5)
    assert torch.allclose(mixer(x, keep), y, atol=1e-5)
    assert not y[0, 0].any()
    assert state["length"].tolist() == [4, 6]


def test_a_layer_without_a_state_reads_whole_sequences() -> None:
    mixer = build("Convolution")
    assert not mixer.traits.streams
    assert mixer(torch.randn(2, 5, 8)).shape == (2, 5, 8)
    with pytest.raises(ValueError, match="has no start here: give it start"):
        mixer.start(1)


def test_its_context_is_its_longest_text() -> None:
    assert build("Convolution").traits.longest == 16
    assert build(SOUND).traits.longest is None


def test_a_layer_that_returns_a_tuple_gives_its_outputs_first() -> None:
    assert build("ReturnsMore")(torch.randn(2, 5, 8)).shape == (2, 5, 8)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("LooksAhead", "looks ahead: its outputs depend on later tokens"),
        ("CutsTheShape", r"changes the shape: of \(2, 8, 8\) it makes \(2, 7, 8\) float32"),
        ("IgnoresTheDtype", "ignores the dtype: of float64 it makes float32"),
        ("KeepsState", "keeps state on itself: the same tokens give other outputs"),
        ("CountsCalls", "keeps state on itself: reading changes its calls"),
        ("StepsOtherwise", "streams something else than it reads at once, from token 0 on"),
        ("Raises", "cannot be built: RuntimeError: no luck"),
        ("make_layer", "is no layer: name a class that derives from torch.nn.Module"),
        ("Nothing", "has no Nothing; "),
    ],
)
def test_what_cannot_stand_where_a_mixer_stands_is_named(name: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"{OWN}(:{name})? {why}") as raised:
        build(name)
    assert "\n" not in str(raised.value)


def test_a_state_that_grows_is_said_and_not_used() -> None:
    mixer = build("Grows")
    assert not mixer.traits.streams
    assert "be read on from its own state in a model: its size changes from token to token" in mixer.limitations


def test_both_directions() -> None:
    x, keep = torch.randn(2, 5, 8), torch.tensor([[True, True, False, True, True], [False] * 5])
    for name in ("Both", "Whole"):
        mixer = build(name, causal=False)
        assert mixer.traits.causal == "never"
        y = mixer(x, keep)
        assert torch.allclose(y[0, keep[0]], mixer(x[:1, keep[0]])[0], atol=1e-5)
        assert not y[~keep].any()
    assert build("Both").traits.causal == "always"
    with pytest.raises(ValueError, match="looks ahead"):
        build("Whole")
    with pytest.raises(ValueError, match=r"is causal: it has no bidirectional form; \{kind: both_ways"):
        build("Convolution", causal=False)


def test_the_price_is_what_torch_executes() -> None:
    mixer = build(SOUND)
    cost = mixer.cost(5)
    assert (cost.mul, cost.add) == (5 * 8 + 5 * 64, 5 * 8 + 5 * 56)
    assert (cost.params, cost.state, cost.path) == (8 + 64, 8, ())
    assert mixer.cost(5, "token").mul == 8 + 64
    convolution = build("Convolution")
    assert convolution.cost(5, "token").mul == 3 * 64
    assert build("LooksAtValues").cost(5).mul >= convolution.cost(5).mul


def test_what_has_no_price_is_named() -> None:
    mixer = build("Sorted")
    assert any("bessel_j0" in limit and "not counted" in limit for limit in mixer.limitations)
    assert mixer.cost(4).mul == 32
    assert mixer(torch.randn(1, 4, 8)).shape == (1, 4, 8)


def test_settings_are_the_constructor_s_arguments() -> None:
    config = mixer_config({"kind": f"{OWN}:Convolution", "width": 5})
    assert config.model_dump() == {"kind": f"{OWN}:Convolution", "width": 5}
    assert mixer_config(config.model_dump()) == config
    assert pickle.loads(pickle.dumps(config)) == config
    assert build("Convolution", width=5).cost(1).params == 5 * 64 + 8
    with pytest.raises(ValueError, match="unknown setting 'widht'; did you mean 'width'"):
        build("Convolution", widht=5)
    with pytest.raises(ValueError, match="a layer's setting is a number, a text"):
        build("Convolution", width={"a": 1})


def test_a_class_is_a_kind() -> None:
    config = mixer_config({"kind": own_layers.Convolution})
    assert config.kind == f"{OWN}:Convolution"
    assert find(config.kind) is type(config)
    mixer = seqloom.mixer(own_layers.Convolution, dim=8)
    assert isinstance(mixer.get_submodule("layer"), own_layers.Convolution)
    model = seqloom.decoder(own_layers.Convolution, vocab=20, dim=8, depth=2, context=8)
    assert model(torch.zeros(1, 8, dtype=torch.long)).shape == (1, 8, 20)

    class Local(own_layers.Convolution):
        pass

    with pytest.raises(ValueError, match="Local is defined inside of a function"):
        mixer_config({"kind": Local})


def test_a_setting_in_the_place_of_a_class() -> None:
    with pytest.raises(ValueError, match="a setting of attention is NAME=VALUE, not 'heads'"):
        mixer_config({"kind": "attention:heads"})


def test_building_draws_no_other_numbers() -> None:
    torch.manual_seed(0)
    before = build(SOUND, dim=12).state_dict()
    torch.manual_seed(0)
    after = build(SOUND, dim=12).state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())


def test_a_layer_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "scaled_layer.py"
    file.write_text(
        "from torch import nn\n\nclass Scaled(nn.Module):\n    def __init__(self, dim: int):\n"
        "        super().__init__()\n        self.w = nn.Linear(dim, dim)\n\n    def forward(self, x):\n"
        "        return 2 * self.w(x)\n"
    )
    kind: type[LayerConfig] = layer_kind(f"{file}:Scaled")
    assert layer_kind(f"{file}:Scaled") is kind
    assert mixer_config({"kind": kind.layer_class}).kind == f"{file}:Scaled"
    assert mixer_config({"kind": f"{file}:Scaled"}).build(4, 8)(torch.ones(1, 2, 4)).shape == (1, 2, 4)
