"""The comparison's settings, text, folds, models and decisions, written down before anything is trained."""

from seqloom.analysis.match import quantity
from seqloom.core.table import table
from seqloom.studies.results import Results
from seqloom_studies.board import lineup
from seqloom_studies.board.study import Board


def write_announcement(board: Board, results: Results) -> str:
    """The text of all that is decided before the runs; the form of the baseline is by the rows so far."""
    training, model = board.host.training, board.host.layered_model
    activation, gated = (getattr(model.ffn_of(0), name) for name in ("activation", "gated"))
    corpus = board.corpus(None)
    assert corpus.division is not None
    host_parameters = quantity(model, "params")
    rows = []
    for name, contender in board.models(results).items():
        config = board.settings(contender).layered_model
        parameters = quantity(config, "params")
        difference = f"{100 * (parameters / host_parameters - 1):+.2f}%"
        rows.append((lineup.title(name), config.ffn_width, parameters, difference, lineup.folds(name)))
    form = board.form(results)
    chosen = "not chosen yet, by the validation text" if form is None else f"{form.name}, by the validation text"
    schedule = ", ".join(f"{name} {value}" for name, value in training.schedule.model_dump().items())
    tokens = training.batches * training.batch * model.context
    lines = (
        f"text: {board.text.name}; {corpus.description}",
        f"  {corpus.division.sides[1]}",
        f"  all other authors in {lineup.FOLDS} folds; result run k is trained on nine and tested on fold k",
        f"model: dim {model.dim}, depth {model.depth}, context {model.context}, tied: {model.tie}, norm {model.norm}, "
        f"{activation}, gated: {gated}, dropout {model.dropout}",
        f"training: {training.batches:,} batches of {training.batch} × {model.context} tokens ({tokens:,} in all), "
        f"{training.optimizer} {training.betas}, weight decay {training.weight_decay} on {training.decay}, "
        f"clip {training.clip}, {schedule}",
        f"baseline: attention in one of {len(lineup.FORMS)} forms: {chosen}",
        f"rates: {', '.join(f'{rate:g}' for rate in lineup.RATES)}, at an end at most {lineup.FURTHER} more, with seed "
        f"0, {lineup.CHOOSING} batches, all folds, by the validation text; that run is no result",
        f"decisions, by bits per byte in windows of {model.context} tokens, first minus second by fold, with Holm's "
        f"correction over these {len(lineup.DECISIONS)}; differences below {lineup.MARGIN:g} do not matter:",
        *(
            f"  {number}. {decision.question} ({lineup.title(decision.first)} - {lineup.title(decision.second)})"
            for number, decision in enumerate(lineup.DECISIONS, 1)
        ),
    )
    head = ("model", "ffn", "parameters", "of Llama attention's", "folds")
    return "\n".join(
        [*lines, "", table(head, rows), "parameters: of the layers and their norms, without the embedding"]
    )
