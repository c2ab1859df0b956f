"""Writes the generated pages: docs/mixers/ from the mixers, README, docs/results.md, docs/replication.md and
docs/choose.md from results/, docs/ten_minutes.md from the tour, the table of docs/hf.md from the families.

The reference in docs/api/ is filled in by the site; the picture of docs/architecture.md is that of the import contract.

make pages         writes them
make docs          writes them and builds the site, which adds pictures and results (docs/making)
"""

import re
import sys
from pathlib import Path

import torch
from pydantic.fields import FieldInfo

from docs.making import api, choose, foreign, layers, log, readme, replication, results_page, systems, ten_minutes
from docs.making.families import families
from docs.making.prices import by_length
from docs.making.template import render
from docs.making.use import use
from seqloom.analysis.rounding import EPS
from seqloom.cli import registry
from seqloom.cli.work.mixers import LEGEND, drawing
from seqloom.core.mixer_config import MixerConfig
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
    "params": "parameters",
}
"""the counts of a price, and what they count"""


def pages() -> dict[str, str]:
    """The text of each page by its name."""
    return {"README.md": index(), **{f"{kind}.md": page(kind, config) for kind, config in kinds().items()}}


def index() -> str:
    """The list of all mixers by family, one line each."""
    parts = ["# Mixers"]
    mixers = registry.mixers()
    for family, kinds_of_family in families().items():
        parts.append(f"## {family}")
        parts.append("\n".join(f"- [`{kind}`]({kind}.md): {mixers[kind]['about']}" for kind in kinds_of_family))
    return "\n\n".join(parts) + "\n\nThese pages are generated: `make pages`.\n"


def page(kind: str, config: type[MixerConfig]) -> str:
    """The page of a mixer: its equation, settings, traits, parameters and price."""
    causal = config.traits.causal != "never"
    with torch.device("meta"):
        mixer = mixer_config({"kind": kind}).build(DIM, CONTEXT, causal=causal)
    traits = mixer.traits
    longest = "any" if traits.longest is None else f"{traits.longest} tokens (its context)"
    fields = [(name, field) for name, field in config.model_fields.items() if name != "kind"]
    costs = {f"a row of {CONTEXT} tokens": mixer.cost(CONTEXT)}
    if causal:
        costs[f"token {CONTEXT}"] = mixer.cost(CONTEXT, per="token")
    *_, last_cost = costs.values()
    return render(
        "mixer",
        kind=kind,
        about=(config.__doc__ or "").strip(),
        equation=fenced(sys.modules[config.__module__].__doc__ or "").strip(),
        use=use(kind, traits),
        settings=[(f"`{name}`", default(field), field.description) for name, field in fields],
        legend=LEGEND,
        patterns=[drawing(kind, pattern) for pattern in registry.mixers()[kind].get("patterns", [])],
        traits=(config.traits.causal, "yes" if traits.streams else "no", traits.state, longest),
        rounding=f"{config.rounding.eps:,} eps ({config.rounding.eps * EPS:.1e})",
        reason=config.rounding.reason,
        dim=DIM,
        context=CONTEXT,
        shapes=[(f"`{name}`", " × ".join(map(str, weight.shape)) or "1") for name, weight in mixer.named_parameters()],
        priced=("counted on the equation", *costs),
        counts=[(word, *(f"{getattr(cost, name):,}" for cost in costs.values())) for name, word in COUNTED.items()],
        path=last_cost.path,
        by_length=by_length(mixer_config({"kind": kind})),
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
    texts = pages()
    for name, text in texts.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    api.write()
    foreign.write()
    systems.write()
    layers.write()
    log.write()
    replication.write()
    ten_minutes.PAGE.write_text(ten_minutes.page(), encoding="utf-8")
    results_page.PAGE.write_text(results_page.page(), encoding="utf-8")
    readme.write()
    if (chosen := choose.page()) is not None:
        choose.PAGE.write_text(chosen, encoding="utf-8")
    print(f"{len(texts)} pages in {FOLDER.name}/, and {replication.PAGE.name}")
