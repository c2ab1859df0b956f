"""What a stranger meets besides the code: workflow, issue forms, hooks, versions, and what pages name."""

import re
import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

import seqloom
from seqloom.cli.app import app

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FORMS = ("crash", "new_mixer", "wrong_number")
PAGES = ("SECURITY.md", "docs/release.md", ".github/PULL_REQUEST_TEMPLATE.md")
WRITTEN = (*PAGES, *(f".github/ISSUE_TEMPLATE/{name}.yml" for name in FORMS))
COMMANDS = typer.main.get_group(app).commands


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def read_yaml(path: str) -> Any:
    return yaml.safe_load(text(path))


def test_the_workflow_runs_what_ci_runs_on_both_systems() -> None:
    (job,) = read_yaml(".github/workflows/tests.yml")["jobs"].values()
    made = [step["run"] for step in job["steps"] if "run" in step]
    assert made == re.findall(r"^(?:\w+=\w+ )?make .*$", text(".ci/run"), flags=re.M)
    assert made
    assert {system.split("-")[0] for system in job["strategy"]["matrix"]["os"]} == {"ubuntu", "macos"}
    assert job["runs-on"] == "${{ matrix.os }}"


def test_the_issue_forms_are_these() -> None:
    found = {path.stem for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")}
    assert found == {*FORMS, "config"}


@pytest.mark.parametrize("name", FORMS)
def test_an_issue_form_is_one_that_github_accepts(name: str) -> None:
    form = read_yaml(f".github/ISSUE_TEMPLATE/{name}.yml")
    assert form.keys() == {"name", "description", "title", "body"}
    asked = [part for part in form["body"] if part["type"] != "markdown"]
    assert asked
    for part in form["body"]:
        assert part.keys() <= {"type", "id", "attributes", "validations"}
        assert part["type"] in ("markdown", "input", "textarea", "dropdown", "checkboxes")
    assert len({part["id"] for part in asked}) == len(asked)
    assert len({part["attributes"]["label"] for part in asked}) == len(asked)
    for part in asked:
        options = [str(option) for option in part["attributes"].get("options", [])]
        assert len(set(options)) == len(options)
        assert bool(options) == (part["type"] in ("dropdown", "checkboxes"))


@pytest.mark.parametrize("path", WRITTEN)
def test_commands_and_files_that_are_named_are_there(path: str) -> None:
    content = text(path)
    targets = re.findall(r"^([a-z][\w-]*):", text("Makefile"), flags=re.M)
    for target in re.findall(r"`make ([\w-]+)", content):
        assert target in targets, target
    for verb in re.findall(r"(?:`|bin/)seqloom ([a-z]+)", content):
        assert verb in COMMANDS, verb
    for name in re.findall(r"\b(?:src|tests|docs|examples|\.github)/[\w./-]*\w", content):
        assert (ROOT / name).exists() or (ROOT / f"{name}.py").is_file(), name
    for target in re.findall(r"\]\(([^():#]+)\)", content):
        assert (ROOT / path).parent.joinpath(target).is_file(), target


def test_the_hooks_run_the_ruff_of_the_environment() -> None:
    (local,) = read_yaml(".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    words = [hook["entry"].split()[:2] for hook in local["hooks"]]
    assert words == [[".venv/bin/ruff", "check"], [".venv/bin/ruff", "format"]]
    assert all(hook["language"] == "system" for hook in local["hooks"])
    assert re.search(r"^ruff==[\d.]+$", text("constraints.txt"), flags=re.M)


def test_the_version_is_the_same_in_all_files() -> None:
    cited = read_yaml("CITATION.cff")
    top = re.search(r"^## (\S+) \((not released|[\d-]+)\)$", text("CHANGELOG.md"), flags=re.M)
    assert top
    assert {PROJECT["version"], seqloom.__version__, cited["version"]} == {top[1]}
    released = None if top[2] == "not released" else date.fromisoformat(top[2])
    assert cited.get("date-released") == released


def missing_addresses(urls: dict[str, str], cited: dict[str, Any]) -> list[str]:
    """What does not have the address of the repository, once `urls` names one."""
    if "Repository" not in urls:
        return [name for name in ("repository-code", "url") if name in cited]
    named = {"Issues": urls.get("Issues"), "Changelog": urls.get("Changelog")}
    named |= {name: cited.get(name) for name in ("repository-code", "url")}
    return [name for name, address in named.items() if not (address or "").startswith(urls["Repository"])]


def test_every_address_is_that_of_the_repository() -> None:
    assert missing_addresses(PROJECT["urls"], read_yaml("CITATION.cff")) == []
    sample = {"Repository": "https://example.org/x", "Issues": "https://example.org/x/issues"}
    assert missing_addresses(sample, {"url": "https://example.org/other"}) == ["Changelog", "repository-code", "url"]
    assert missing_addresses({}, {"url": "https://example.org/x"}) == ["url"]


def test_the_table_of_extras_is_complete() -> None:
    section = text("docs/quickstart.md").split("\n## Extras\n")[1].split("\nNext: ")[0]
    listed = re.findall(r"^\| `(\w+)` \| .+ \|", section, flags=re.M)
    assert sorted(listed) == sorted(PROJECT["optional-dependencies"])


def test_codeowners_names_its_placeholder() -> None:
    content = text(".github/CODEOWNERS")
    owners = {owner for line in content.splitlines() if not line.startswith("#") for owner in line.split()[1:]}
    assert owners
    for owner in owners:
        assert "ORGANIZATION" not in owner or f"# {owner} is a placeholder" in content
