"""The unicode notation as TeX: its signs, words and mathematics, and every equation of the mixers and of the paper."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from docs import pages
from docs.making import katex
from docs.making.equation import parts
from docs.making.notation import runs
from seqloom.mixers import kinds

CHECK = """
const katex = require(process.argv[1]);
for (const tex of JSON.parse(require("fs").readFileSync(0))) {
  try { katex.renderToString(tex, { throwOnError: true, strict: "error" }); }
  catch (error) { console.log(tex, error.message); }
}
"""
"""prints what KaTeX does not accept"""


def read(line: str) -> str:
    """The line with its formulas as TeX between dollars."""
    return "".join(f"${run.tex}$" if run.tex else run.text for run in runs(line))


def formulas() -> list[str]:
    """The TeX of all formulas of all mixers' pages, and of the page on the Extractor paper."""
    return [run.tex for line in [*lines(), *paper()] for run in runs(line) if run.tex]


def paper() -> list[str]:
    """The Extractor paper's formulas."""
    return re.findall(r"`([^`\n]*\^\[[^`\n]*)`", (pages.FOLDER.parent / "paper.md").read_text(encoding="utf-8"))


def lines() -> list[str]:
    """Every line of every equation on a mixer's page."""
    texts = [f"{own.equation}\n\n{own.notes}" for own in (parts(kind, config) for kind, config in kinds().items())]
    blocks = [block for text in texts for block in re.findall(r"```text\n(.*?)\n```", text, flags=re.S)]
    return [line.strip() for block in blocks for line in block.splitlines() if line.strip()]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("e_i = Σ_{k=0}^{L-1} z_{i-k} ∘ W_ext[k]", r"$e_{i}=\sum _{k=0}^{L-1}z_{i-k}\circ W_{\mathrm{ext}}[k]$"),
        ("a_ij = e^{z_ij} / Σ_{j'≤i} e^{z_ij'}", r"$a_{ij}=e^{z_{ij}}/\sum _{j'\le i}e^{z_{ij'}}$"),
        ("y / √(mean of y² + 1e-5) ∘ gain", r"$y/\sqrt{\text{mean}\ \text{of}\ y^{2}+10^{-5}}\circ \mathrm{gain}$"),
        ("k̃_tᵀ (v_t - 2 S')", r"$\tilde{k}_{t}^{\top}\,(v_{t}-2\,S')$"),
        ("Ā = (I - Δ/2 A)^{-1}", r"$\bar{A}=(I-Δ/2\,A)^{-1}$"),
        ("log f = log σ(x W_f)", r"$\log f=\log σ(x\,W_{f})$"),
        ("x / K^¼, ¾D, ⌊hG/H⌋", r"$x/K^{1/4}$, $\tfrac{3}{4}D$, $\lfloor hG/H\rfloor$"),
        ("{j ≤ i: j mod l ∈ {0, …, l}}", r"$\{j\le i\colon j\bmod l\in \{0,\dots ,l\}\}$"),
        ("A = Λ - P P*,  u * x", r"$A=Λ-P\,P^{*}$,  $u\ast x$"),
        ("w = e^`a_log`, the `method`", r"$w=e^{\texttt{a\_log}}$, the `method`"),
        ("per head h of q: a block-diagonal x", r"per head $h$ of $q$: a block-diagonal $x$"),
        ("one softmax for both; norm: mean", "one softmax for both; norm: mean"),
        ("a = softmax(q kᵀ)", r"$a=\operatorname{softmax}(q\,k^{\top})$"),
        ("w of K = 10,000 channels", "$w$ of $K=10{,}000$ channels"),
        ("over a group's s5, 2-D, l2g (softmax, both)", "over a group's s5, 2-D, l2g (softmax, both)"),
        ("one a per head; W_out (2D, D)", r"one $a$ per head; $W_{\mathrm{out}}\,(2D,D)$"),
        ("x_i^[out_ext] = W^[adj] x", r"$x_{i}^{\text{[out\_ext]}}=W^{\text{[adj]}}\,x$"),
        ("∫_0^Δ e^{sA} ds B", r"$\int _{0}^{Δ}e^{sA}\,\mathrm{d}s\,B$"),
        ("", ""),
        ("   ", "   "),
    ],
)
def test_a_line_is_read(line: str, expected: str) -> None:
    assert read(line) == expected
    assert "".join(run.text for run in runs(line)) == line


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("x ♥ y", "no TeX for '♥'"),
        ("y = √(x", "an open bracket"),
        ("y_{t", "an open bracket"),
        ("y_ = x", "no index after"),
        ("y = √", "a root of nothing"),
        ("é = 3", "no TeX for"),
    ],
)
def test_what_has_no_translation_is_named(line: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        runs(line)


def test_every_equation_of_every_mixer_is_read() -> None:
    assert len(paper()) > 10
    for line in [*lines(), *paper()]:
        assert "".join(run.text for run in runs(line)) == line
    assert len(formulas()) > 5 * len(kinds())


@pytest.mark.slow
def test_katex_accepts_every_formula(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    try:
        script = katex.files()[katex.SCRIPT]
    except OSError as error:
        pytest.skip(str(error))
    (tmp_path / "katex.js").write_bytes(script)
    every = json.dumps([*formulas(), r"\frac{"])
    done = subprocess.run(
        [node, "-e", CHECK, str(tmp_path / "katex.js")], input=every, capture_output=True, text=True, timeout=300
    )
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1, done.stdout
    assert done.stdout.startswith(r"\frac{ ")
