"""Modules that layers share: made, drawn, priced, optimized, moved and saved once, and read by each layer."""

import copy
import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from seqloom.analysis.sizes import quantity
from seqloom.analysis.whole import whole
from seqloom.contracts.finding import Finding
from seqloom.contracts.price import price
from seqloom.contracts.reading import pieces, token_steps
from seqloom.contracts.subject import Subject
from seqloom.core import mixer_config as registry
from seqloom.core.mixer import Mixer
from seqloom.core.mixer_config import MixerConfig
from seqloom.mixers.linear.linear import LinearConfig
from seqloom.mixers.state_space.spade import SpadeConfig
from seqloom.models.decoder import Decoder, DecoderConfig
from seqloom.runs import model as stored
from seqloom.training.memory import weights
from seqloom.training.optimizers import matrices_of, optimizer
from seqloom.training.settings import resolve
from tests.models.sharing import Common, GatedConfig

DIM, DEPTH = 8, 5
TABLE, MATRIX = DIM * DEPTH, DIM * DIM
LAYERS = (GatedConfig(), LinearConfig(heads=2))


def config(*mixers: MixerConfig, depth: int = DEPTH) -> DecoderConfig:
    return DecoderConfig(vocab=11, dim=DIM, depth=depth, context=6, ffn=12, dropout=0.0, std=0.3, mixer=mixers)


def built(*mixers: MixerConfig, depth: int = DEPTH) -> Decoder:
    torch.manual_seed(1)
    return Decoder(config(*mixers, depth=depth))


def test_each_layer_reads_its_row_of_the_one_table() -> None:
    model = built(GatedConfig())
    mixers = [block.mixer for block in model.blocks]
    assert {id(mixer.shared) for mixer in mixers} == {id(model.shared["gated"])}
    x = torch.randn(2, 3, DIM)
    for number, mixer in enumerate(mixers):
        w, common = mixer.get_parameter("w.weight"), mixer.shared.w.weight
        torch.testing.assert_close(mixer(x), (number + 1) * x @ w.T @ common.T)


def test_layers_of_other_settings_share_something_else() -> None:
    model = built(GatedConfig(), GatedConfig(variant=1), LinearConfig(heads=2))
    assert list(model.shared) == ["gated", "gated_2"]
    shared = [block.mixer.shared for block in model.blocks]
    first, second = model.shared["gated"], model.shared["gated_2"]
    assert shared == [first, second, None, first, second]
    assert first.table.shape == second.table.shape == (4, DIM)
    assert [block.mixer.number for block in model.blocks if isinstance(block.mixer.shared, Common)] == [0, 1, 2, 3]


def test_it_is_saved_once() -> None:
    model = built(*LAYERS)
    names = [name for name in model.state_dict() if "shared" in name or "mixer.table" in name]
    assert names == ["shared.gated.table", "shared.gated.w.weight"]
    assert sum(p.numel() for p in model.parameters()) == sum(t.numel() for t in model.state_dict().values())
    other = Decoder(model.config)
    other.load_state_dict(model.state_dict())
    ids = torch.randint(11, (2, 4))
    assert other.eval()(ids).equal(model.eval()(ids))


@pytest.mark.slow
def test_it_is_priced_once() -> None:
    model = built(*LAYERS)
    held = sum(parameter.numel() for parameter in model.parameters())
    assert model.cost(6).params == held
    assert whole(model.config, 6)["training"].params == held
    assert weights(model.config)[0] == held
    without = config(LinearConfig(heads=2), LinearConfig(heads=2))
    more = quantity(config(GatedConfig(), LinearConfig(heads=2)), "params") - quantity(without, "params")
    assert more == MATRIX + 3 * DIM + 3 * (MATRIX - 4 * MATRIX)


def test_it_is_drawn_once() -> None:
    model = built(GatedConfig())
    torch.manual_seed(3)
    before = copy.deepcopy(model)
    before.reset()
    deviation = float(before.shared["gated"].w.weight.detach().std())
    assert 0.2 < deviation < 0.4
    assert before.shared["gated"].table.equal(model.shared["gated"].table), "what it makes of its own stays"
    assert all(block.mixer.shared is before.shared["gated"] for block in before.blocks), "a copy refers to its own"


def test_it_is_optimized_once() -> None:
    model = built(GatedConfig())
    training = resolve("tiny", ["data.source=stories", "training.optimizer=muon"]).training
    held = [id(parameter) for group in optimizer(model, training).groups for parameter in group["params"]]
    assert sorted(held) == sorted(id(parameter) for parameter in model.parameters())
    assert "shared.gated.w.weight" in matrices_of(model)


@pytest.mark.slow
def test_it_moves_with_the_model() -> None:
    model = built(GatedConfig()).double()
    assert model.blocks[1].mixer.shared.table.dtype == torch.float64
    with torch.device("meta"):
        empty = Decoder(model.config).double()
    empty.to_empty(device="cpu").load_state_dict(model.state_dict())
    ids = torch.randint(11, (2, 4))
    assert empty.eval()(ids).equal(model.eval()(ids))
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    again = torch.load(file, weights_only=False)
    assert again.blocks[1].mixer.shared is again.shared["gated"]
    assert again.eval()(ids).equal(model.eval()(ids))


def test_every_layer_teaches_it() -> None:
    model = built(GatedConfig())
    model(torch.randint(11, (2, 4))).square().sum().backward()
    rows = model.shared["gated"].table.grad
    assert bool((rows.abs().sum(1) > 0).all())


@pytest.mark.slow
def test_it_compiles() -> None:
    model = built(GatedConfig(), depth=2).eval()
    ids = torch.randint(11, (2, 4))
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(ids), model(ids))


@pytest.mark.parametrize("check", [price, pieces, token_steps])
def test_alone_it_is_layer_0_with_a_table_of_its_own(check: Callable[[Subject], Finding]) -> None:
    def make(context: int | None, dtype: torch.dtype, /) -> Mixer:
        return GatedConfig().build(DIM, context).to(dtype)

    assert check(Subject("gated", DIM, make)).verdict == "holds"
    mixer = make(6, torch.float32)
    assert mixer.shared.table.shape == (1, DIM)
    assert list(mixer.state_dict()) == ["w.weight", "shared.table", "shared.w.weight"]
    assert mixer.cost(3).params == 2 * MATRIX + DIM


def test_a_mixer_of_two_shares_what_both_share() -> None:
    both = SpadeConfig(far=GatedConfig(), near=LinearConfig(heads=2))
    model = built(both)
    assert [name for name in model.state_dict() if "shared" in name] == [
        "shared.spade.far.table",
        "shared.spade.far.w.weight",
    ]
    assert all(block.mixer.far.shared is model.shared["spade"]["far"] for block in model.blocks)
    assert model.cost(6).params == sum(parameter.numel() for parameter in model.parameters())
    alone = both.build(DIM, 6)
    assert alone.cost(3).params == sum(parameter.numel() for parameter in alone.parameters())


@pytest.mark.slow
def test_a_run_of_it_is_described_and_loaded(tmp_path: Path, registered: None) -> None:
    model = built(*LAYERS).eval()
    stored.save(model, tmp_path / "run")
    loaded, _ = stored.load(tmp_path / "run")
    ids = torch.randint(11, (2, 4))
    assert loaded.eval()(ids).equal(model(ids))


@pytest.fixture
def registered() -> Iterator[None]:
    registry.register(GatedConfig)
    yield
    registry.unregister("gated")
