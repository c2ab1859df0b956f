"""The first pass over a source: its identity, its size, and what was skipped."""

import hashlib
import heapq
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from seqloom.core.progress import progress
from seqloom.data.documents import Documents
from seqloom.data.wraps import is_wrapped

_LONGEST = 5
"""how many of the longest documents a survey names"""


@final
@dataclass(frozen=True)
class Survey:
    """Counts of the first pass over a source; `identity` is that of `Corpus`."""

    identity: str
    documents: int
    bytes: int
    """UTF-8 bytes of all texts before any change"""
    longest: tuple[tuple[str, int], ...]
    """names and bytes of the longest documents, at most five"""
    skipped: dict[str, int]
    """counts of what was left out, by reason"""
    joined: int | None = None
    """documents of hard-wrapped prose, whose lines are joined, if that was decided document by document"""


def survey_documents(documents: Documents, settings: dict[str, object]) -> Survey:
    """Makes the first pass over a source; `settings` are those that shape its ids, and part of its identity."""
    hashed = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    count = total = joined = 0
    decides = settings.get("unwrap") == "auto"
    longest: list[tuple[int, int, str]] = []  # a heap of (bytes, -number, name), so that ties go to the earlier one
    with progress("reading", documents.rows, f"{documents.unit}s") as advance:
        for document in documents:
            raw = document.text.encode()
            hashed.update(len(raw).to_bytes(8, "little"))
            hashed.update(raw)
            count += 1
            total += len(raw)
            joined += decides and is_wrapped(document.text)
            heapq.heappush(longest, (len(raw), -count, document.name))
            if len(longest) > _LONGEST:
                heapq.heappop(longest)
            advance()
    names = tuple((name, size) for size, _, name in sorted(longest, reverse=True))
    return Survey(hashed.hexdigest(), count, total, names, dict(documents.skipped), joined if decides else None)


def join_surveys(surveys: Sequence[Survey]) -> Survey:
    """That of several sources, in their order; of one it is its own."""
    if len(surveys) == 1:
        return surveys[0]
    identity = hashlib.sha256(json.dumps([survey.identity for survey in surveys]).encode()).hexdigest()
    longest = sorted((entry for survey in surveys for entry in survey.longest), key=lambda entry: -entry[1])
    skipped: Counter[str] = Counter()
    for survey in surveys:
        skipped.update(survey.skipped)
    joined = [survey.joined for survey in surveys if survey.joined is not None]
    return Survey(
        identity,
        sum(survey.documents for survey in surveys),
        sum(survey.bytes for survey in surveys),
        tuple(longest[:_LONGEST]),
        dict(skipped),
        sum(joined) if joined else None,
    )
