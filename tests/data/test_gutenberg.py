"""Books of Project Gutenberg from a local server: retries, checks, and removal of the license text."""

import hashlib
import http.server
import json
import socket
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from seqloom.data.children_books import CHILDREN
from seqloom.data.corpora import read
from seqloom.data.gutenberg import books, strip


def ebook(text: str, *, tight: bool = False) -> bytes:
    blank = "" if tight else " "
    start = f"***{blank}START OF THE PROJECT GUTENBERG EBOOK A LONG\r\nTITLE{blank}***"
    end = f"***{blank}END OF THE PROJECT GUTENBERG EBOOK A LONG TITLE{blank}***\r\nlicence\r\n"
    return f"\ufeffThe Project Gutenberg eBook\r\n{start}\r\n\r\n{text}\r\n\r\n{end}".encode()


class Shelf(http.server.BaseHTTPRequestHandler):
    """Answers each path with its next prepared (status, body, declared length); the last one stays."""

    answers: dict[str, list[tuple[int, bytes, int]]]
    asked: Counter

    def do_GET(self) -> None:
        result = self.answers.get(self.path, [(404, b"", 0)])
        status, body, length = result[min(self.asked[self.path], len(result) - 1)]
        self.asked[self.path] += 1
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def shelf(monkeypatch) -> Iterator[tuple[str, type[Shelf]]]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    kind = type("OneShelf", (Shelf,), {"answers": {}, "asked": Counter()})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", kind
    server.shutdown()
    server.server_close()


def put(kind: type[Shelf], id: int, *answers: tuple[int, bytes] | tuple[int, bytes, int]) -> str:
    path = f"/{id}/pg{id}.txt"
    kind.answers[path] = [
        (answer[0], answer[1], answer[2] if len(answer) > 2 else len(answer[1])) for answer in answers
    ]
    kind.asked[path] = 0
    return path


def test_books_are_fetched_once_and_recorded(shelf, tmp_path) -> None:
    address, kind = shelf
    paths = [put(kind, 11, (200, ebook("Alice"))), put(kind, 16, (200, ebook("Peter\r\nPan", tight=True)))]
    for _ in range(2):
        result = books([16, 11], address=address + "/", cache=tmp_path, pause=0)
        assert result == [(16, "Peter\nPan\n"), (11, "Alice\n")]
    assert [kind.asked[path] for path in paths] == [1, 1]
    recorded = json.loads((tmp_path / "gutenberg" / "sha256.json").read_text())
    assert recorded["11"] == hashlib.sha256(ebook("Alice")).hexdigest()


def test_failures_that_pass_are_tried_again(shelf, tmp_path, capsys) -> None:
    address, kind = shelf
    whole = ebook("Alice")
    path = put(kind, 11, (500, b""), (200, whole[:50], len(whole)), (429, b""), (200, whole))
    assert books([11], address=address, cache=tmp_path, pause=0) == [(11, "Alice\n")]
    assert kind.asked[path] == 4
    output = capsys.readouterr().err
    assert all(
        words in output for words in ("answered 500", "broke off after 50 bytes", "answered 429", "trying again")
    )


def test_a_damaged_book_is_fetched_again(shelf, tmp_path, capsys) -> None:
    address, kind = shelf
    path = put(kind, 11, (200, ebook("Alice")))
    books([11], address=address, cache=tmp_path, pause=0)
    (tmp_path / "gutenberg" / "pg11.txt").write_bytes(ebook("Alibe"))
    assert books([11], address=address, cache=tmp_path, pause=0) == [(11, "Alice\n")]
    assert kind.asked[path] == 2
    assert "fetching it again" in capsys.readouterr().err
    (tmp_path / "gutenberg" / "pg11.txt").unlink()
    put(kind, 11, (200, ebook("Another Alice")))
    with pytest.raises(ValueError, match="not the text that was first downloaded"):
        books([11], address=address, cache=tmp_path, pause=0)
    assert not (tmp_path / "gutenberg" / "pg11.txt").exists()


@pytest.mark.parametrize(
    ("answer", "asked", "error", "message"),
    [
        ((404, b""), 1, FileNotFoundError, "answered 404"),
        ((503, b""), 3, ConnectionError, "could not reach .*503"),
        ((403, b""), 1, ConnectionError, "could not reach .*403"),
        ((200, ebook("x")[:60], 1000), 3, ConnectionError, "broke off"),
        ((200, ebook("x")[:-60]), 1, ValueError, "END mark missing"),
        ((200, b"<html>blocked</html>"), 1, ValueError, "START mark missing"),
        ((200, b"\xff\xfe"), 1, ValueError, "byte offset 0"),
    ],
)
def test_permanent_failures_are_reported(
    shelf, tmp_path, answer, asked: int, error: type[Exception], message: str
) -> None:
    address, kind = shelf
    path = put(kind, 11, answer)
    with pytest.raises(error, match=message) as caught:
        books([11], address=address, cache=tmp_path, attempts=3, pause=0)
    assert "pass --data FOLDER" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert kind.asked[path] == asked
    assert not (tmp_path / "gutenberg").exists()


def test_no_network_gives_advice(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ConnectionError, match=r"could not reach .*; put the books as \.txt files in a folder"):
        books([11], address=f"http://127.0.0.1:{port}", cache=tmp_path, attempts=2, pause=0)


@pytest.mark.slow
def test_the_named_corpus_is_the_hundred(shelf, tmp_path, monkeypatch) -> None:
    address, kind = shelf
    for id in CHILDREN:
        put(kind, id, (200, ebook(f"Book {id}")))
    monkeypatch.setenv("SEQLOOM_GUTENBERG", address)
    result = list(read("gutenberg-children", cache=tmp_path))
    assert len(CHILDREN) == len(set(CHILDREN)) == len(result) == 100
    assert [document.text for document in result] == [f"Book {id}\n" for id in CHILDREN]


def test_a_damaged_record_is_reported(tmp_path) -> None:
    (tmp_path / "gutenberg").mkdir()
    (tmp_path / "gutenberg" / "sha256.json").write_text("[1")
    with pytest.raises(ValueError, match="move it elsewhere"):
        books([11], cache=tmp_path)


def test_the_old_last_line_goes_too() -> None:
    text = "He lived.\r\n\r\nTHE END\r\n\r\nEnd of the Project Gutenberg EBook of Alice, by\r\nLewis Carroll"
    assert strip(ebook(text), "a") == "He lived.\n\nTHE END\n"
