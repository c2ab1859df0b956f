"""Requests that are wrong or malicious: an error in one line, in OpenAI's form; no fault of the server, and no hang."""

import shutil
import socket
from typing import Any

import pytest

from tests.play.conftest import Served

GOOD: dict[str, Any] = {"model": "runs/gru", "prompt": "Once", "max_tokens": 3}
WRITE: dict[str, Any] = {"models": ["runs/gru"], "prompt": "Once", "max_tokens": 3}
SCORE: dict[str, Any] = {"model": "runs/gru", "text": "Once"}
DEPENDS: dict[str, Any] = {"model": "runs/gru", "ids": [1, 2, 3], "position": 2}
PLOTS: dict[str, Any] = {"model": "runs/gru", "ids": [1, 2, 3], "layer": 0}
BODIES: dict[str, list[tuple[dict[str, Any], int, str]]] = {
    "/v1/completions": [
        ({"model": None}, 400, "model"),
        ({"model": 3}, 400, "model"),
        ({"model": "x" * 5000}, 400, "model"),
        ({"model": "runs/none"}, 404, "there is no model 'runs/none'"),
        ({"model": "../../etc/passwd"}, 404, "there is no model"),
        ({"model": "<script>alert(1)</script>"}, 404, "there is no model"),
        ({"model": "runs/damaged"}, 400, "safetensors"),
        ({"model": "runs/nan"}, 400, "logits are not finite"),
        ({"prompt": None}, 400, "prompt"),
        ({"prompt": ""}, 400, "the prompt is empty"),
        ({"prompt": []}, 400, "prompt holds 1 to 16"),
        ({"prompt": {"a": 1}}, 400, "prompt"),
        ({"prompt": [1.5]}, 400, "prompt is a text"),
        ({"prompt": [True, False]}, 400, "prompt is a text"),
        ({"prompt": [10**30]}, 400, "lies outside any vocabulary"),
        ({"prompt": [-1]}, 400, "lies outside the model's vocabulary"),
        ({"prompt": [99_999]}, 400, "lies outside the model's vocabulary"),
        ({"prompt": [[1], "a", None]}, 400, "prompt is a text"),
        ({"prompt": ["a"] * 17}, 400, "prompt holds 1 to 16"),
        ({"prompt": [[]]}, 400, "the prompt is empty"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"max_tokens": -1}, 400, "max_tokens"),
        ({"max_tokens": 1.5}, 400, "max_tokens"),
        ({"max_tokens": "3"}, 400, "max_tokens"),
        ({"max_tokens": 10**9}, 400, "max_tokens"),
        ({"temperature": -1}, 400, "temperature"),
        ({"temperature": "hot"}, 400, "temperature"),
        ({"temperature": 1e300}, 400, "temperature"),
        ({"top_p": 0}, 400, "top_p"),
        ({"top_p": 2}, 400, "top_p"),
        ({"top_k": 0}, 400, "top_k"),
        ({"min_p": 1.5}, 400, "min_p"),
        ({"n": 0}, 400, "n:"),
        ({"n": 1000}, 400, "n:"),
        ({"n": True}, 400, "n:"),
        ({"stream": "yes"}, 400, "stream"),
        ({"stream_options": {"include_usage": True}}, 400, "stream_options are for a stream"),
        ({"stream_options": {"more": 1}, "stream": True}, 400, "more"),
        ({"stop": ""}, 400, "empty string"),
        ({"stop": [""]}, 400, "empty string"),
        ({"stop": [1]}, 400, "stop"),
        ({"stop": ["x"] * 1000}, 400, "stop holds at most 16"),
        ({"stop": "x" * 1000}, 400, "stop holds at most"),
        ({"seed": "1"}, 400, "seed"),
        ({"seed": 1.5}, 400, "seed"),
        ({"logprobs": 1000}, 400, "logprobs"),
        ({"logprobs": True}, 400, "logprobs"),
        ({"presence_penalty": 9}, 400, "presence_penalty"),
        ({"frequency_penalty": 0.5}, 400, "frequency_penalty is not supported"),
        ({"repetition_penalty": 0}, 400, "repetition_penalty"),
        ({"echo": True}, 400, "echo is not supported"),
        ({"best_of": 3}, 400, "best_of is not supported"),
        ({"suffix": "end"}, 400, "suffix is not supported"),
        ({"logit_bias": {"1": 3}}, 400, "logit_bias is not supported"),
        ({"tempreature": 1}, 400, "did you mean 'temperature'"),
        ({"a" * 300: 1}, 400, "unknown setting"),
    ],
    "/api/write": [
        ({"models": []}, 400, "models"),
        ({"models": ["runs/gru"] * 5}, 400, "models"),
        ({"models": ["runs/none"]}, 404, "there is no model"),
        ({"models": ["runs/damaged"]}, 400, "safetensors"),
        ({"prompt": ""}, 400, "prompt"),
        ({"samples": 99}, 400, "samples"),
        ({"stop": [""]}, 400, "empty string"),
        ({"seed": 2**32}, 400, "seed"),
    ],
    "/api/score": [
        ({"text": ""}, 400, "text"),
        ({"text": "a" * 30_000}, 400, "text"),
        ({"model": "x"}, 404, "no model"),
        ({"model": "runs/nan"}, 400, "numbers are not finite"),
    ],
    "/api/depends": [
        ({"position": 0}, 400, "position"),
        ({"position": 3}, 400, "position 3 lies outside"),
        ({"ids": [1, 2, 99_999]}, 400, "token ids lie in"),
        ({"ids": [1]}, 400, "ids"),
        ({"model": "runs/nan"}, 400, "numbers are not finite"),
    ],
    "/api/plots": [
        ({"layer": -1}, 400, "layer"),
        ({"layer": 2}, 400, "it has 2 layers of mixers"),
        ({"layer": 10**30}, 400, "layer"),
        ({"ids": []}, 400, "ids"),
        ({"ids": [-1]}, 400, "token ids lie in"),
        ({"ids": [1] * 30_000}, 400, "ids"),
        ({"model": "runs/none"}, 404, "no model"),
        ({"model": "runs/nan"}, 400, "numbers are not finite"),
    ],
}
STARTS = {
    "/v1/completions": GOOD,
    "/api/write": WRITE,
    "/api/score": SCORE,
    "/api/depends": DEPENDS,
    "/api/plots": PLOTS,
}
TABLE = [(path, change, status, words) for path, rows in BODIES.items() for change, status, words in rows]


def require_error(response: Any, status: int, words: str) -> None:
    assert response.status_code == status, response.text[:300]
    error = response.json()["error"]
    assert words in error["message"]
    assert "\n" not in error["message"]
    assert len(error["message"]) <= 500
    assert set(error) == {"message", "type", "param", "code"}


def test_there_are_enough() -> None:
    assert len(TABLE) >= 60


@pytest.mark.parametrize(("path", "change", "status", "words"), TABLE, ids=lambda value: str(value)[:40])
def test_wrong_bodies(served: Served, path: str, change: dict[str, Any], status: int, words: str) -> None:
    with served.client() as client:
        require_error(client.post(path, json={**STARTS[path], **change}), status, words)


@pytest.mark.parametrize(
    ("data", "status", "words"),
    [
        (b"", 400, "not JSON"),
        (b"{", 400, "not JSON"),
        (b'{"prompt": "\xff"}', 400, "not JSON"),
        (b'{"model": "runs/gru", "prompt": "Once", "temperature": NaN}', 400, "not JSON"),
        (b'{"model": "runs/gru", "prompt": "Once", "temperature": Infinity}', 400, "not JSON"),
        (b'{"model": "runs/gru", "prompt": "Once", "temperature": 1e999}', 400, "temperature"),
        (b'{"model": "runs/gru", "prompt": "Once", "seed": 1' + b"0" * 5000 + b"}", 400, "not JSON"),
        (b'{"model": "runs/gru", "prompt": "\\ud800"}', 400, "not valid Unicode"),
        (b"[" * 100_000, 400, "not JSON"),
        (b"[1, 2]", 400, "a JSON object"),
        (b"null", 400, "a JSON object"),
        (b'{"prompt": "' + b"a" * 10_000_000 + b'"}', 413, "larger than 1,048,576 bytes"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_wrong_bytes(served: Served, data: bytes, status: int, words: str) -> None:
    with served.client() as client:
        headers = {"Content-Type": "application/json"}
        require_error(client.post("/v1/completions", content=data, headers=headers), status, words)


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("POST", "/v1/completions", {"Content-Type": "text/plain"}, 415),
        ("POST", "/v1/completions", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ("GET", "/v1/models", {"Host": "evil.example"}, 403),
        ("GET", "/v1/models", {"Host": "127.0.0.1"}, 403),
        ("GET", "/v1/models", {"Origin": "https://evil.example"}, 403),
        ("GET", "/v1/models", {"Origin": "null"}, 403),
        ("GET", "/v1/completions", {}, 405),
        ("DELETE", "/", {}, 405),
        ("GET", "/../../etc/passwd", {}, 404),
        ("GET", "/page/%2e%2e/app.py", {}, 404),
        ("GET", "/v1/models/..%2f..", {}, 404),
        ("GET", "/api/model", {}, 404),
        ("GET", "/api/model?name=runs/damaged", {}, 400),
    ],
)
def test_wrong_addresses_and_headers(
    served: Served, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    with served.client() as client:
        data = {"content": b"{}"} if method == "POST" else {}
        require_error(client.request(method, path, headers=headers, **data), status, "")  # type: ignore[arg-type]


def test_connections_that_end_in_the_middle(served: Served) -> None:
    """Half a request, half a body, a body that ends early, no HTTP at all: the next request is answered."""
    head = f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nContent-Type: application/json\r\n"
    for data in (
        b"POST /v1/comp",
        head.encode(),
        (head + "Content-Length: 100\r\n\r\n{").encode(),
        (head + "Transfer-Encoding: chunked\r\n\r\nZZ\r\n").encode(),
        b"\x16\x03\x01\x00\xa5\x01\x00",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20_000,
    ):
        for half in (False, True):
            with socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection:
                connection.sendall(data)
                if half:
                    connection.shutdown(socket.SHUT_WR)
        with served.client() as client:
            assert client.get("/v1/models").status_code == 200


def test_a_run_that_is_removed_while_the_server_runs(served: Served) -> None:
    from tests.play.conftest import save_model

    folder = served.runs / "gone"
    save_model(folder, "gru", 5)
    served.engine.library._folders["runs/gone"] = folder
    shutil.rmtree(folder)
    with served.client() as client:
        require_error(client.post("/v1/completions", json={**GOOD, "model": "runs/gone"}), 404, "gone")
    del served.engine.library._folders["runs/gone"]


def test_strings_of_a_run_stay_strings(served: Served) -> None:
    """The page shows names and texts as text: nothing in it makes elements of a string."""
    with served.client() as client:
        script = "".join(client.get(f"/{name}.js").text for name in ("common", "text", "play"))
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in script
