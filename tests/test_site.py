"""What the site adds to a mixer's page: results, reach maps and their pictures, the price curve."""

import json
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest
import torch

import seqloom
from docs import pages
from docs.making import reached, trained
from docs.making.mixer_page import full, glance
from docs.making.prices import curve
from docs.making.reached import Map, numbers, trained_maps, write
from docs.making.results import results, subject
from seqloom.data.tokenizer import Tokenizer
from seqloom.mixers import kinds
from seqloom.report.charts import reach
from seqloom.report.charts.draw import svg

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"mixer": "attention:heads=4"}, ("attention", "attention:heads=4")),
        ({"mixer": "attention-32"}, ("attention", "attention-32")),
        ({"contender": "aft_conv"}, ("aft_conv", "aft_conv")),
        ({"mixer": {"kind": "she", "groups": 2}}, ("she", "she")),
        ({"model": "mamba", "what": "train"}, ("mamba", "mamba")),
        ({"mixer": "shell"}, ("", "")),
        ({"B": 64}, ("", "")),
    ],
)
def test_the_subject_of_a_row(row: dict[str, object], expected: tuple[str, str]) -> None:
    assert subject(row, kinds()) == expected


def test_results_of_a_mixer(tmp_path: Path) -> None:
    source = {"machine": "M", "commit": "abc", "date": "D", "command": "seqloom x"}
    rows = [
        {"mixer": "she", "dim": 8, "held_out_loss": 4.56789, "text": "so " * 40, "loss": [1.0] * 9, **source},
        {"mixer": "she", "ms_median_quartiles": {"a": [3.0, 2.0, 4.0]}, "bytes": 12345678, **source},
        {"mixer": "he", "held_out_loss": 99.9, **source},
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    result = results("she", kinds(), tmp_path)
    assert "| `she`, dim 8 | **held out loss** 4.568 |" in result
    assert "**ms median quartiles** a: 3 (2 to 4)<br>**bytes** 12,345,678" in result
    assert "M, commit abc, D" in result
    assert result.count("seqloom x") == 1
    assert "99.9" not in result
    assert "so so" not in result
    assert results("we", kinds(), tmp_path) == ""


def test_results_show_the_last_rows_of_many(tmp_path: Path) -> None:
    rows = [{"mixer": "she", "ms": at, "command": "x", "machine": f"M{at}"} for at in range(100, 120)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    result = results("she", kinds(), tmp_path)
    assert "The last 12 of 20 rows." in result
    assert "**ms** 119 | M119 |" in result
    assert "M107" not in result


def test_stored_maps_are_read_as_they_were(tmp_path: Path) -> None:
    actual = torch.tensor([[4.0, 0, 0], [0.4, 2, 0], [1e-9, 0, 1]], dtype=torch.float64)
    write("she", "a run", {0: actual, 3: 2 * actual}, {"commit": "abc"}, tmp_path)
    first, last = trained_maps("she", tmp_path)
    assert (first.name, last.name, first.description) == ("trained, layer 0", "trained, layer 3", "a run")
    expected = torch.tensor([[1, 0, 0], [0.1, 0.5, 0], [0, 0, 0.25]], dtype=torch.float64)
    torch.testing.assert_close(first.slopes, expected, rtol=0.02, atol=0)
    assert torch.equal(first.slopes, last.slopes)
    assert json.loads((tmp_path / "she.json").read_text())["commit"] == "abc"
    assert trained_maps("he", tmp_path) == []


@pytest.mark.slow
def test_the_stored_maps_can_be_shown() -> None:
    for path in reached.MAPS.glob("*.json"):
        assert path.stem in kinds()
        for trained_map in trained_maps(path.stem):
            assert trained_map.thumbnail
            assert numbers([trained_map])


@pytest.mark.slow
def test_pictures_are_svg() -> None:
    result = torch.ones(5, 5, dtype=torch.float64).tril().tolist()
    for drawn in (svg(reach.chart(result, "a < b", "c & d"), width=300), curve("me")):
        assert xml.fromstring(drawn).tag == f"{SVG}svg"
    words = [each.text for each in xml.fromstring(svg(reach.chart(result, "a < b", "c"), width=300)).iter(f"{SVG}text")]
    assert {"a < b", "output t", "input s", "0.001", "1", "0", "4"} <= set(words)


@pytest.mark.slow
def test_a_beginning_is_the_same_again() -> None:
    config = kinds()["me"]()
    torch.manual_seed(1)
    first = reached.initial_map(config).slopes
    torch.manual_seed(2)
    assert torch.equal(first, reached.initial_map(config).slopes)
    torch.testing.assert_close(first.diagonal(-3), first[3, 0].expand(len(first) - 3))


@pytest.mark.slow
def test_what_the_site_adds() -> None:
    result = torch.ones(4, 4, dtype=torch.float64).tril()
    maps = [
        Map("at initialization", "drawn", result),
        Map("trained, layer 0", "a run", result),
        Map("trained, layer 1", "a run", result),
    ]
    page = full(pages.page("me", kinds()["me"]), "me", maps)
    order = [
        "# `me`", "## What it reads", "me-trained-layer-1.svg", "| 29% | 29% | 29% |", "- trained, layer 0: a run.",
        "## Traits", "## Price by length", "me-price.svg", "## Results", "compare_books.jsonl",
    ]  # fmt: skip
    assert [page.index(each) for each in order] == sorted(page.index(each) for each in order)
    assert "- trained, layer 1" not in page
    shown = glance(pages.index())
    assert all(f'src="{kind}-small.png"' in shown for kind in kinds())


@pytest.mark.slow
def test_a_run_is_stored_as_maps(tmp_path: Path) -> None:
    layers = [{"kind": "me"}, {"kind": "attention", "heads": 2}, {"kind": "me"}]
    model = seqloom.decoder(layers, vocab=270, dim=8, depth=3, context=16)
    seqloom.save(model, tmp_path / "ids")
    with pytest.raises(ValueError, match="no tokenizer"):
        trained.store(tmp_path / "ids", trained.STORY, tmp_path)
    seqloom.save(model, tmp_path / "run", tokenizer=Tokenizer.train([trained.STORY], 270))
    with pytest.raises(ValueError, match="1 tokens; give one of 8"):
        trained.store(tmp_path / "run", "a", tmp_path)
    assert {path.stem for path in trained.store(tmp_path / "run", trained.STORY, tmp_path)} == {"me", "attention"}
    first, last = trained_maps("me", tmp_path)
    assert (first.name, last.name) == ("trained, layer 0", "trained, layer 2")
    assert first.slopes.shape == (16, 16)
    assert first.description == "dim 8, depth 3, context 16; reading a story"
    (one,) = trained_maps("attention", tmp_path)
    assert one.description.startswith("heads 2, dim 8")
    assert str(tmp_path) not in (tmp_path / "me.json").read_text()


def test_a_run_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr("sys.argv", ["trained", str(tmp_path / "none")])
    assert trained.main() == 2
    assert "does not exist" in capsys.readouterr().err
