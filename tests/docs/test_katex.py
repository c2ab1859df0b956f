"""KaTeX's package: only the pinned one is used, and one line says why where it is not to be had."""

import io
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from docs.making import equation_hooks, katex

MEMBERS = {
    "package/LICENSE": b"MIT",
    "package/dist/katex.min.js": b"script",
    "package/dist/katex.min.css": b"style",
    "package/dist/katex.js": b"the long script",
    "package/dist/fonts/KaTeX_Main-Regular.woff2": b"font",
    "package/dist/fonts/KaTeX_Main-Regular.ttf": b"the same font",
    "package/src/fonts/other.woff2": b"not of dist",
}


def package() -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, text in MEMBERS.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    return content.getvalue()


def npm(folder: Path, *lines: str) -> None:
    """A program `npm` in a folder."""
    program = folder / "npm"
    program.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    program.chmod(0o755)


def test_what_the_site_shows_of_a_package() -> None:
    assert katex.unpacked(package()) == {
        "LICENSE": b"MIT",
        "katex.min.js": b"script",
        "katex.min.css": b"style",
        "fonts/KaTeX_Main-Regular.woff2": b"font",
    }
    assert not katex.is_whole(package())


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (None, "npm is not installed"),
        (("echo 'npm error network down' >&2", "exit 1"), "npm: network down"),
        (("exit 1",), "npm: no reason given"),
        ((f'echo other > "$4/katex-{katex.VERSION}.tgz"',), "another sha512"),
    ],
)
def test_without_the_package_equations_stay_text(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    lines: tuple[str, ...] | None,
    reason: str,
) -> None:
    if lines is not None:
        npm(tmp_path, *lines)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "cache"))
    config = SimpleNamespace(extra_css=["site.css"], extra_javascript=[])
    assert equation_hooks.on_config(config) is config
    assert config == SimpleNamespace(extra_css=["site.css"], extra_javascript=[])
    said = capsys.readouterr().err
    assert said.startswith("equations stay plain text: ")
    assert reason in said
    assert said.count("\n") == 1
    page = SimpleNamespace(file=SimpleNamespace(src_uri="mixers/he.md"))
    text = "## Equation\n\n```text\ny = x\n```\n"
    assert equation_hooks.on_page_markdown(text, page, config, None) == text
    equation_hooks.on_post_build(config)
    assert capsys.readouterr().err == ""


def test_a_package_is_kept_and_checked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path))
    asked: list[bytes] = []
    monkeypatch.setattr(katex, "packed", lambda: asked.append(b"") or package())
    monkeypatch.setattr(katex, "is_whole", lambda content: content == package())
    assert katex.files() == katex.files()
    assert len(asked) == 1
    (kept,) = tmp_path.rglob("*.tgz")
    kept.write_bytes(b"half")
    assert katex.files()["LICENSE"] == b"MIT"
    assert len(asked) == 2
