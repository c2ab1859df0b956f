"""Where the rows are from, and how the numbers were taken, in the words of the page."""

from seqloom.core.statistics import FEWEST, LEVEL
from seqloom.report.comparison import Comparison

EQUAL = {"params": "parameters", "mul": "multiplications", "time": "time of a training step"}


def facts(found: Comparison) -> list[tuple[str, str]]:
    """(what, its value) of everything that the rows depend on."""
    text = found.text
    documents = "" if text.held_out_documents is None else f" in {text.held_out_documents:,} documents"
    known = [
        ("date", found.origin.date),
        ("command", found.origin.command),
        ("commit", found.origin.commit or "unknown"),
        ("machine", found.origin.machine),
        ("preset", found.preset),
        ("settings of all", ", ".join(found.changes) or "those of the preset"),
        ("training", f"{found.batches:,} batches of {found.batch:,} windows of {found.context:,} tokens"),
        ("seeds", f"{found.seeds:,}"),
        ("text", text.description),
        ("its identity", text.identity),
        ("held out", f"{text.held_out_tokens:,} tokens{documents}"),
    ]
    if text.unigram is not None:
        known.append(("entropy of single tokens", f"{text.unigram:.4g} nats per token"))
    if text.floor is not None:
        known.append(("floor of the text", f"{text.floor:.4g} nats per token"))
    return known


def methods(found: Comparison) -> list[str]:
    """How the numbers were taken, a sentence each."""
    said = [
        "All contenders see the same text in the same order of batches; they differ in the sequence mixer, and the "
        "matched ones in what the table names.",
        "The seed draws the initial weights and the dropout.",
        f"A training loss is the median over the last tenth of a run, {found.stretch:,} batches; curves are medians "
        "over stretches that do not overlap.",
    ]
    if found.column("± held-out") is not None:
        pairs = "paired by seed, since the seed draws the order of the batches too"
        apart = pairs if found.paired else "by Welch's procedure, since runs differ in weights and dropout alone"
        said.append(
            "Each contender has Student's 95% interval from its own seeds. Differences to the baseline, "
            f"{found.baseline}, are {apart}; their intervals are not corrected. A difference is settled where it has "
            f"at least {FEWEST} seeds and an adjusted p below {LEVEL} (Holm's correction over the table)."
        )
    if found.seeds == 1:
        said.append("There is one seed: what another one would give is not known.")
    else:
        said.append(f"Bands go from the lowest to the highest of the {found.seeds} seeds; they are no intervals.")
    if any(each.seconds_a_batch is not None for each in found.contenders):
        said.append("Times are medians of a race in which all contenders take turns on the same machine.")
    if found.equal and any(each.matched for each in found.contenders):
        said.append(f"Matched contenders were sized until their {EQUAL[found.equal]} were equal.")
    if found.text.unigram is not None:
        said.append("The entropy of single tokens is the loss of a model that knows only their frequencies.")
    if found.text.floor is not None:
        said.append("The floor is a lower bound of the mean loss of any model, computed from the grammar of the text.")
    said += [f"Rows that cannot be trusted: {line}." for line in found.damage]
    return said
