"""Writes the generated pages: docs/mixers/ from the mixers, docs/replication.md and docs/choose.md from results/.

make pages         writes them
make docs          writes them and builds the site, which adds pictures and results (docs/making)
"""

import re
import sys
from pathlib import Path

import torch
from pydantic.fields import FieldInfo

from docs.making import choose, replication
from docs.making.families import families
from docs.making.prices import by_length
from docs.making.use import use
from seqloom.analysis.rounding import EPS
from seqloom.cli import registry
from seqloom.cli.mixers import LEGEND, drawing
from seqloom.core.mixer_config import MixerConfig, Rounding
from seqloom.core.table import markdown
from seqloom.mixers import kinds, mixer_config

FOLDER = Path(__file__).parent / "mixers"
DIM, CONTEXT = 128, 128
COUNTED = {
    "mul": "multiplications",
    "add": "additions",
    "div": "divisions",
    "exp": "exponentiations",
    "other": "comparisons, roots and other operations",
    "state": "numbers in the state",
}


def pages() -> dict[str, str]:
    """The text of each page by its name."""
    made = {f"{kind}.md": page(kind, config) for kind, config in kinds().items()}
    return {"README.md": index(), **made}


def index() -> str:
    """The list of all mixers by family, one line each."""
    parts, known = ["# Mixers"], registry.mixers()
    for family, members in families().items():
        parts.append(f"## {family}")
        parts.append("\n".join(f"- [`{kind}`]({kind}.md): {known[kind]['about']}" for kind in members))
    return "\n\n".join(parts) + "\n\nThese pages are generated: `make pages`.\n"


def page(kind: str, config: type[MixerConfig]) -> str:
    """The page of a mixer: its equation, settings, traits, parameters and price."""
    module = sys.modules[config.__module__].__doc__ or ""
    with torch.device("meta"):
        mixer = mixer_config({"kind": kind}).build(DIM, CONTEXT, causal=config.traits.causal != "never")
    traits, parts = mixer.traits, [f"# `{kind}`", config.__doc__ or "", fenced(module), use(kind, mixer.traits)]
    parts.append(f"```sh\nseqloom train paper/small --set model.mixer.kind={kind} --data books/ --out runs/{kind}\n```")
    fields = {name: field for name, field in config.model_fields.items() if name != "kind"}
    settings = [(f"`{name}`", default(field), field.description) for name, field in fields.items()]
    if settings:
        parts += ["## Settings", markdown(("name", "default", "meaning"), settings)]
    drawings = registry.mixers()[kind].get("patterns", [])
    if drawings:
        pictures = "\n\n".join(drawing(kind, pattern) for pattern in drawings)
        parts += ["## Attention pattern", f"```\n{LEGEND}\n\n{pictures}\n```"]
    longest = "any" if traits.longest is None else f"{traits.longest} tokens (its context)"
    can = (config.traits.causal, "yes" if traits.streams else "no", traits.state, longest)
    parts += ["## Traits", markdown(("causal", "streams", "state", "longest text"), [can])]
    parts.append(precision(config.rounding))
    parts.append(f"## Parameters and price at dim {DIM}, context {CONTEXT}")
    shapes = [(f"`{name}`", " × ".join(map(str, weight.shape)) or "1") for name, weight in mixer.named_parameters()]
    parts.append(markdown(("parameter", "shape"), shapes))
    costs = {f"a row of {CONTEXT} tokens": mixer.cost(CONTEXT)}
    if traits.causal != "never":
        costs[f"token {CONTEXT}"] = mixer.cost(CONTEXT, per="token")
    counted = {**COUNTED, "params": "parameters"}
    rows = [(word, *(f"{getattr(cost, name):,}" for cost in costs.values())) for name, word in counted.items()]
    parts.append(markdown(("counted on the equation", *costs), rows))
    path = list(costs.values())[-1].path
    parts.append(f"Critical path of a token, {len(path)} operations: {', '.join(path)}.")
    parts += [
        "## Price by length",
        by_length(mixer_config({"kind": kind})),
        f"At dim {DIM}, with a context of T tokens.",
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def precision(rounding: Rounding) -> str:
    """A sentence with the bound on its float32 rounding errors."""
    return (
        "At initialization and for up to 4,096 tokens, outputs and gradients in float32 are within "
        f"{rounding.eps:,} eps ({rounding.eps * EPS:.1e}) of float64: the largest difference divided by the largest "
        f"value. Reason for this bound: {rounding.reason}."
    )


def default(field: FieldInfo) -> str:
    """A setting's default; of a nested mixer only the settings that differ from that mixer's own defaults."""
    value = field.get_default(call_default_factory=True)
    if isinstance(value, MixerConfig):
        value = {"kind": value.kind, **value.model_dump(exclude_defaults=True)}
    return f"`{value}`"


def fenced(text: str) -> str:
    """A docstring with its equations, which are indented, as blocks of code."""
    return re.sub(
        r"(?:^ {4,}.*\n?(?:\n(?= {4}))?)+", lambda block: f"```\n{block[0].rstrip()}\n```\n", text, flags=re.M
    )


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.md"):
        old.unlink()
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    replication.write()
    if (chosen := choose.page()) is not None:
        choose.PAGE.write_text(chosen, encoding="utf-8")
    print(f"{len(pages())} pages in {FOLDER.name}/, and {replication.PAGE.name}")
