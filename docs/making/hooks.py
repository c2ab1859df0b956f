"""The hooks of mkdocs (named in mkdocs.yml): they add pages, pictures and rows that are not files of docs/.

python -m mkdocs build          from the repository's root
"""

import os
import posixpath
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from docs.making import prices
from docs.making.age import ages
from docs.making.families import families
from docs.making.mixer_page import chart, compared, file, full, glance
from docs.making.reached import Map, initial_map, trained_maps
from docs.making.results import RESULTS
from seqloom.core.progress import progress
from seqloom.mixers import kinds, mixer_config

ROOT = Path(__file__).parents[2]
HOME = "---\nhide: [navigation]\n---\n\n"
"""put in front of the home page, so that it has no sidebar"""

PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
}
"""pages of the site by their files, which are outside docs/"""

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\]|!\[[^\[\]]*\]\([^()]*\))*)\]\(([^()\s]+)\)")
_FENCE = re.compile(r"(^```.*?^```[^\n]*$)", re.M | re.S)

_maps: dict[str, list[Map]] = {}


def on_config(config: Any) -> Any:
    """The navigation of mkdocs.yml, with the mixers by family under its entry `Mixers`."""
    (mixer_pages,) = (entry["Mixers"] for entry in config.nav if "Mixers" in entry)
    for family, kinds_of_family in families().items():
        mixer_pages.append({family: [{kind: f"mixers/{kind}.md"} for kind in kinds_of_family]})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds generated files and files outside docs/: README as home page, rows of results, price curves, reach maps."""
    from mkdocs.structure.files import File

    def add(path_on_site: str, content: str | bytes) -> None:
        files.append(File.generated(config, path_on_site, content=content))

    for path, path_on_site in PAGES.items():
        add(path_on_site, HOME * (path_on_site == "index.md") + (ROOT / path).read_text(encoding="utf-8"))
    for rows in sorted(RESULTS.rglob("*.jsonl")):
        add(f"results/{rows.relative_to(RESULTS).as_posix()}", rows.read_text(encoding="utf-8"))
    with progress("what each mixer reads", len(kinds()), "mixers") as advance:
        for kind in kinds():
            _maps[kind] = [initial_map(mixer_config({"kind": kind})), *trained_maps(kind)]
            add(f"mixers/{file(kind, 'price')}", prices.curve(kind))
            if compared(kind):
                add(f"mixers/{file(kind, 'rows')}", chart(kind))
            add(f"mixers/{file(kind, 'small', 'png')}", _maps[kind][0].thumbnail)
            for map_ in _maps[kind]:
                add(f"mixers/{file(kind, map_.name)}", map_.svg(kind))
            advance(1, kind)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """A page with its links changed to those of the site; rows get their age, mixers their pictures."""
    path_on_site = page.file.src_uri
    path = {site: written for written, site in PAGES.items()}.get(path_on_site, f"docs/{path_on_site}")
    markdown = moved(markdown + ages(markdown), path, {file_.src_uri for file_ in files})
    folder, name = os.path.split(path_on_site)
    if folder != "mixers":
        return markdown
    kind = name.removesuffix(".md")
    return glance(markdown) if name == "README.md" else full(markdown, kind, _maps[kind])


def site_path(path: str) -> str:
    """The path on the site of a file of the repository."""
    return PAGES.get(path, path.removeprefix("docs/"))


def moved(markdown: str, path: str, site_paths: Collection[str]) -> str:
    """Markdown of the repository with its links changed to paths of the site; blocks of code are left unchanged.

    A link to a file that is not on the site (`site_paths`) becomes its text.
    """
    texts_and_code = _FENCE.split(markdown)
    return "".join(
        part if index % 2 else _moved(part, path, site_paths)  # every second part is a block of code
        for index, part in enumerate(texts_and_code)
    )


def _moved(markdown: str, path: str, site_paths: Collection[str]) -> str:
    def link(match: re.Match[str]) -> str:
        mark, label, target = match.groups()
        label = _moved(label, path, site_paths)
        name, anchor, section = target.partition("#")
        if not name or re.match(r"[a-z]+:", name):
            return f"{mark}[{label}]({target})"
        goal = site_path(posixpath.normpath(posixpath.join(posixpath.dirname(path), name)))
        if goal not in site_paths:
            return label
        folder = posixpath.dirname(site_path(path))
        return f"{mark}[{label}]({posixpath.relpath(goal, folder or '.')}{anchor}{section})"

    return _LINK.sub(link, markdown)
