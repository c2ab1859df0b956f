"""README as a package index shows it: once `[project.urls]` names the repository, its relative links become absolute.

All else of the package stands in pyproject.toml.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
LINK = re.compile(r"(?P<picture>!?)(?P<label>\[[^\]]*\])\((?P<path>(?![a-z]+:)[^)\s]+)\)")
"""a link or a picture of Markdown whose target is in the repository: a file, or a heading of README"""


def published(readme: str, project: dict) -> str:
    """README with the files that it links to at the tag of this version; as it is while no repository is named."""
    repository = project.get("urls", {}).get("Repository", "").rstrip("/")
    if not repository:
        return readme

    def absolute(link: re.Match) -> str:
        view = "raw" if link["picture"] else "blob"
        path = f"README.md{link['path']}" if link["path"].startswith("#") else link["path"]
        return f"{link['picture']}{link['label']}({repository}/{view}/v{project['version']}/{path})"

    return LINK.sub(absolute, readme)


if __name__ == "__main__":
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    setup(long_description=published(text, project), long_description_content_type="text/markdown")
