"""The hooks of mkdocs that typeset the equations of the mixers and of the Extractor paper with KaTeX.

They are named in mkdocs.yml, after `hooks.py`. Without KaTeX (`docs.making.katex`) equations stay plain text, and one
line says why.
"""

import sys
from typing import Any

from docs.making import katex
from docs.making.typeset import Typeset

FOLDER = "assets/katex"
"""where KaTeX is on the site"""
PAPER = "paper.md"

_files: dict[str, bytes] = {}
_typeset = Typeset()


def on_config(config: Any) -> Any:
    """The settings with KaTeX's style and script."""
    try:
        _files.update(katex.files())
    except OSError as error:
        print(f"equations stay plain text: {error}", file=sys.stderr)
        return config
    config.extra_css.insert(0, f"{FOLDER}/{katex.STYLE}")
    config.extra_javascript += [f"{FOLDER}/{katex.SCRIPT}", "assets/equations.js"]
    return config


def on_files(files: Any, config: Any) -> Any:
    """The files with those of KaTeX."""
    from mkdocs.structure.files import File

    for name, content in _files.items():
        files.append(File.generated(config, f"{FOLDER}/{name}", content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """The page of a mixer with its equation as HTML, or that of the Extractor paper with its formulas."""
    path = page.file.src_uri
    if not _files:
        return markdown
    if path == PAPER:
        return _typeset.paper(markdown, path)
    return _typeset.page(markdown, path) if path.startswith("mixers/") else markdown


def on_post_build(config: Any) -> None:
    """Says how many equations are typeset, and which are not."""
    if _files:
        print(_typeset.summary(), file=sys.stderr)
