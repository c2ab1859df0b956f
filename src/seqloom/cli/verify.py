"""`seqloom verify`: whether a mixer, or any nn.Module from (B, T, D) to (B, T, D), keeps the promises."""

import json
import math
import os
import sys
import warnings
from typing import Annotated, Any

import typer


def verify(
    target: Annotated[
        str, typer.Argument(help="a mixer's name, or package.module:Thing: an nn.Module, its class or a function")
    ],
    dim: Annotated[int, typer.Option(help="channels", min=1, max=4096)] = 32,
    context: Annotated[int | None, typer.Option(help="tokens of its window, if it has one", min=1, max=1024)] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="an argument of the constructor, name=value")
    ] = None,
    bidirectional: Annotated[bool, typer.Option(help="the layer reads later tokens; causality is not checked")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> int:
    """Checks the promises of docs/contract.md on a mixer or any layer: `seqloom verify my_package.my_module:Thing`.

    Prints one line per promise. Exit code 1 if one is broken.
    """
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # for the user's own module; last, so that it hides none of Python's
    from seqloom.contracts import verify as findings_of
    from seqloom.contracts.finding import Finding
    from seqloom.contracts.target import subject_of

    subject = subject_of(target, dim=dim, context=context, settings=_settings(change or []), causal=not bidirectional)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of packages are not findings
        findings = findings_of(subject)
    dtype = str(subject.working).removeprefix("torch.")

    def row(finding: Finding) -> dict[str, Any]:
        size = finding.difference
        finite = size if size is not None and math.isfinite(size) else None
        return {
            "promise": finding.promise, "verdict": finding.verdict, "detail": finding.detail, "difference": finite
        }  # fmt: skip

    if as_json:
        print(
            json.dumps(
                {"target": target, "dim": dim, "dtype": dtype, "promises": [row(finding) for finding in findings]}
            )
        )
    else:
        for finding in findings:
            print(f"{finding.promise:<10} {finding.verdict:<15} {_one_line(finding.detail)}")
    return int(any(finding.verdict == "breaks" for finding in findings))


def _settings(changes: list[str]) -> dict[str, Any]:
    """The arguments of the constructor, from `name=value` texts. ValueError for any other text."""
    from seqloom.core.yaml_text import parse_yaml

    values: dict[str, Any] = {}
    for change in changes:
        name, sign, text = change.partition("=")
        if not sign or not name:
            raise ValueError(f"--set needs name=value, not {change!r}")
        try:
            values[name] = parse_yaml(text)
        except ValueError as error:
            raise ValueError(f"--set {name}: {error}") from None
    return values


def _one_line(text: str, limit: int = 200) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
