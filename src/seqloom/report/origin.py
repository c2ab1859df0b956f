"""The page's facts about its rows: their origin, and the methods by which the numbers were measured."""

from seqloom.core.statistics import FEWEST, LEVEL
from seqloom.report.comparison import Comparison

EQUAL = {"params": "parameters", "mul": "multiplications", "time": "time of a training step"}


def facts(comparison: Comparison) -> list[tuple[str, str]]:
    """(name, value) of everything that the rows depend on."""
    text = comparison.text
    documents = "" if text.held_out_documents is None else f" in {text.held_out_documents:,} documents"
    training = f"{comparison.batches:,} batches of {comparison.batch:,}"
    facts = [
        ("date", comparison.origin.date),
        ("command", comparison.origin.command),
        ("commit", comparison.origin.commit or "unknown"),
        ("machine", comparison.origin.machine),
        ("preset", comparison.preset),
        ("settings of all", ", ".join(comparison.changes) or "those of the preset"),
        ("training", f"{training} windows of {comparison.context:,} tokens"),
        ("seeds", f"{comparison.seeds:,}"),
        ("text", text.description),
        ("its identity", text.identity),
        ("held out", f"{text.held_out_tokens:,} tokens{documents}"),
    ]
    if text.unigram is not None:
        facts.append(("entropy of single tokens", f"{text.unigram:.4g} nats per token"))
    if text.floor is not None:
        facts.append(("lower bound of the loss", f"{text.floor:.4g} nats per token"))
    return facts


def methods(comparison: Comparison) -> list[str]:
    """The methods of measurement, one sentence each."""
    lines = [
        "All contenders see the same text in the same order of batches; they differ in the sequence mixer, and the "
        "matched ones in what the table names.",
        "The seed draws the initial weights and the dropout.",
        f"A training loss is the median over the last tenth of a run, {comparison.stretch:,} batches; curves are "
        "medians over stretches that do not overlap.",
    ]
    if comparison.column("± held-out") is not None:
        procedure = "by Welch's procedure, since runs differ in weights and dropout alone"
        if comparison.paired:
            procedure = "paired by seed, since the seed draws the order of the batches too"
        lines.append(
            "Each contender has Student's 95% interval from its own seeds. Differences to the baseline, "
            f"{comparison.baseline}, are {procedure}; their intervals are not corrected. A difference is significant "
            f"where it has at least {FEWEST} seeds and an adjusted p below {LEVEL} (Holm's correction over the table)."
        )
    if comparison.seeds == 1:
        lines.append("There is one seed: what another one would give is not known.")
    else:
        seeds = f"the {comparison.seeds} seeds"
        lines.append(f"Bands go from the lowest to the highest of {seeds}; they are not intervals.")
    if any(contender.seconds_a_batch is not None for contender in comparison.contenders):
        lines.append("Times are medians of a race in which all contenders take turns on the same machine.")
    if comparison.equal and any(contender.matched for contender in comparison.contenders):
        lines.append(f"Matched contenders were sized until their {EQUAL[comparison.equal]} were equal.")
    if comparison.text.unigram is not None:
        lines.append("The entropy of single tokens is the loss of a model that knows only their frequencies.")
    if comparison.text.floor is not None:
        lines.append("No model has a mean loss below the lower bound, which is computed from the grammar of the text.")
    lines += [f"Rows that cannot be trusted: {line}." for line in comparison.damage]
    return lines
