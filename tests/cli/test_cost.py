"""`seqloom cost` prints the prices of mixers and presets."""

import json
from pathlib import Path

import pytest

import seqloom as face
from seqloom.mixers import kinds
from seqloom.models.decoder import Decoder
from seqloom.training.settings import resolve
from tests.cli.conftest import Seqloom
from tests.kinds import CAUSAL


@pytest.mark.sample(8)
@pytest.mark.parametrize("kind", kinds())
def test_the_cost_of_a_mixer(seqloom: Seqloom, kind: str) -> None:
    """Of its causal form, or of the bidirectional one where that is all it has."""
    causal = kind in CAUSAL
    settings = {"k": 4} if kind == "linformer" else {}
    mixer = face.mixer(kind, dim=16, context=8, causal=causal, **settings)
    tokens = min(12, mixer.traits.longest or 12)
    given = [word for name, value in settings.items() for word in (f"--{name}", value)]
    options = ("--dim", 16, "--context", 8, "--tokens", tokens, *given)
    whole = mixer.cost(tokens)
    priced = json.loads(seqloom("cost", kind, *options, "--json").out)
    assert priced["equation"] == {
        **{name: getattr(whole, name) for name in ("mul", "add", "div", "exp", "other", "total", "params", "state")},
        "path": list(whole.path),
    }
    assert priced["executed"]["mul"] > 0
    answer = seqloom("cost", kind, *options, "--per=token", "--json")
    if causal:
        priced = json.loads(answer.out)
        assert priced["equation"]["mul"] == mixer.cost(tokens, "token").mul
        assert "executed" not in priced
    else:
        assert answer.code == 2
        assert "it has no price per token" in answer.err
    table = seqloom("cost", kind, *options).out
    assert f"{whole.total:,}" in table
    assert f"one row of {tokens} tokens" in table
    if tokens < 12:
        refused = seqloom("cost", kind, "--dim", 16, "--context", 8, "--tokens", 12, *given)
        assert (refused.code, refused.out) == (2, "")
        assert f"at most {tokens} tokens" in refused.err


def test_the_fields_of_a_mixer_are_options(seqloom: Seqloom) -> None:
    printed = json.loads(seqloom("cost", "she", "--groups=4", "--out-proj", "false", "--dim=16", "--json").out)
    mixer = face.mixer("she", dim=16, context=128, groups=4, out_proj=False)
    assert printed["equation"]["params"] == sum(parameter.numel() for parameter in mixer.parameters())


@pytest.mark.slow
def test_the_cost_of_a_preset(seqloom: Seqloom) -> None:
    table = seqloom("cost", "tiny")
    assert table.code == 0
    assert "the model of tiny, one row of 16 tokens" in table.out
    assert "42,828" in table.out
    one = json.loads(seqloom("cost", "tiny", "--per", "token", "--tokens", 4, "--json").out)["equation"]
    row = json.loads(seqloom("cost", "tiny", "--tokens", 4, "--json").out)["equation"]
    assert 0 < one["total"] < row["total"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "far", "message"),
    [
        (("transformer_xl/small",), 512, "The layers reach 512 tokens back at most."),
        (("compressive/small", "--set", "model.depth=3"), 3 * 640, "The layers reach 1,920 tokens back at most."),
        (("compressive", "--memory", 64), 64 + 4 * 128, "A layer reaches 576 tokens back at most."),
        (("llama/small",), None, ""),
        (("gru",), None, ""),
    ],
)
def test_how_far_a_memory_reaches(seqloom: Seqloom, words: tuple[str, ...], far: int | None, message: str) -> None:
    printed = json.loads(seqloom("cost", *words, "--json").out)
    assert printed.get("tokens_back") == far
    table = seqloom("cost", *words).out
    assert message in table
    assert ("tokens back" in table) == (far is not None)


@pytest.mark.slow
def test_settings_change_the_model_of_a_preset(seqloom: Seqloom) -> None:
    she = ("--set", "model.mixer.kind=she", "--set=model.mixer.groups=4")
    written = json.loads(seqloom("cost", "tiny", *she, "--tokens", 4, "--json").out)
    assert written["training"] == {name: written["equation"][name] for name in written["training"]}
    config = resolve("tiny", ["model.mixer.kind=she", "model.mixer.groups=4"]).model
    model = Decoder(config)
    assert written["training"]["params"] == sum(parameter.numel() for parameter in model.parameters())
    assert written["prefill"]["mul"] == model.cost(4, outputs=1).mul < written["training"]["mul"]
    assert written["token"]["mul"] == model.cost(4, "token").mul < written["prefill"]["mul"]
    alone = json.loads(seqloom("cost", "tiny", *she, "--tokens", 4, "--per", "prefill", "--json").out)
    assert list(alone) == ["equation"]
    assert alone["equation"]["mul"] == written["prefill"]["mul"]
    table = seqloom("cost", "tiny", *she, "--tokens", 4).out
    assert all(f"{written[use]['total']:,}" in table for use in ("training", "prefill", "token"))


def test_a_preset_may_be_a_file(seqloom: Seqloom, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("model: {dim: 8, depth: 1, context: 4, mixer: {kind: me}}\ndata: {source: stories, vocab: 300}\n")
    written = json.loads(seqloom("cost", file, "--json").out)["equation"]
    assert written["params"] == sum(p.numel() for p in Decoder(resolve(str(file)).model).parameters())


@pytest.mark.slow
def test_every_mixer_in_one_table(seqloom: Seqloom) -> None:
    written = json.loads(seqloom("cost", "tiny", "--all", "--json").out)
    assert written["refused"].keys() == kinds().keys() - set(CAUSAL)
    assert all("no causal form" in reason for reason in written["refused"].values())
    for use in ("training", "prefill", "token"):
        assert [row["mixer"] for row in written[use]] == CAUSAL
        for row in written[use]:
            assert row["total"] == row["mul"] + row["add"] + row["div"] + row["exp"]
            assert row["path"] > 0
    she = json.loads(seqloom("cost", "tiny", "--set", "model.mixer.kind=she", "--json").out)
    row = next(row for row in written["token"] if row["mixer"] == "she")
    assert {name: row[name] for name in she["token"]} == she["token"]
    table = seqloom("cost", "tiny", "--all").out
    assert "the model of tiny with each mixer: training" in table
    assert table.count("\nshe ") == 3
    assert table.count(f"{row['total']:,}") >= 1


@pytest.mark.slow
@pytest.mark.parametrize("column", ["mixer", "mul", "exp", "params", "state", "path"])
def test_the_table_is_sorted_by_a_column(seqloom: Seqloom, column: str) -> None:
    written = json.loads(seqloom("cost", "tiny", "--all", "--per", "token", "--sort", column, "--json").out)
    assert list(written) == ["preset", "tokens", "token", "refused"]
    result = [row[column] for row in written["token"]]
    assert result == sorted(result)
    assert len(set(result)) > 2


@pytest.mark.slow
def test_without_a_preset_it_is_table_1(seqloom: Seqloom) -> None:
    words = ("--sort", "total", "--all", "--per", "sequence")
    written = json.loads(seqloom("cost", *words, "--json").out)
    assert (written["preset"], written["tokens"]) == ("paper/table1", 128)
    params = {row["mixer"]: row["params"] for row in written["training"]}
    assert (params["attention"], params["she"], params["me"]) == (4_861_320, 42_020_232, 3_683_976)


@pytest.mark.slow
def test_mixers_that_do_not_fit_are_named_below_the_table(seqloom: Seqloom) -> None:
    words = ("--set", "model.dim=6", "--set", "model.mixer.kind=she")
    table = seqloom("cost", "tiny", "--all", *words).out
    assert "\nno linear: dim 6 is not divisible by heads 4" in table
    assert "\nno she" not in table


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("tiny", "--all", "--tokens", 17), "at most 16 tokens, not 17"),
        (("tiny", "--all", "--sort", "totl"), "did you mean 'total'"),
        (("tiny", "--all", "--per", "day"), "sequence, prefill or token"),
        (("tiny", "--all=yes"), "unknown option '--all'"),
        (("tiny", "--set", "model.dimm=3"), "did you mean 'dim'"),
        (("tiny", "--set"), "--set needs a value"),
        (("tiny", "--sort", "mul"), "unknown option '--sort'"),
        (("she", "--set", "model.dim=3"), "seqloom cost paper/table1 --set"),
        (("she", "--all"), "seqloom cost paper/table1 --all"),
        (("she", "--per", "prefill"), "sequence or token"),
        (("--sort", "mul"), "or --all"),
        (("gone.yaml",), "no such preset file"),
    ],
)
def test_what_cannot_be_priced_is_an_error_of_one_line(
    seqloom: Seqloom, words: tuple[object, ...], message: str
) -> None:
    refused = seqloom("cost", *words)
    assert (refused.code, refused.out) == (2, "")
    assert message in refused.err
    assert len(refused.err.splitlines()) == 1
