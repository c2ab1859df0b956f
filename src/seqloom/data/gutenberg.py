"""Books of Project Gutenberg: downloaded once, verified at every later use, without the licence around the text.

    {address}/{id}/pg{id}.txt  →  {cache}/gutenberg/pg{id}.txt, its sha256 in {cache}/gutenberg/sha256.json

The address is the argument, else the environment's `SEQLOOM_GUTENBERG` (a mirror), else gutenberg.org itself.
"""

import hashlib
import http.client
import json
import os
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from seqloom.core.files import read_bytes, read_json
from seqloom.core.progress import progress
from seqloom.data import cache as cached
from seqloom.data.children_books import CHILDREN

_ADDRESS = "https://www.gutenberg.org/cache/epub"
_ADVICE = "put the books as .txt files in a folder and pass --data FOLDER"
LARGEST = 64 << 20
"""the most bytes of a book; the longest has about 6 MB"""
_START = re.compile(r"^\*\*\* ?START OF .{0,400}?\*\*\*[ \t]*$", re.MULTILINE | re.DOTALL)
_END = re.compile(r"^\*\*\* ?END OF ", re.MULTILINE)
_LAST_LINE = re.compile(r"\n+End of (?:the |this )?Project Gutenberg[^\n]*(?:\n[^\n]+)?\s*\Z", re.IGNORECASE)


def books(
    ids: Sequence[int] = CHILDREN,
    *,
    address: str | None = None,
    cache: str | Path | None = None,
    attempts: int = 4,
    pause: float = 1.0,
) -> list[tuple[int, str]]:
    """The texts of ebooks, as (id, text), in the order of `ids`; books that are not in the cache are downloaded.

    A download is tried up to `attempts` times, with pauses of `pause`, 2 · `pause`, 4 · `pause` … seconds. Raises
    ConnectionError where the address cannot be reached, FileNotFoundError where it has no such book, and ValueError
    where a text has no licence marks (it is not a book, or truncated) or differs from the first download.
    """
    address = (address or os.environ.get("SEQLOOM_GUTENBERG") or _ADDRESS).rstrip("/")
    folder = cached.folder(cache) / "gutenberg"
    digests = _digests(folder / "sha256.json")
    texts = []
    with progress("books from Project Gutenberg", len(ids), "books") as advance:
        for id in ids:
            texts.append((id, _book(id, f"{address}/{id}/pg{id}.txt", folder, digests, attempts, pause)))
            advance()
    return texts


def _digests(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    try:
        return {str(id): str(digest) for id, digest in read_json(path).items()}
    except (ValueError, AttributeError) as error:
        raise ValueError(
            f"{path}: damaged; move it elsewhere, and the books in its folder are downloaded again"
        ) from error


def _book(id: int, address: str, folder: Path, digests: dict[str, str], attempts: int, pause: float) -> str:
    """The text of one book, from the cache or from `address`; a downloaded book is cached with its digest."""
    path, expected = folder / f"pg{id}.txt", digests.get(str(id))
    if path.is_file() and expected:
        raw = read_bytes(path, LARGEST)
        if hashlib.sha256(raw).hexdigest() == expected:
            return strip(raw, str(path))
        print(f"{path}: not as it was downloaded; fetching it again", file=sys.stderr)
    raw = _fetch(address, attempts, pause)
    text = strip(raw, address)
    digest = hashlib.sha256(raw).hexdigest()
    if expected and digest != expected:
        advice = f"delete ebook {id} from {folder / 'sha256.json'} to take the new text"
        raise ValueError(
            f"{address}: not the text that was first downloaded (sha256 {digest[:12]}, not {expected[:12]}); {advice}"
        )
    cached.write(path, raw)
    digests[str(id)] = digest
    cached.write(folder / "sha256.json", json.dumps(digests, indent=1, sort_keys=True).encode())
    return text


def strip(raw: bytes, name: str) -> str:
    r"""The text between the licence marks of an ebook, with `\n` line ends. ValueError, naming `name`, without them."""
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: not UTF-8 at byte offset {error.start}; {_ADVICE}") from error
    start = _START.search(text)
    end = _END.search(text, start.end()) if start else None
    if not start or not end:
        raise ValueError(
            f"{name}: not a whole Project Gutenberg text ({'END' if start else 'START'} mark missing); {_ADVICE}"
        )
    return _LAST_LINE.sub("", text[start.end() : end.start()]).strip("\n") + "\n"


def _fetch(address: str, attempts: int, pause: float) -> bytes:
    """The content at an address. Errors as `books` has them."""
    request = urllib.request.Request(address, headers={"User-Agent": "seqloom (text corpus; one book at a time)"})
    reason = ""
    for attempt in range(attempts):
        if attempt:
            wait = pause * 2 ** (attempt - 1)
            print(f"{address}: {reason}; trying again in {wait:g} s", file=sys.stderr)
            time.sleep(wait)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                if (answer.length or 0) > LARGEST:
                    raise ValueError(f"{address}: {answer.length:,} bytes, which is no book; {_ADVICE}")
                body: bytes = answer.read()
                return body
        except urllib.error.HTTPError as error:
            reason = f"the server answered {error.code} {error.reason}"
            error.close()
            if error.code in (404, 410):
                raise FileNotFoundError(f"{address}: {reason}; check the address, or {_ADVICE}") from error
            if error.code < 500 and error.code not in (408, 425, 429):
                break
        except http.client.IncompleteRead as error:
            reason = f"the answer broke off after {len(error.partial)} bytes"
        except (OSError, http.client.HTTPException) as error:
            reason = str(getattr(error, "reason", error)) or type(error).__name__
    raise ConnectionError(f"could not reach {address} ({reason}); {_ADVICE}")
