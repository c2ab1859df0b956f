"""The board's settings, text, models and decisions, written down before anything is trained."""

from seqloom.analysis.match import quantity
from seqloom.core.table import table
from seqloom.experiments.board.lineup import BELOW, DECIDED_SEEDS, DECISIONS, RATES, SEEDS, seeds, title
from seqloom.experiments.board.study import Board


def announced(board: Board) -> str:
    """The text of all that is decided before the runs."""
    division = board.corpus.division
    assert division is not None
    training = board.host.training
    model = board.host.layered
    host_parameters = quantity(model, "params")
    rows = [
        (
            title(name),
            config.layered.ffn,
            quantity(config.layered, "params"),
            f"{100 * (quantity(config.layered, 'params') / host_parameters - 1):+.2f}%",
            config.layered.position.kind,
            "one run" if name in BELOW else seeds(name),
        )
        for name, config in board.models.items()
    ]
    decisions = [
        f"  {number}. {decision.question} ({title(decision.first)} against {title(decision.second)})"
        for number, decision in enumerate(DECISIONS, 1)
    ]
    rates = ", ".join(f"{rate:g}" for rate in RATES)
    schedule = ", ".join(f"{name} {value}" for name, value in training.schedule.model_dump().items())
    lines = (
        board.corpus.description,
        *(f"  {side}" for side in division.sides),
        f"host: dim {model.dim}, depth {model.depth}, context {model.context}, tied: {model.tie}, norm {model.norm}, "
        f"{model.activation}, gated: {model.glu}, dropout {model.dropout}",
        f"training: {training.batches:,} batches of {training.batch} × {model.context} tokens, {training.optimizer} "
        f"{training.betas}, weight decay {training.weight_decay} on {training.decay}, clip {training.clip}, {schedule}",
        f"rates: {rates} with seed 0, then further by factors of 2 until the best on the validation books lies "
        "inside; that run is seed 0 of the result",
        f"seeds: {SEEDS}, and {DECIDED_SEEDS} for the rows of a decision; a seed draws the weights and the order of "
        "the batches, the same for all models, so that differences are paired",
        "decisions, by bits per byte on the test books, paired by seed, with Holm's correction over these "
        f"{len(DECISIONS)}; every other difference is exploratory:",
        *decisions,
    )
    head = ("row", "ffn", "parameters", "of attention's", "position", "seeds")
    return "\n".join(
        [*lines, "", table(head, rows), "parameters: of the layers and their norms, without the embedding"]
    )
