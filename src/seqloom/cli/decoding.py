"""Options of `seqloom generate` that change how a token is computed: a store, a model that drafts, layers left out."""

from collections.abc import Mapping
from typing import Any

from seqloom.cli.exiting import measure_of
from seqloom.cli.retrieving import neighbors_of
from seqloom.core.model import Model
from seqloom.depth.classifier import Classifier
from seqloom.face import load
from seqloom.generation.drafting import Draft
from seqloom.generation.exits import Exits


def decoding(model: Model, given: Mapping[str, Any], max_tokens: int) -> dict[str, Any]:
    """The arguments `neighbors`, `draft` and `exits` of `generate`, from the options that the command line has."""
    return {
        "neighbors": neighbors_of(model, given.get("knn"), given.get("search")),
        "draft": _draft(given),
        "exits": _exits(model, given, max_tokens),
    }


def refuse(given: Mapping[str, Any], reason: str) -> None:
    """ValueError where the command line has one of these options."""
    for name in given:
        raise ValueError(f"--{name.replace('_', '-')} is of a text that is written on: {reason}")


def _draft(given: Mapping[str, Any]) -> Draft | None:
    """The model of `--draft`; ValueError for its settings without it."""
    settings = {name: given[name] for name in ("drafts", "confidence", "take_back") if name in given}
    if "draft" not in given:
        for name in settings:
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{option} is of a model that writes ahead: give --draft RUN, or leave it out")
        return None
    if "drafts" in settings:
        settings["tokens"] = settings.pop("drafts")
    return Draft(load(given["draft"]), **settings)


def _exits(model: Model, given: Mapping[str, Any], max_tokens: int) -> Exits | None:
    """When layers are left out; ValueError for a measure without its threshold."""
    if not {"exit", "exit_by", "exit_from"} & set(given):
        return None
    by = measure_of(model, given.get("exit_by", "softmax"))
    if "exit" not in given and not isinstance(by, Classifier):
        option = "--exit-by is how sure a token is" if "exit_by" in given else "--exit-from is the first layer to end"
        raise ValueError(f"{option} where layers are left out: give --exit, or leave it out")
    return Exits(given.get("exit"), by, most=max(max_tokens, 1), first=given.get("exit_from", 1))
