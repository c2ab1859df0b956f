"""Writes the generated pages: docs/mixers/ from the mixers, README, docs/results.md, docs/replication.md,
docs/paper.md and docs/choose.md from results/, docs/ten_minutes.md from the tour, the table of docs/hf.md from the
families.

The reference in docs/api/ is filled in by the site; the picture of docs/architecture.md is that of the import contract.

make pages         writes them
make docs          writes them and builds the site, which adds pictures and results (docs/making)
"""

import inspect
from pathlib import Path

import torch
from pydantic.fields import FieldInfo

from docs.making import (
    api,
    choose,
    equation,
    foreign,
    layers,
    log,
    paper,
    readme,
    replication,
    results_page,
    systems,
    ten_minutes,
)
from docs.making.drawing import Drawing
from docs.making.families import families
from docs.making.prices import by_length
from docs.making.template import render
from docs.making.use import use
from seqloom.analysis.rounding import EPS
from seqloom.cli import registry
from seqloom.cli.work.mixers import LEGEND, drawing
from seqloom.core.mixer import Mixer
from seqloom.core.mixer_config import MixerConfig
from seqloom.mixers import kinds, mixer_config
from seqloom.tour.content import CODE, source

FOLDER = Path(__file__).parent / "mixers"
DIM, CONTEXT = 128, 128
SMALL = 16
"""width and context of a mixer that is asked what it plots"""
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
        about=inspect.cleandoc(config.__doc__ or "").split("\n\n")[0],
        parts=equation.parts(kind, config),
        drawing=Drawing(mixer, _has_lags(mixer, mixer_config({"kind": kind})), CONTEXT),
        code=code(kind, causal=causal),
        family=_family(kind, config),
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


def code(kind: str, *, causal: bool) -> str:
    """A few lines of Python: the equation for one head where the tour has it, or else the use of the mixer."""
    if kind in CODE:
        return f"import torch\n\n{source(kind)}"
    form = "" if causal else ", causal=False"
    lines = [
        f'mixer = seqloom.mixer("{kind}", dim={DIM}, context={CONTEXT}{form})',
        "y = mixer(torch.randn(1, 32, 128))  # (B, T, D) → (B, T, D)",
    ]
    if causal:
        lines.append("y, state = mixer.step(torch.randn(1, 128), mixer.start(batch=1))  # token by token")
    return "\n".join(["import seqloom", "import torch", "", *lines])


def _has_lags(mixer: Mixer, config: MixerConfig) -> bool:
    """Whether a mixer that keeps a window has weights by lag, as what a small one of it plots says."""
    if mixer.traits.state != "window":
        return False
    views = config.build(SMALL, SMALL, causal=True).plots(torch.zeros(1, SMALL, SMALL))
    return any("lag" in view.axes for view in views)


def _family(kind: str, config: type[MixerConfig]) -> str:
    """Links to the other kinds of the same file; "" for a kind alone."""
    others = [name for name, other in kinds().items() if other.__module__ == config.__module__ and name != kind]
    return ", ".join(f"[`{name}`]({name}.md)" for name in others)


if __name__ == "__main__":
    texts = pages()
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.md"):
        old.unlink()
    for name, text in texts.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    api.write()
    foreign.write()
    systems.write()
    layers.write()
    log.write()
    replication.write()
    paper.PAGE.write_text(paper.page(), encoding="utf-8")
    ten_minutes.PAGE.write_text(ten_minutes.page(), encoding="utf-8")
    results_page.PAGE.write_text(results_page.page(), encoding="utf-8")
    readme.write()
    if (chosen := choose.page()) is not None:
        choose.PAGE.write_text(chosen, encoding="utf-8")
    print(f"{len(texts)} pages in {FOLDER.name}/, and {replication.PAGE.name}")
