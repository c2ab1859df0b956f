"""`generate` prints what the Python function returns, with a draft, exits and beams too."""

import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import seqloom as face
from seqloom.generation.decode import Continuation
from tests.cli.conftest import STEP, Seqloom


@pytest.mark.slow
def test_generate_is_the_same_by_seed(seqloom: Seqloom, trained: Path) -> None:
    ask = ("generate", trained, "Once upon", "--max-tokens", 40)
    seqloom(*ask)  # which compiles what is not compiled yet, and says so
    first, same, other = seqloom(*ask), seqloom(*ask, "--seed", 0), seqloom(*ask, "--seed", 1)
    assert first.code == 0
    assert first.out.startswith("Once upon")
    assert first.out.endswith("\n")
    assert first == same
    assert first.out != other.out
    assert first.err.startswith("all 40 tokens: reads ")


@pytest.mark.slow
def test_generate_prints_the_text_of_the_python_interface(seqloom: Seqloom, trained: Path) -> None:
    settings: dict[str, Any] = {"max_tokens": 30, "temperature": 0.7, "top_k": 50, "top_p": 0.9, "seed": 3, "hop": 4}
    options = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    text = "".join(face.generate(face.load(trained), "Once", stop=["e", "th"], **settings))
    assert seqloom("generate", trained, "Once", *options, "--stop", "e", "--stop", "th").out == f"Once{text}\n"
    read = seqloom("generate", trained, "Once", "--mode", "stream", "--max-tokens", 5, "--step", STEP)
    assert read.out == "Once" + "".join(face.generate(face.load(trained), "Once", mode="stream", max_tokens=5)) + "\n"


def test_generate_prints_each_piece_at_once(
    seqloom: Seqloom, trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []

    def slowly() -> Generator[str, None, None]:
        for piece in ("a", "b"):
            yield piece
            shown.append(capsys.readouterr().out)

    monkeypatch.setattr("seqloom.cli.work.generation.generate", lambda *_, **__: Continuation(slowly(), None))
    rest = seqloom("generate", trained, "Once ")
    assert [*shown, rest.out] == ["Once a", "b", "\n"]


@pytest.mark.slow
def test_generate_several_texts(seqloom: Seqloom, trained: Path) -> None:
    """Each is the text of its seed."""
    how = ("--max-tokens", 8, "--top-p", 0.9, "--min-p", 0.001, "--presence-penalty", 0.5, "--repetition-penalty", 1.1)
    answer = seqloom("generate", trained, "Once", "The end", "--samples", 2, "--seed", 3, *how)
    singles = [
        seqloom("generate", trained, prompt, "--seed", seed, *how).out
        for prompt in ("Once", "The end")
        for seed in (3, 4)
    ]
    seeds = (3, 4, 3, 4)
    assert answer.out == "".join(
        f"{n}. seed {seed}\n{text}" for n, (seed, text) in enumerate(zip(seeds, singles, strict=True), 1)
    )
    for options, words in (
        (("--beams", 2), "--beams writes one text"),
        (("--exit", 0.5), "--exit writes one text"),
        (("--compile",), "--compile writes one text"),
    ):
        refused = seqloom("generate", trained, "Once", "The end", *options)
        assert (refused.code, words in refused.err, len(refused.err.splitlines())) == (2, True, 1)


@pytest.mark.slow
def test_generate_with_a_draft(seqloom: Seqloom, trained: Path) -> None:
    """A run that drafts for itself writes its own greedy text; the price says what came of the drafts."""
    ask = ("generate", trained, "Once", "--max-tokens", 12, "--temperature", 0)
    plain, drafted = seqloom(*ask), seqloom(*ask, "--draft", trained, "--drafts", 3)
    assert (drafted.code, drafted.out) == (0, plain.out)
    assert drafted.err == "12 tokens in 3 readings of the large model; 9 of 9 drafts stayed (100%)\n"
    bold = seqloom(*ask, "--draft", trained, "--confidence", 0.9, "--take-back", 1)
    assert bold.out == plain.out
    assert "of which it would have written otherwise" in bold.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--drafts", 2), "--drafts needs a draft model: add --draft RUN"),
        (("--confidence", 0.5), "--confidence needs a draft model"),
        (("--draft", "nowhere"), "nowhere does not exist"),
        (("--draft", "{run}", "--confidence", 2), "confidence: input should be less than or equal to 1, not 2"),
        (("--draft", "{run}", "--take-back", -1), "take_back: input should be greater than or equal to 0, not -1"),
        (("--draft", "{other}"), "the draft model has another tokenizer"),
    ],
)
def test_an_impossible_draft(
    options: tuple[object, ...], words: str, seqloom: Seqloom, trained: Path, tmp_path: Path
) -> None:
    other = face.decoder("me", vocab=310, dim=4, depth=1, context=8, ffn=4)
    face.save(other, tmp_path / "other", tokenizer=face.load(trained).tokenizer) if "{other}" in options else None
    named = {"{run}": trained, "{other}": tmp_path / "other"}
    answer = seqloom("generate", trained, "Once", *(named.get(str(option), option) for option in options))
    assert answer.code == 2
    assert words in answer.err
    assert len(answer.err.splitlines()) == 1


@pytest.mark.slow
def test_generate_with_exits(seqloom: Seqloom, trained: Path, tmp_path: Path) -> None:
    """The price says how many layers were read, what that saved, and how often the likeliest token changed."""
    tokenizer = face.load(trained).tokenizer
    deep = face.decoder("he", vocab=tokenizer.vocab, dim=8, depth=3, context=24, ffn=16)
    run = face.save(deep, tmp_path / "deep", tokenizer=tokenizer)
    ask = ("generate", run, "Once", "--max-tokens", 10, "--temperature", 0)
    plain, sure = seqloom(*ask), seqloom(*ask, "--exit", 1)
    assert (sure.code, sure.out) == (0, plain.out)
    assert sure.err.startswith("3.00 of 3 layers on average over 9 tokens; ")
    bold = seqloom(*ask, "--exit", 0, "--exit-by", "state")
    assert bold.code == 0
    assert float(bold.err.split(" ")[0]) < float(sure.err.split(" ")[0])
    assert "the likeliest token differs in" in bold.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--exit", 1.5), "the threshold of exits is from 0 to 1, not 1.5"),
        (("--exit", 0.5, "--exit-by", "stat"), "did you mean 'state'"),
        (("--exit-by", "state"), "add --exit, or leave it out"),
        (("--exit-from", 1), "--exit-from needs a threshold: add --exit"),
        (("--exit", 0.5, "--exit-from", 2), "exits after layer 2 and later lie beyond the model's depth of 1"),
        (("--exit", 0.5, "--draft", "{run}"), "leave out neighbors and exits, or the draft"),
    ],
)
def test_an_impossible_exit(options: tuple[object, ...], words: str, seqloom: Seqloom, trained: Path) -> None:
    answer = seqloom("generate", trained, "Once", *(trained if option == "{run}" else option for option in options))
    assert answer.code == 2
    assert words in answer.err
    assert len(answer.err.splitlines()) == 1


@pytest.mark.slow
def test_the_best_texts_of_a_beam_search(seqloom: Seqloom, trained: Path) -> None:
    one = seqloom("generate", trained, "Once", "--max-tokens", 4, "--beams", 3)
    three = seqloom("generate", trained, "Once", "--max-tokens", 4, "--beams", 3, "--best", 3, "--length-penalty", 0.6)
    assert (one.code, three.code) == (0, 0)
    assert one.out.startswith("Once")
    assert re.findall(r"^\d\. log p -\d+\.\d{3}, score -\d+\.\d{3}$", three.out, re.MULTILINE) == [
        line for line in three.out.splitlines() if "score" in line
    ]
    scores = [float(score) for score in re.findall(r"score (-[\d.]+)$", three.out, re.MULTILINE)]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert three.out.split("\n", 1)[1].startswith(one.out), "the best of three is the one"
    assert three.err.startswith("at most 4 tokens in each of 3 beams; a beam of all 4 reads ")
