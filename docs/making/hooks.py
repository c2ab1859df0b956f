"""What mkdocs asks while it builds the site (mkdocs.yml names this file): pages, pictures and rows that lie elsewhere.

python -m mkdocs build          from the repository's root
"""

import os
from pathlib import Path
from typing import Any

from docs.making import prices
from docs.making.families import families
from docs.making.links import PAGES, moved
from docs.making.mixer_page import chart, compared, file, full, glance
from docs.making.picture import picture, thumbnail
from docs.making.reached import Map, beginning, kept
from docs.making.results import RESULTS
from seqloom.core.progress import progress
from seqloom.mixers import kinds, mixer_config

ROOT = Path(__file__).parents[2]
NAVIGATION = {
    "Start": {"Home": "index.md", "Quickstart": "quickstart.md", "Recipes": "recipes.md", "FAQ": "faq.md"},
    "Choose": {"Choose": "choose.md", "Performance": "performance.md", "Replication": "replication.md"},
    "Mixers": {},
    "Build": {
        **{"How it is built": "contributing.md", "Contract": "contract.md", "Verify": "verify.md"},
        **{"Benchmarks": "benchmarks.md", "Errata": "errata.md", "Log": "log.md"},
    },
}
"""the four entries, each with its pages; those of the mixers are added by family"""

HOME = "---\nhide: [navigation]\n---\n\n"
"""on top of home, which has no neighbours in the navigation"""

_maps: dict[str, list[Map]] = {}


def on_config(config: Any) -> Any:
    """The navigation, with the mixers by family."""
    pages: dict[str, list[Any]] = {
        entry: [{title: page} for title, page in each.items()] for entry, each in NAVIGATION.items()
    }
    pages["Mixers"] = ["mixers/README.md"]
    for family, members in families(kinds()).items():
        pages["Mixers"].append({family: [{kind: f"mixers/{kind}.md"} for kind in members]})
    config.nav = [{entry: each} for entry, each in pages.items()]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds what is made or lies elsewhere: the README as home, rows of results, price curves and reach maps."""
    from mkdocs.structure.files import File

    def add(place: str, content: str | bytes) -> None:
        files.append(File.generated(config, place, content=content))

    for path, place in PAGES.items():
        add(place, HOME * (place == "index.md") + (ROOT / path).read_text(encoding="utf-8"))
    for rows in sorted(RESULTS.rglob("*.jsonl")):
        add(f"results/{rows.relative_to(RESULTS).as_posix()}", rows.read_text(encoding="utf-8"))
    with progress("what each mixer reads", len(kinds()), "mixers") as advance:
        for kind in kinds():
            _maps[kind] = [beginning(mixer_config({"kind": kind})), *kept(kind)]
            add(f"mixers/{file(kind, 'price')}", prices.curve(kind))
            if compared(kind):
                add(f"mixers/{file(kind, 'rows')}", chart(kind))
            add(f"mixers/{file(kind, 'small', 'png')}", thumbnail(_maps[kind][0].found))
            for each in _maps[kind]:
                add(f"mixers/{file(kind, each.name)}", picture(each.found, f"{kind}, {each.name}", each.said))
            advance(1, kind)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """A page with the site's links, and a mixer's with its pictures and results."""
    place = page.file.src_uri
    path = {site: written for written, site in PAGES.items()}.get(place, f"docs/{place}")
    markdown = moved(markdown, path, {each.src_uri for each in files})
    folder, name = os.path.split(place)
    if folder != "mixers":
        return markdown
    kind = name.removesuffix(".md")
    return glance(markdown) if name == "README.md" else full(markdown, kind, _maps[kind])
