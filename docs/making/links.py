"""Links of a file of the repository as links of the site.

Files are written to be read in the repository, where docs/log.md is in a folder and results are beside it; the site
begins in docs. A link to what the site does not have becomes plain text.
"""

import posixpath
import re
from collections.abc import Collection

PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "benchmarks/README.md": "benchmarks.md"}
"""files outside of docs that are pages of the site"""

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\]|!\[[^\[\]]*\]\([^()]*\))*)\]\(([^()\s]+)\)")
_FENCE = re.compile(r"(^```.*?^```[^\n]*$)", re.M | re.S)


def place(path: str) -> str:
    """Where on the site a file of the repository is."""
    return PAGES.get(path, path.removeprefix("docs/"))


def moved(markdown: str, path: str, known: Collection[str]) -> str:
    """The Markdown of a file of the repository, with its links as the site has them; blocks of code stay.

    `known` are the places of the site.
    """
    parts = _FENCE.split(markdown)
    return "".join(part if at % 2 else _moved(part, path, known) for at, part in enumerate(parts))


def _moved(markdown: str, path: str, known: Collection[str]) -> str:
    def link(found: re.Match[str]) -> str:
        mark, label, target = found.groups()
        label = _moved(label, path, known)
        name, anchor, section = target.partition("#")
        if not name or re.match(r"[a-z]+:", name):
            return f"{mark}[{label}]({target})"
        goal = place(posixpath.normpath(posixpath.join(posixpath.dirname(path), name)))
        if goal not in known:
            return label
        here = posixpath.dirname(place(path))
        return f"{mark}[{label}]({posixpath.relpath(goal, here or '.')}{anchor}{section})"

    return _LINK.sub(link, markdown)
