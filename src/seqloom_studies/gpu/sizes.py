"""The sizes of the queue's models: those of a GPU, and tiny ones that check the queue on a CPU."""

from dataclasses import dataclass
from typing import final

from seqloom_studies.board.lineup import FOLDS
from seqloom_studies.paper.scales import SCALES, Scale


@final
@dataclass(frozen=True)
class Sizes:
    """What differs between the queue and its check. Changes are of settings, `name=value`."""

    name: str
    rounds: int
    """turns of a race"""
    compiled: tuple[str, ...]
    """mixers whose models are compiled in races"""
    table1: tuple[str, ...]
    """of recipe paper/table1, in races"""
    wide: tuple[str, ...]
    """of recipe llama/small, in races"""
    board: tuple[str, ...]
    """of the comparison"""
    board_wide: tuple[str, ...]
    """of the comparison at dim 512"""
    wide_batches: int
    """of a run of it"""
    wide_rates: tuple[float, ...]
    models: tuple[str, ...] | None
    """models of the comparison; None for all that an item has"""
    long: int
    """batches of the comparison's longer runs"""
    folds: int
    """of the comparison"""
    probes: tuple[tuple[str, int], ...]
    """probe and difficulty"""
    probed: tuple[str, ...]
    """mixers that are trained on probes"""
    probe_dim: int
    probe_rates: tuple[float, ...]
    probe_seeds: int
    probe_batches: int
    scale: Scale
    """of the paper's figures"""
    figure_batches: int
    """of Figure 8's headline"""
    figures: tuple[str, ...]
    """those of B5"""
    figure_models: tuple[str, ...]
    """of Figure 8's headline; B5 has all"""
    figure_seeds: int


FULL = Sizes(
    name="full",
    rounds=7,
    compiled=("attention:heads=32", "attention", "he", "she", "gated_delta"),
    table1=(),
    wide=(
        *("model.dim=512", "model.depth=12", "model.context=1024", "model.ffn=1408", "model.mixer.heads=8"),
        *("model.mixer.kv_heads=null", "data.vocab=2048", "training.batch=32", "training.batches=10000"),
    ),
    board=(),
    board_wide=(
        *("model.dim=512", "model.depth=12", "model.context=1024", "model.ffn=1408", "data.disjoint=false"),
        *("training.batch=32", "training.precision=bf16", "training.save_every=100000"),
    ),
    wide_batches=500,
    wide_rates=(5e-4, 1e-3, 2e-3),
    models=None,
    long=5000,
    folds=FOLDS,
    probes=(("mqar", 1), ("mqar", 3), ("mqar", 5), ("parity", 3), ("swaps", 3)),
    probed=(
        *("attention:heads=2,kernel=4", "gated_delta:heads=2", "he", "mamba2", "rwkv7:heads=2", "gla:heads=2"),
        *("mlstm:heads=2", "gru"),
    ),
    probe_dim=64,
    probe_rates=(1e-3, 3e-3, 1e-2),
    probe_seeds=3,
    probe_batches=3000,
    scale=SCALES["full"],
    figure_batches=10_000,
    figures=("fig8", "fig7", "fig10", "fig11"),
    figure_models=("she", "attention:heads=32", "he"),
    figure_seeds=2,
)
TINY = Sizes(
    name="tiny",
    rounds=2,
    compiled=("he",),
    table1=("model.dim=32", "model.depth=1", "model.context=8", "model.ffn=32", "data.vocab=300", "training.batch=2"),
    wide=(
        *("model.dim=32", "model.depth=1", "model.context=16", "model.ffn=32", "model.mixer.heads=2"),
        *("model.mixer.kv_heads=null", "data.vocab=300", "training.batch=2"),
    ),
    board=(
        *("model.dim=32", "model.context=16", "data.vocab=300", "data.held_out=0.1"),
        *("training.batches=3", "training.batch=2", "training.schedule.warmup=1", "training.device=cpu"),
    ),
    board_wide=(
        *("model.dim=32", "model.context=16", "data.vocab=300", "data.held_out=0.1"),
        *("training.batch=2", "training.schedule.warmup=1", "training.device=cpu", "data.disjoint=false"),
    ),
    wide_batches=3,
    wide_rates=(1e-3,),
    models=("he",),
    long=4,
    folds=1,
    probes=(("parity", 1),),
    probed=("gru",),
    probe_dim=16,
    probe_rates=(1e-3,),
    probe_seeds=1,
    probe_batches=2,
    scale=SCALES["tiny"],
    figure_batches=6,
    figures=("fig9",),
    figure_models=("he",),
    figure_seeds=1,
)
