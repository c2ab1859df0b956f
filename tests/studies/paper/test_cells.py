"""The cells of each figure at each scale are the paper's settings, or the reduced ones that the scale says."""

from collections.abc import Callable
from pathlib import Path

import pytest

from seqloom.studies.candidates import Candidate
from seqloom_studies.paper import sizing
from seqloom_studies.paper.grid import Cell, Grid
from seqloom_studies.paper.scales import scale_of
from seqloom_studies.paper.settings import differences
from seqloom_studies.paper.sizing import resize_peer
from seqloom_studies.paper.studies import STUDIES, find_studies
from seqloom_studies.paper.study import Study

SIX = ["attention-heads=1", "attention-heads=32", "she", "he", "we", "me"]
MakeGrid = Callable[..., Grid]


@pytest.fixture(scope="module")
def grids(tmp_path_factory: pytest.TempPathFactory) -> MakeGrid:
    made: dict[str, Grid] = {}

    def grid(name: str) -> Grid:
        if name not in made:
            out = tmp_path_factory.mktemp("grid")
            made[name] = Grid(scale_of(name), out, source="stories:60:0", sets=["data.vocab=300"])
        return made[name]

    return grid


def sizes(grid: Grid, cell: Cell) -> tuple[int, ...]:
    config = grid.config(cell.model, cell.seed)
    model = config.model
    return model.dim, model.depth, model.context, model.ffn_width, config.training.batch, config.training.batches


FULL = (128, 18, 128, 512, 64, 60000)
SMALL = (128, 2, 32, 512, 64, 3000)
TINY = (32, 1, 16, 64, 4, 12)
TABLE = [
    # figure, scale, cells, sizes (dim, depth, context, ffn, batch, batches) of the cells, batches of a median
    ("fig7", "full", 8, {FULL}, 2000),
    ("fig7", "small", 8, {SMALL}, 100),
    ("fig7", "tiny", 3, {TINY}, 1),
    ("fig8", "full", 6, {FULL}, 2000),
    ("fig8", "small", 18, {SMALL}, 100),
    ("fig8", "tiny", 6, {TINY}, 1),
    ("fig9", "full", 2, {FULL}, 2000),
    ("fig9", "small", 2, {SMALL}, 100),
    ("fig9", "tiny", 2, {TINY}, 1),
    ("fig10", "full", 30, {(128, 2, length, 512, 64, 30000) for length in (8, 16, 32, 64, 128)}, 2000),
    ("fig10", "small", 30, {(128, 2, length, 512, 64, 3000) for length in (8, 16, 32, 64, 128)}, 200),
    ("fig10", "tiny", 12, {(32, 1, length, 64, 4, 12) for length in (8, 16)}, 1),
    ("fig11", "full", 30, {(128, depth, 32, 512, 64, 30000) for depth in (1, 2, 4, 8, 16)}, 2000),
    ("fig11", "small", 24, {(128, depth, 32, 512, 64, 3000) for depth in (1, 2, 4, 8)}, 200),
    ("fig11", "tiny", 12, {(32, depth, 16, 64, 4, 12) for depth in (1, 2)}, 1),
    ("groups", "full", 8, {FULL}, 2000),
    ("groups", "small", 8, {SMALL}, 100),
    ("controls", "small", 17, {SMALL}, 100),
]


@pytest.mark.parametrize(("name", "scale", "count", "expected", "stretch"), TABLE)
def test_cells(
    grids: MakeGrid, name: str, scale: str, count: int, expected: set[tuple[int, ...]], stretch: int
) -> None:
    grid = grids(scale)
    study = STUDIES[name](grid)
    cells = study.cells(grid.scale.seeds.get(name, 1))
    assert len({cell.name for cell in cells}) == len(cells) == count
    assert {sizes(grid, cell) for cell in cells} == expected
    assert study.batches(max(grid.config(cell.model).training.batches for cell in cells)) == stretch
    for cell in cells:
        training = grid.config(cell.model, cell.seed).training
        assert (training.lr, training.betas, training.weight_decay, training.clip) == (1e-3, (0.9, 0.999), 0.01, None)
        assert (training.accumulate, training.precision, training.seed) == (1, "float32", cell.seed)
        assert grid.config(cell.model).model.dropout == 0.1
        assert grid.config(cell.model).model.vocab == 300


def test_the_preset_text_and_vocabulary_are_the_papers() -> None:
    for name in ("full", "small"):
        base = Grid(scale_of(name), Path("unused"))._base
        assert (base.data.source, base.data.vocab, base.model.vocab) == ("gutenberg-children", 5000, 5000)


@pytest.mark.slow
def test_which_mixers(grids: MakeGrid) -> None:
    grid = grids("full")
    series = {name: [line.series for line in STUDIES[name](grid).lines] for name in STUDIES if name != "equal-time"}
    assert series["fig7"] == [f"attention-heads={heads}" for heads in (1, 2, 4, 8, 16, 32, 64, 128)]
    assert series["fig8"] == SIX
    assert series["fig9"] == ["attention-heads=32", "she"]
    assert list(dict.fromkeys(series["fig10"])) == list(dict.fromkeys(series["fig11"])) == SIX
    assert series["groups"] == ["she", *(f"she-groups={count}" for count in (2, 4, 8, 16, 32, 64)), "we"]
    assert {"she, no positions", "he, no output projection", "we, no adjustment"} <= set(series["controls"])


def test_controls_leave_out_what_their_names_state(grids: MakeGrid) -> None:
    grid = grids("small")
    result = {line.series: grid.config(line.model).model for line in STUDIES["controls"](grid).lines}
    assert result["she"].position.kind == "learned"
    assert (
        result["she, no positions"].position.kind == result["attention-heads=32, no positions"].position.kind == "none"
    )
    assert result["he, no output projection"].mixer.model_dump() == {"kind": "he", "out_proj": False}
    bare = result["he, no adjustment"].mixer.model_dump()
    assert bare == {"kind": "extractor", "groups": 128, "in_proj": True, "adjust": False, "out_proj": True}


@pytest.mark.slow
@pytest.mark.parametrize("quantity", ["params", "mul"])
def test_attention_of_equal_size(grids: MakeGrid, quantity: str) -> None:
    from seqloom.analysis.match import quantity as measured

    grid = grids("small")
    lines = {line.series: line.model for line in STUDIES[f"equal-{quantity}"](grid).lines}
    for name in ("she", "he", "we", "me"):
        own, peer = grid.config(lines[name]).model, grid.config(lines[f"attention as {name}"]).model
        assert (peer.mixer.kind, peer.dim, peer.depth) == ("attention", own.dim, own.depth), "its network alone moves"
        assert measured(peer, quantity) == pytest.approx(measured(own, quantity), rel=0.01)


@pytest.mark.slow
def test_where_no_width_is_small_enough_a_layer_is_removed(tmp_path: Path) -> None:
    from seqloom.analysis.match import quantity

    sets = ["data.vocab=300", "model.ffn=128", "model.context=64"]
    grid = Grid(scale_of("small"), tmp_path, source="stories:60:0", sets=sets)
    size = resize_peer(grid, "attention:heads=32", ["me"], "mul")["me"]
    own, peer = (grid.config(grid.model(*each)).model for each in (["me"], ["attention:heads=32", *size.changes]))
    assert (own.depth, peer.depth, peer.dim) == (2, 1, own.dim)
    assert size.says.startswith(f"depth 2 → 1; attention: ffn 128 → {peer.ffn_width}, ")
    assert quantity(peer, "mul") == pytest.approx(quantity(own, "mul"), rel=0.01)


@pytest.mark.slow
def test_a_size_by_time_is_a_cell_that_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(peer: Candidate, *_: object, **__: object) -> Candidate:
        return Candidate("attention.time-of-she", (*peer.changes, "model.ffn=7"), "she", "ffn 16 → 7")

    grid = Grid(scale_of("tiny"), tmp_path)
    monkeypatch.setattr(sizing, "resize_candidate", measured)
    first = resize_peer(grid, "attention:heads=32", ["she"], "time")
    assert first["she"].changes == ("model.ffn=7",)
    assert (tmp_path / "sizes/time-of-she/rows.json").is_file()
    monkeypatch.setattr(sizing, "resize_candidate", None)  # a second search would fail
    assert resize_peer(grid, "attention:heads=32", ["she"], "time") == first


def test_a_size_that_cannot_be_measured_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizing, "resize_candidate", None)
    with pytest.raises(ValueError, match=r"^sizes/time-of-she failed: TypeError"):
        resize_peer(Grid(scale_of("tiny"), tmp_path), "attention:heads=32", ["she"], "time")


@pytest.mark.slow
def test_learning_rates(grids: MakeGrid) -> None:
    study = STUDIES["lr"](grids("small"))
    assert {line.series for line in study.lines} == set(SIX)
    assert {line.x for line in study.lines} == {0.0005, 0.001, 0.002, 0.004}
    for line in study.lines:
        assert grids("small").config(line.model).training.lr == line.x
    assert set(STUDIES["fig8"](grids("small")).cells(1)) < set(study.cells(1)), "all figures are of the paper's rate"
    assert set(STUDIES["fig10"](grids("full")).cells(1)) & set(STUDIES["lr"](grids("full")).cells(1))


def test_figures_share_cells(grids: MakeGrid) -> None:
    def of(name: str, scale: str) -> set[Cell]:
        return set(STUDIES[name](grids(scale)).cells(1))

    for scale in ("full", "small"):
        assert {cell.name for cell in of("fig7", scale) & of("fig8", scale)} == {
            "attention-heads=1.seed-0",
            "attention-heads=32.seed-0",
        }
        assert of("fig9", scale) < of("fig8", scale)
        assert len(of("fig10", scale) & of("fig11", scale)) == 6
    assert of("fig8", "small") < of("fig10", "small"), "there the small scale is the base of both sweeps"
    assert not of("fig8", "full") & of("fig10", "full")


@pytest.mark.slow
def test_more_batches_go_on_with_the_same_cells(tmp_path: Path) -> None:
    few, many = (Grid(scale_of("full"), tmp_path, source="stories:60:0", batches=count) for count in (10, 20))
    for name in ("fig8", "fig10"):
        assert STUDIES[name](few).cells(2) == STUDIES[name](many).cells(2)
        assert {many.config(cell.model).training.batches for cell in STUDIES[name](many).cells(1)} == {20}


def test_seed_by_seed_and_only(grids: MakeGrid) -> None:
    study: Study = STUDIES["fig8"](grids("tiny"))
    cells = study.only(["she", "attention:heads=32"]).cells(2)
    assert [cell.name for cell in cells] == [
        *("attention-heads=32.seed-0", "she.seed-0"),
        *("attention-heads=32.seed-1", "she.seed-1"),
    ]
    assert study.only(["she"]).says == f"{study.says} Only she here."
    assert study.only([*SIX]) == study.only([]) == study
    with pytest.raises(ValueError, match=r"--only rwkv: fig8 has no such model; there is attention-heads=1"):
        study.only(["rwkv"])


def test_differences_are_listed(grids: MakeGrid, tmp_path: Path) -> None:
    differing = differences(grids("small"), STUDIES["fig8"](grids("small")))
    assert differing == (
        "depth 2 (paper: 18), context 32 (paper: 128), batches 3,000 (paper: 60,000), vocabulary 300 (paper: 5,000)"
    )
    sweep = differences(grids("small"), STUDIES["fig10"](grids("small")))
    assert sweep == "batches 3,000 (paper: 30,000), vocabulary 300 (paper: 5,000)"
    full = Grid(scale_of("full"), tmp_path, source="stories:60:0")
    made = full.corpus.tokenizer.vocab
    assert differences(full, STUDIES["fig11"](full)) == f"a vocabulary of {made:,} in fact"


def test_names_of_cells() -> None:
    assert find_studies(["fig8", "table7", "fig8"]) == (["fig8"], ["table7"])
    figures, tables = find_studies(["all"])
    assert figures[:3] == ["fig8", "fig9", "equal-params"]
    assert tables == [f"table{number}" for number in range(2, 8)]
    with pytest.raises(ValueError, match=r"unknown figure or table 'fig12'; did you mean 'fig1"):
        find_studies(["fig12"])
