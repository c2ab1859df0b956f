"""Texts side by side: each is the text that it is alone, whenever the others join, leave, are cancelled or late."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from seqloom.generation.batcher import IDLE, Batcher
from seqloom.generation.decode import generate
from seqloom.generation.requests import Request
from seqloom.generation.sample import Sampling
from seqloom.generation.text import TextCutter
from seqloom.models.decoder import Decoder

Build = Callable[..., Decoder]


def prompts(count: int, longest: int = 30) -> list[list[int]]:
    draw = np.random.default_rng(count)
    return [draw.integers(1, 11, int(draw.integers(1, longest))).tolist() for _ in range(count)]


def sampling(number: int) -> Sampling:
    """Of four kinds, with a seed for each text."""
    kinds: list[dict[str, Any]] = [
        {},
        {"temperature": 0.0},
        {"top_p": 0.8, "min_p": 0.01},
        {"presence_penalty": 1.0, "repetition_penalty": 1.3},
    ]
    return Sampling(**kinds[number % 4], seed=number)


def alone(model: Decoder, prompt: list[int], way: Sampling, **reading: Any) -> list[int]:
    return list(generate(model, prompt, way, **reading))


@pytest.mark.parametrize("kind", ["attention", "he", "gated_delta", "mamba2", "gru", "transformer_xl"])
def test_alone_and_among_31_others(decoder: Build, kind: str) -> None:
    """They come two at each step, with prompts and lengths of their own."""
    model = decoder({"kind": kind, "heads": 2} if kind == "attention" else kind)
    batcher = Batcher(model, rows=32, mode="stream", piece=20)
    requests = [Request(ids, 20 + n % 9, sampling(n)) for n, ids in enumerate(prompts(32))]
    most = 0
    for n in range(0, 32, 2):
        batcher.submit(requests[n : n + 1])
        batcher.submit(requests[n + 1 : n + 2])
        batcher.step()
        most = max(most, sum(slot.request is not None for slot in batcher._slots))
    batcher.run()
    assert most >= 16
    for request in requests:
        reading = {"mode": "stream", "max_tokens": request.max_tokens}
        assert request.ids == alone(model, request.prompt, request.sampling, **reading)
        assert request.end == "length"


@pytest.mark.parametrize("hop", [1, 2, 6])
@pytest.mark.parametrize("kind", ["he", "gru", "windowed"])
def test_windows_that_slide_in_batcher(decoder: Build, windowed: Any, kind: str, hop: int) -> None:
    model = decoder(windowed if kind == "windowed" else kind, position="learned")
    batcher = Batcher(model, rows=3, hop=hop)
    requests = [Request(ids, 14, sampling(n)) for n, ids in enumerate(prompts(6, longest=12))]
    for request in requests:
        batcher.submit([request])
    batcher.run()
    for request in requests:
        assert request.ids == alone(model, request.prompt, request.sampling, max_tokens=14, hop=hop)


def test_samples_of_a_prompt_that_is_read_once(decoder: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    model, read = decoder("he"), []
    original = model.read
    monkeypatch.setattr(model, "read", lambda ids, state: read.append(ids.shape[1]) or original(ids, state))
    batcher = Batcher(model, rows=4, piece=8)
    requests = [Request([1, 2, 3] * 5, 6, Sampling(seed=seed)) for seed in range(9)]
    batcher.submit(requests)
    batcher.run()
    assert read == [8, 7]
    monkeypatch.undo()
    assert [request.ids for request in requests] == [alone(model, r.prompt, r.sampling, max_tokens=6) for r in requests]


def test_a_long_prompt_is_read_in_pieces_while_the_others_go_on(decoder: Build) -> None:
    batcher = Batcher(decoder("gru"), piece=10)
    short, long = Request([1], 50, Sampling()), Request([1, 2] * 50, 3, Sampling())
    batcher.submit([short])
    batcher.step()
    batcher.submit([long])
    for number in range(10):
        assert (len(short.tokens), len(long.tokens)) == (1 + number, 0)
        batcher.step()
    assert (len(short.tokens), len(long.tokens)) == (11, 1)


def test_free_slots_and_fewer_slots(decoder: Build) -> None:
    """Learned positions: a free slot may not read beyond them either; and slots that are not needed go."""
    model = decoder("he", position="learned", context=40)
    batcher = Batcher(model, rows=8, hop=40)
    lengths = [3, 35, 4, 5, 6, 7, 8, 30]
    requests = [Request([1, 2], length, Sampling(seed=length)) for length in lengths]
    for request in requests:
        batcher.submit([request])
    batcher.step()
    assert len(batcher._slots) == 8
    while batcher.busy:
        batcher.step()
        running = sum(request.end is None for request in requests)
        assert len(batcher._slots) <= max(4 * running, 1)
    late = Request([3], 39 + IDLE, Sampling())
    batcher.submit([late])
    batcher.run()
    for request in [*requests, late]:
        assert request.ids == alone(model, request.prompt, request.sampling, max_tokens=request.max_tokens, hop=40)


def test_cancelled_and_late(decoder: Build) -> None:
    now = [0.0]
    model = decoder("gru")
    batcher = Batcher(model, rows=2, clock=lambda: now[0])
    kept, gone, late, waiting = (Request([n + 1], 12, Sampling(seed=n)) for n in range(4))
    late.deadline = 5.0
    waiting.deadline = 7.0
    for request in (kept, gone, late, waiting):
        batcher.submit([request])
    for _ in range(3):
        batcher.step()
    gone.cancel()
    batcher.step()
    assert (gone.end, len(gone.tokens)) == ("cancelled", 3)
    now[0] = 6.0
    assert late in batcher.step()
    assert late.end == "late"
    now[0] = 8.0
    batcher.run()
    assert (kept.end, waiting.end) == ("length", "late")
    assert kept.ids == alone(model, [1], kept.sampling, max_tokens=12)
    assert not batcher.busy


def test_texts_stops_and_probabilities(decoder: Build, letters: Any) -> None:
    model = decoder("he")
    model.tokenizer = letters
    whole = "".join(generate(model, "ab", max_tokens=40, ignore_eos=True, seed=3))
    stop = whole[9:12]
    batcher = Batcher(model)
    ids = letters.encode("ab")
    stopped = Request(ids, 40, Sampling(seed=3), cutter=TextCutter(letters, [stop], ids), others=3)
    ended = Request(ids, 80, Sampling(seed=2), eos=0, cutter=TextCutter(letters, (), ids))
    for request in (stopped, ended):
        batcher.submit([request])
    batcher.run()
    assert (stopped.end, stopped.text) == ("stop", whole[: whole.index(stop)])
    assert (ended.end, ended.text) == ("eos", "".join(generate(model, "ab", max_tokens=80, seed=2)))
    token = stopped.tokens[2]
    log_p = model(torch.tensor([ids + stopped.ids[:2]]))[0, -1].log_softmax(0).detach()
    assert token.log_p == pytest.approx(float(log_p[token.id]), abs=1e-9)
    assert [id for id, _ in token.others] == log_p.topk(3).indices.tolist()
    assert ended.tokens[0].log_p is None


def test_a_text_that_fails_does_not_disturb_the_others(decoder: Build) -> None:
    model = decoder("gru")
    with torch.no_grad():
        model.token.weight[9] = float("nan")
    batcher = Batcher(model)
    good, bad = Request([1], 5, Sampling(temperature=0.0)), Request([9], 5, Sampling())
    for request in (good, bad):
        batcher.submit([request])
    batcher.run()
    assert (bad.end, bad.ids) == ("failed", [])
    assert "not finite" in bad.error
    assert good.end == "length"


def test_what_is_refused(decoder: Build) -> None:
    model = decoder("he", position="learned")
    batcher = Batcher(model, mode="stream")
    for request, words in (
        (Request([], 3, Sampling()), "the prompt is empty"),
        (Request([99], 3, Sampling()), "token id 99 of the prompt"),
        (Request([1], 0, Sampling()), "max_tokens must be at least 1"),
        (Request([1] * 5, 3, Sampling()), "would read 7 tokens"),
    ):
        with pytest.raises(ValueError, match=words):
            batcher.submit([request])
    assert not batcher.busy
    for settings, words in (({"rows": 0}, "rows must be 1 or more"), ({"hop": 9}, "hop must lie in")):
        with pytest.raises(ValueError, match=words):
            Batcher(model, **settings)
