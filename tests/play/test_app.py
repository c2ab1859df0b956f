"""Completions in OpenAI's form, by the official client and by hand; what the page asks for; texts that are left."""

import asyncio
import json
import time
from concurrent.futures import Future
from typing import Any

import httpx
import openai
import pytest
import torch

import seqloom
from seqloom.core.model import Model
from seqloom.evaluation.surprise import surprise
from seqloom.generation.requests import Request
from seqloom.generation.sample import Sampling
from seqloom.play.app import FILES
from seqloom.play.texts import Texts, _cancel_accepted
from tests.play.conftest import Served


def text_of(served: Served, name: str, prompt: str, **settings: Any) -> str:
    """What `seqloom.generate` writes; `he` slides by a quarter of its window, as the server has it."""
    reading = {"mode": "slide", "hop": 16} if name == "runs/he" else {"mode": "stream"}
    return "".join(seqloom.generate(seqloom.load(served.runs.parent / name), prompt, **reading, **settings))  # type: ignore[arg-type]


@pytest.fixture
def client(served: Served) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0)


def test_models(client: openai.OpenAI) -> None:
    names = ("damaged", "endless", "gru", "he", "nan", "other")
    assert [model.id for model in client.models.list()] == [f"runs/{name}" for name in names]
    assert client.models.retrieve("runs/gru").owned_by == "seqloom"
    with pytest.raises(openai.NotFoundError, match="there is no model 'runs/none'"):
        client.models.retrieve("runs/none")


@pytest.mark.parametrize("name", ["runs/gru", "runs/he"])
def test_it_is_the_text_of_generate(served: Served, client: openai.OpenAI, name: str) -> None:
    how: Any = {"max_tokens": 80, "temperature": 0.9, "top_p": 0.95}
    answer = client.completions.create(model=name, prompt="Once upon", seed=3, n=2, **how)
    assert [choice.text for choice in answer.choices] == [
        text_of(served, name, "Once upon", seed=seed, **how) for seed in (3, 4)
    ]
    ids = seqloom.load(served.runs.parent / name).tokenizer.encode("Once upon")
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == len(ids)
    again = client.completions.create(model=name, prompt=ids, seed=3, **how)
    assert again.choices[0].text == answer.choices[0].text
    pieces = list(client.completions.create(model=name, prompt="Once upon", seed=3, n=2, stream=True, **how))
    for index in (0, 1):
        mine = [piece.choices[0] for piece in pieces if piece.choices[0].index == index]
        assert "".join(piece.text for piece in mine) == answer.choices[index].text
        assert [piece.finish_reason for piece in mine if piece.finish_reason] == [answer.choices[index].finish_reason]


def test_stops_several_prompts_and_probabilities(served: Served, client: openai.OpenAI) -> None:
    how: Any = {"max_tokens": 60, "seed": 5, "temperature": 1.0}
    whole = text_of(served, "runs/gru", "The", max_tokens=60, seed=5)
    stop = whole[6:8]
    answer = client.completions.create(model="runs/gru", prompt=["The", "a dog"], stop=[stop], logprobs=2, **how)
    first, second = answer.choices
    assert first.text == whole[: whole.index(stop)]
    assert second.text == text_of(served, "runs/gru", "a dog", max_tokens=60, seed=5, stop=[stop])
    assert first.finish_reason == "stop"
    logprobs = first.logprobs
    assert logprobs is not None
    assert logprobs.token_logprobs is not None
    assert logprobs.tokens is not None
    assert len(logprobs.tokens) == len(logprobs.token_logprobs)
    model = seqloom.load(served.runs / "gru")
    with torch.no_grad():
        log_p = model(torch.tensor([model.tokenizer.encode("The")]))[0, -1].log_softmax(0)
    assert min(abs(log_p - logprobs.token_logprobs[0])) < 1e-4


def test_usage_at_the_end_of_a_stream(client: openai.OpenAI) -> None:
    options: Any = {"stream": True, "stream_options": {"include_usage": True}}
    *_, last = client.completions.create(model="runs/gru", prompt="Once", max_tokens=4, seed=1, **options)
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens <= 4


def test_the_page_writes_side_by_side(served: Served) -> None:
    body = {"models": ["runs/gru", "runs/he"], "prompt": "Once", "max_tokens": 30, "seed": 2, "samples": 2}
    with served.client() as client:
        events = [json.loads(line) for line in client.post("/api/write", json=body).text.splitlines()]
    heads = [event for event in events if "model" in event]
    tokens = [event for event in events if "log_p" in event]
    assert [head["model"] for head in heads] == body["models"]
    for number, (name, seed) in enumerate([("runs/gru", 2), ("runs/gru", 3), ("runs/he", 2), ("runs/he", 3)]):
        ends = [event for event in events if event.get("text") == number and "end" in event]
        written = "".join(event["piece"] for event in tokens if event["text"] == number)
        assert written + ends[0]["rest"] == text_of(served, name, "Once", max_tokens=30, seed=seed)
    for head in heads:
        assert "--seed 2" in head["command"]
        assert head["parameters"] > 1000
        assert len(head["state"]) > 2
    order = [event["text"] // 2 for event in tokens]
    assert order[: len(order) // 2].count(0) > 2, "they take turns"
    assert order[: len(order) // 2].count(1) > 2, "they take turns"


def test_models_of_different_tokenizers_side_by_side(served: Served) -> None:
    names = ["runs/gru", "runs/other"]
    body = {"models": names, "prompt": "Once é", "max_tokens": 20, "seed": 4}
    with served.client() as client:
        events = [json.loads(line) for line in client.post("/api/write", json=body).text.splitlines()]
    prompts = [event["prompt"] for event in events if "model" in event]
    assert [id for _, id in prompts[0]] != [id for _, id in prompts[1]]
    for number, name in enumerate(names):
        mine = [event for event in events if event.get("text") == number]
        written = "".join(event.get("piece", "") + event.get("rest", "") for event in mine)
        assert written == text_of(served, name, "Once é", max_tokens=20, seed=4)


def test_the_mixers_own_numbers(served: Served) -> None:
    with served.client() as client:
        for name, view in (("gru", "update gate"), ("he", "taps"), ("other", "write")):
            ids = seqloom.load(served.runs / name).tokenizer.encode("Once upon a time")
            body = {"model": f"runs/{name}", "ids": ids, "layer": 1}
            answer = client.post("/api/plots", json=body).json()
            assert answer["layers"] == 2
            assert "".join(answer["tokens"]) == "Once upon a time"
            assert view in [each["name"] for each in answer["views"]]


def test_the_command_gives_the_same_text(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    import shlex

    from seqloom.cli import command

    for model, prompt in (("runs/gru", "Once 'a' $b"), ("runs/he", "-dash")):
        body = {"models": [model], "prompt": prompt, "max_tokens": 12, "seed": 7, "top_p": 0.9, "presence_penalty": 0.5}
        with served.client() as client:
            events = [json.loads(line) for line in client.post("/api/write", json=body).text.splitlines()]
        written = "".join(event.get("piece", "") + event.get("rest", "") for event in events[1:])
        capsys.readouterr()
        assert command(shlex.split(events[0]["command"])[1:]) == 0
        assert capsys.readouterr().out == f"{prompt}{written}\n"


def test_a_scored_text_and_what_a_token_depends_on(served: Served) -> None:
    text = "Once upon a time there was a small dog. " * 4
    with served.client() as client:
        for name in ("gru", "he"):
            model = seqloom.load(served.runs / name)
            answer = client.post("/api/score", json={"model": f"runs/{name}", "text": text}).json()
            assert answer["bits_per_byte"] == pytest.approx(surprise(model, text).bits_per_byte)
            assert "".join(piece for piece, _ in answer["tokens"]) == text
            body = {"model": f"runs/{name}", "ids": answer["ids"][:9], "position": 8}
            assert len(client.post("/api/depends", json=body).json()["changes"]) == 8


def test_live_rows_and_the_page(served: Served) -> None:
    with served.client() as client:
        assert client.get("/api/live").json() == {"runs": []}
        page = client.get("/")
        assert "seqloom play" in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
        size = sum(len(client.get(path).content) for path in FILES)
        assert size < 300_000


def test_reports_in_a_sandbox(served: Served) -> None:
    with served.client() as client:
        assert client.get("/api/reports").json() == {"reports": [str(served.runs / "report.html")]}
        report = client.get("/report?number=0")
        assert "A report" in report.text
        assert report.headers["content-security-policy"].startswith("sandbox allow-scripts")
        assert "allow-same-origin" not in report.headers["content-security-policy"]
        for number in ("1", "-1", "", "x", "²", "9" * 30):
            assert client.get("/report", params={"number": number}).status_code == 404


def test_who_leaves_is_not_written_for(served: Served) -> None:
    """Requests that are closed at their first piece: their slots are free at once, and the next ones are served."""
    body = {"model": "runs/endless", "prompt": "Once", "max_tokens": 16_000, "stream": True, "n": 8}
    for _ in range(12):
        with served.client() as client, client.stream("POST", "/v1/completions", json=body) as response:
            assert response.status_code == 200
            next(response.iter_lines())
    until = time.monotonic() + 30
    while served.engine._asked and time.monotonic() < until:
        time.sleep(0.05)
    assert served.engine._asked == 0
    assert not served.engine._listeners


def test_too_many_at_once(served: Served) -> None:
    body = {"model": "runs/gru", "prompt": ["Once"] * 5, "max_tokens": 100, "n": 16}
    with served.client() as client:
        response = client.post("/v1/completions", json=body)
    assert response.status_code == 429
    assert response.headers["retry-after"] == "1"
    until = time.monotonic() + 30
    while served.engine._asked and time.monotonic() < until:
        time.sleep(0.05)
    assert served.engine._asked == 0


def test_curl_like_text(served: Served) -> None:
    """A body as curl sends it."""
    answer = httpx.post(
        f"{served.url}/v1/completions",
        content=b'{"model": "runs/gru", "prompt": "Once", "max_tokens": 3, "seed": 0}',
        headers={"Content-Type": "application/json; charset=utf-8"},
    ).json()
    assert answer["object"] == "text_completion"
    assert answer["choices"][0]["finish_reason"] in ("length", "stop")


def test_a_client_that_goes_while_its_model_is_loaded(served: Served) -> None:
    """Its texts are accepted when nobody waits for them any more, and then cancelled."""

    async def leave() -> None:
        async with Texts(served.engine) as texts:
            blocked = served.engine.call("runs/gru", lambda model: time.sleep(0.3))
            slow = await asyncio.to_thread(_wait_until_running, blocked)
            asking = asyncio.create_task(texts.add("runs/endless", 1, _endless))
            await asyncio.sleep(0.01)
            asking.cancel()
            assert slow
            with pytest.raises(asyncio.CancelledError):
                await asking

    asyncio.run(leave())
    until = time.monotonic() + 30
    while served.engine._asked and time.monotonic() < until:
        time.sleep(0.05)
    assert served.engine._asked == 0


def _endless(model: Model) -> list[Request]:
    return [Request([1, 2], 16_000, Sampling())]


def _wait_until_running(future: Future[None]) -> bool:
    while not future.running() and not future.done():
        time.sleep(0.001)
    return True


def test_who_is_accepted_after_that_is_cancelled() -> None:
    accepted: Future[list[Request]] = Future()
    request = Request([1], 5, Sampling())
    accepted.set_result([request])
    _cancel_accepted(accepted)
    assert request.cancelled
    failed: Future[list[Request]] = Future()
    failed.set_exception(ValueError("no"))
    _cancel_accepted(failed)
