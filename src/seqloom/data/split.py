"""Which documents are held out of training: chosen by their content, so that neither names nor order matter."""

import hashlib
from collections.abc import Sequence

from seqloom.core.seeds import require_seed
from seqloom.data.corpora import Document


def hold_out(documents: Sequence[Document], part: float, seed: int) -> tuple[list[Document], list[Document]]:
    """Splits into (training, held out); `part` of the characters is held out, by whole documents.

    Texts are walked in the order of sha256(seed, text), and held out until `part` of the characters is reached; a
    text that would bring it beyond twice that is passed over, and if all are, the shortest is held out. Copies of one
    text stay together. A single text is cut instead: its last `part`, from the next blank on, is held out. Both sides
    keep the documents' order. Raises ValueError where one side would be empty.
    """
    if not 0 < part < 1:
        raise ValueError(f"held_out must lie between 0 and 1, and is {part}")
    require_seed(seed)
    keys = [hashlib.sha256(f"{seed}\n{document.text}".encode()).digest() for document in documents]
    if len(set(keys)) <= 1:
        return _cut(documents[0], part)
    sizes = dict.fromkeys(keys, 0)
    for key, document in zip(keys, documents, strict=True):
        sizes[key] += len(document.text)
    wanted, chosen, held = part * sum(sizes.values()), set[bytes](), 0
    for key in sorted(sizes):
        if held >= wanted or len(chosen) == len(sizes) - 1:
            break
        if held + sizes[key] <= 2 * wanted:
            chosen.add(key)
            held += sizes[key]
    chosen = chosen or {min(sizes, key=lambda key: (sizes[key], key))}
    sides: tuple[list[Document], list[Document]] = ([], [])
    for key, document in zip(keys, documents, strict=True):
        sides[key in chosen].append(document)
    return sides


def _cut(document: Document, part: float) -> tuple[list[Document], list[Document]]:
    text = document.text
    cut = round(len(text) * (1 - part))
    while cut < len(text) and not text[cut].isspace():
        cut += 1
    if not text[cut:].strip():  # one long word: there is no blank to wait for
        cut = round(len(text) * (1 - part))
    head, tail = text[:cut].rstrip(), text[cut:].lstrip()
    if not head or not tail:
        raise ValueError(f"{document.name}: too short to hold out {part:.0%} of it ({len(text)} characters); add text")
    return [Document(document.name, head)], [Document(f"{document.name} (the last {part:.0%})", tail)]
