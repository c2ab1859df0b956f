"""The comparison that the tests of comparisons make, and what of it does not depend on the clock."""

from typing import Any

from seqloom.experiments.contenders import contender

SMALL = ["data.source=stories:30:0", "training.batches=6", "training.save_every=3"]
THREE = [contender(text) for text in ("attention:heads=2", "she", "extractor:groups=shared,in_proj=true")]


def unclocked(said: dict[str, Any]) -> list[Any]:
    """What does not depend on how fast the machine was."""
    clocks = ("ms a step", "ms a generated token", "peak MB a step")
    rows = [{n: v for n, v in each["row"].items() if n not in clocks} for each in said["contenders"]]
    return [said["text"], rows, [[each["samples"], each["views"]] for each in said["contenders"]]]
