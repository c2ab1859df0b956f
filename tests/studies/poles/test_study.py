"""`seqloom study poles` turns a tiny trained run into one that generates from a state of constant size; its errors."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import seqloom as face
from seqloom.core.state import nbytes
from seqloom.data.corpora import read
from seqloom.data.prepare import encode_documents
from seqloom.evaluation.scores import score
from seqloom.ops.lag_sum.reference import lags
from seqloom.runs.layout import find_run
from seqloom.training.settings import resolve
from seqloom.training.train import train
from seqloom_studies.poles.study import Distilled, distil
from tests.cli.conftest import STEP, Seqloom, edit

pytestmark = pytest.mark.slow

CONTEXT = 16


def run_of(folder: Path, *mixers: dict[str, object], source: str | None = None) -> Path:
    """A run of three batches, a layer for each mixer, without learned positions: it reads any length."""
    changes = [f"training.batches={STEP}", "model.position=none", f"model.depth={len(mixers)}"]
    config = resolve("tiny", [*changes, f"model.mixer={json.dumps(mixers)}"], source=source)
    train(config, folder, say=lambda line: None)
    return folder


@pytest.fixture(scope="module")
def extractors(tmp_path_factory: pytest.TempPathFactory, _own_cache: None) -> Path:
    """One of each that has taps of numbers, between them one that has not."""
    kinds = ("he", "attention", "we", "me", "he_extraction")
    wide = {"kind": "extractor", "groups": 32, "out_proj": False}
    shared = {"kind": "extractor", "groups": "shared", "in_proj": True}
    return run_of(tmp_path_factory.mktemp("runs") / "run", *({"kind": kind} for kind in kinds), wide, shared)


@pytest.fixture(scope="module")
def fitted(extractors: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Distilled]:
    out = tmp_path_factory.mktemp("distilled") / "run"
    return out, distil(extractors, 5, out)


@pytest.fixture(scope="module")
def distilled(fitted: tuple[Path, Distilled]) -> Path:
    return fitted[0]


def test_the_table(seqloom: Seqloom, extractors: Path, fitted: tuple[Path, Distilled], tmp_path: Path) -> None:
    answer = seqloom("study", "poles", extractors, "--order", 5, "--out", tmp_path / "out")
    assert answer.code == 0
    for kind in ("he", "we", "me", "he_extraction", "extractor"):
        assert f" {kind} " in answer.out
    assert "layer 1 stays as it is: attention is no Extractor" in answer.out
    assert f"{2 * 5 * 32 * 4:,}" in answer.out  # bytes of state: 5 poles in each of 32 channels
    model, after = face.load(extractors), face.load(tmp_path / "out")
    assert f"{model.blocks[0].mixer.cost(CONTEXT, 'token').state * 4:,}" in answer.out
    result = fitted[1]
    assert result.text == "the held-out part of stories:200:0"
    before, then = result.scores
    assert before.loss == pytest.approx(
        json.loads((extractors / "metrics.jsonl").read_text().splitlines()[-1])["held_out"]
    )
    tokens = encode_documents(read("stories:3:9"), model.tokenizer)
    assert score(after, tokens).loss == pytest.approx(score(model, tokens).loss, abs=0.1)
    assert f"{before.loss:.3f}" in answer.out
    assert f"{then.loss:.3f}" in answer.out


def test_the_layers_differ_by_at_most_the_printed_bound(extractors: Path, tmp_path: Path) -> None:
    """Σ|w - ŵ| of what was saved, from its own taps; and inputs that reach it."""
    result = distil(extractors, 5, tmp_path / "out")
    old, new = face.load(extractors), face.load(tmp_path / "out")
    assert [layer.number for layer in result.layers] == [0, 2, 3, 4, 5, 6]
    for layer in result.layers:
        w = old.blocks[layer.number].mixer.w_ext.detach().double()
        w = w[:, None] if w.ndim == 1 else w
        there = new.blocks[layer.number].mixer.double().taps(400)
        off = there.clone()
        off[:CONTEXT] -= w
        d = int(off.abs().sum(0).argmax())
        assert layer.inside + layer.beyond == pytest.approx(float(off.abs().sum(0)[d]), rel=1e-3)
        assert layer.error == pytest.approx(float(off[:CONTEXT].norm() / w.norm()), rel=1e-3)
        z = off[:CONTEXT, d].sign().flip(0)[None, :, None]
        reached = (lags(z, w[:, d]) - lags(z, there[:CONTEXT, d]))[0, -1].abs()
        assert float(reached) == pytest.approx(layer.inside, rel=1e-3)
        assert layer.error < 0.9
        assert layer.taps == pytest.approx(float(w.abs().sum(0).max()))


def test_what_is_not_taps_stays(extractors: Path, distilled: Path) -> None:
    old, new = face.load(extractors).state_dict(), face.load(distilled).state_dict()
    gone = {f"layers.{n}.mixer.w_ext" for n in (0, 2, 3, 4, 5, 6)}
    assert set(old) - set(new) == gone
    assert all(torch.equal(old[name], new[name]) for name in set(old) - gone)
    assert {name.rsplit(".", 1)[1] for name in set(new) - set(old)} == {"log_rate", "frequency", "c", "d"}


def test_generation_keeps_a_state_of_one_size(seqloom: Seqloom, extractors: Path, tmp_path: Path) -> None:
    """Far beyond the context, token by token; attention alone would grow."""
    run = run_of(tmp_path / "run", {"kind": "he"}, {"kind": "me"})
    assert seqloom("study", "poles", run, "--order", 4, "--out", tmp_path / "out").code == 0
    model, sizes = face.load(tmp_path / "out"), []
    with torch.no_grad():
        state = model.start(1)
        for token in range(5 * CONTEXT):
            _, state = model.step(torch.tensor([token % 7]), state, reuse=True)
            sizes.append(nbytes(state))
    assert set(sizes) == {2 * 2 * 4 * 32 * 4}
    answer = seqloom("generate", tmp_path / "out", "Once", "--mode", "stream", "--max-tokens", 60)
    assert answer.code == 0
    assert f"a state of at most {sizes[0]:,} bytes" in answer.err


def test_evaluate_and_distil_agree(seqloom: Seqloom, extractors: Path, distilled: Path, tmp_path: Path) -> None:
    result = distil(extractors, 5, tmp_path / "out", data="stories:3:9", step=STEP)
    for folder, loss in zip((extractors, distilled), [scores.loss for scores in result.scores], strict=True):
        printed = json.loads(seqloom("evaluate", folder, "--data", "stories:3:9", "--json").out)
        assert printed["held_out"] == pytest.approx(loss, rel=1e-6)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda run: (run / "tokenizer.json").unlink(), "no tokenizer"),
        (lambda run: None, "the held-out part of stories:200:0"),
        (
            lambda run: edit(run / "config.json", lambda message: message["data"].update(identity="other")),
            "belongs to other settings",
        ),
    ],
)
def test_a_run_without_its_text(
    seqloom: Seqloom, extractors: Path, tmp_path: Path, change: Callable[[Path], object], words: str
) -> None:
    run = tmp_path / "run"
    shutil.copytree(extractors, run)
    change(run)
    answer = seqloom("study", "poles", run, "--order", 2, "--out", tmp_path / "out")
    assert words in answer.out + answer.err


def test_a_text_that_changed_is_not_predicted(seqloom: Seqloom, tmp_path: Path) -> None:
    """What was held out of it then may have been learned."""
    text = tmp_path / "text.jsonl"
    text.write_text("".join(json.dumps({"text": document.text}) + "\n" for document in read("stories:40:1")))
    run = run_of(tmp_path / "run", {"kind": "me"}, source=str(text))
    changes = [
        (lambda: None, "the held-out part of "),
        (lambda: text.write_text(text.read_text() + '{"text": "One more."}\n'), "no longer the text"),
        (text.unlink, "no such file"),
    ]
    for number, (change, words) in enumerate(changes):
        change()
        answer = seqloom("study", "poles", run, "--order", 2, "--out", tmp_path / f"out{number}")
        assert answer.code == 0
        assert words in answer.out
        assert ("not measured" in answer.out) == bool(number)


def test_the_run_records_its_origin(extractors: Path, distilled: Path) -> None:
    before, written = (json.loads((run / "config.json").read_text()) for run in (extractors, distilled))
    assert written["data"] == before["data"]  # `evaluate` reads text as the run's own was
    assert written["distilled"] == {"run": find_run(extractors).identity, "step": STEP, "order": 5}


def test_a_model_that_was_never_trained_names_no_text(seqloom: Seqloom, tmp_path: Path) -> None:
    face.save(face.decoder("we", vocab=300, dim=8, depth=1, context=12), tmp_path / "run")
    answer = seqloom("study", "poles", tmp_path / "run", "--order", 2, "--out", tmp_path / "out")
    assert answer.code == 0
    assert "not measured: the run has no tokenizer" in answer.out
    assert face.load(tmp_path / "out").config.mixer.kind == "modal_extractor"
    assert (
        seqloom("study", "poles", tmp_path / "run", "--order", 2, "--out", tmp_path / "o", "--data", "stories:3").code
        == 2
    )


REFUSED = [
    ("order-zero", ["{run}", "--order", "0", "--out", "new"], ("1 … 7", "not 0", "smaller")),
    ("order-large", ["{run}", "--order", "8", "--out", "new"], ("1 … 7", "not 8")),
    ("order-none", ["{run}", "--out", "new"], ("Missing option '--order'",)),
    ("order-word", ["{run}", "--order", "two", "--out", "new"], ("--order", "integer")),
    ("out-none", ["{run}", "--order", "3"], ("Missing option '--out'",)),
    ("out-there", ["{run}", "--order", "3", "--out", "{run}"], ("exists already", "choose another --out")),
    ("no-run", ["nowhere", "--order", "3", "--out", "new"], ("nowhere does not exist",)),
    ("step", ["{run}", "--order", "3", "--out", "new", "--step", "9"], ("step 9", "there is 3")),
    ("she", ["{she}", "--order", "3", "--out", "new"], ("no taps for poles", "she's taps are matrices")),
    ("data", ["{run}", "--order", "3", "--out", "new", "--source", "nothing.txt"], ("nothing.txt", "no such file")),
]


@pytest.mark.parametrize(("arguments", "words"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_refusals_of_poles_study(
    seqloom: Seqloom,
    extractors: Path,
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    words: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = seqloom("study", "poles", *(word.format(run=extractors, she=trained) for word in arguments))
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.count("\n") == 1
    assert all(word in answer.err for word in words), answer.err
    assert not (tmp_path / "new").exists()


def test_what_was_distilled_has_no_taps_left(seqloom: Seqloom, tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", {"kind": "he"}, {"kind": "attention"})
    assert seqloom("study", "poles", run, "--order", 2, "--out", tmp_path / "once").code == 0
    again = seqloom("study", "poles", tmp_path / "once", "--order", 2, "--out", tmp_path / "twice")
    assert again.code == 2
    assert "attention is no Extractor; modal_extractor is no Extractor" in again.err
