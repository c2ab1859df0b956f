"""`seqloom verify`: whether a mixer, or any nn.Module from (B, T, D) to (B, T, D), keeps the promises."""

import json
import math
import os
import sys
import warnings
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import torch


def verify(
    target: Annotated[
        str,
        typer.Argument(help="a mixer, or package.module:Thing or file.py:Thing: an nn.Module, its class or a function"),
    ],
    dim: Annotated[int, typer.Option(help="channels", min=1, max=4096)] = 32,
    context: Annotated[int | None, typer.Option(help="tokens of its window, if it has one", min=1, max=1024)] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="an argument of the constructor, name=value")
    ] = None,
    bidirectional: Annotated[
        bool, typer.Option(help="build the form that reads later tokens; causality is not checked")
    ] = False,
    dtype: Annotated[
        str | None, typer.Option(help="float64 (default where the layer can), float32, bfloat16 or float16")
    ] = None,
    device: Annotated[str, typer.Option(help="where the layer computes, such as cuda")] = "cpu",
    reference: Annotated[
        str | None, typer.Option(help="the same layer, written plainly, to compare outputs and gradients with")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> int:
    """Checks the promises of docs/contract.md on a mixer or any layer: `seqloom verify my_package.my_module:Thing`.

    Prints one line per promise, and what was not checked. Exit code 1 if one is broken.
    """
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # for the user's own module; last, so that it hides none of Python's
    from seqloom.contracts import verify as findings_of
    from seqloom.contracts.finding import Finding
    from seqloom.contracts.summary import list_unchecked, summary
    from seqloom.contracts.target import subject_of

    subject = subject_of(
        target,
        dim=dim,
        context=context,
        settings=_settings(change or []),
        causal=not bidirectional,
        dtype=_dtype(dtype),
        device=_device(device),
        reference=reference,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of packages are not findings
        findings = findings_of(subject)

    def row(finding: Finding) -> dict[str, Any]:
        size = finding.difference
        finite = size if size is not None and math.isfinite(size) else None
        return {
            "promise": finding.promise, "verdict": finding.verdict, "detail": finding.detail, "difference": finite
        }  # fmt: skip

    if as_json:
        working = str(subject.working).removeprefix("torch.")
        promises = [row(finding) for finding in findings]
        written = {"target": target, "dim": dim, "dtype": working, "promises": promises}
        print(json.dumps({**written, "not_checked": list_unchecked(findings)}))
    else:
        for finding in findings:
            print(f"{finding.promise:<10} {finding.verdict:<15} {_one_line(finding.detail)}")
        print(summary(findings))
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


def _dtype(name: str | None) -> "torch.dtype | None":
    """The dtype of this name. ValueError for any but the four."""
    if name is None:
        return None
    import torch

    dtypes = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
    named = {str(dtype).removeprefix("torch."): dtype for dtype in dtypes}
    if name not in named:
        raise ValueError(f"--dtype must be one of {', '.join(named)}, not {name[:60]!r}")
    return named[name]


def _device(name: str) -> "torch.device":
    """The device of this name. ValueError where this machine has none."""
    import torch

    try:
        device = torch.device(name)
        torch.empty(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # what torch raises for a missing device
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(f"--device {name[:60]!r} cannot be used here: {why}") from None
    return device


def _one_line(text: str, limit: int = 200) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
