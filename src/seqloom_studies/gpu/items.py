"""The items of the queue, in the order of evidence a minute. Minutes are estimates for an H100."""

from seqloom_studies.gpu import measurements, op_races, smoke, trainings
from seqloom_studies.gpu.queue import Item

MIXERS = (
    "seqloom.mixers.attention.attention",
    "seqloom.mixers.extractors.extractors",
    "seqloom.mixers.linear.gated_delta",
)
TRAINER = ("seqloom.training.train", "seqloom.training.captured")
RECALLED = (
    *MIXERS,
    *("seqloom.mixers.state_space.mamba2", "seqloom.mixers.linear.rwkv7", "seqloom.mixers.linear.gla"),
    *("seqloom.mixers.recurrent.mlstm", "seqloom.mixers.recurrent.gru"),
)

ITEMS = (
    Item(
        "A1",
        "smoke: captured steps against eager ones, fla's rules against float64",
        minutes=1.5,
        least=0.5,
        uses=(*MIXERS, *TRAINER),
        study=smoke.smoke_study,
        vital=True,
    ),
    Item(
        "A2",
        "Table 1's step: 32 heads, HE, SHE; eager, captured, TF32, bfloat16, compiled; kernels",
        minutes=3,
        least=1,
        uses=(*MIXERS, *TRAINER),
        study=measurements.table1_study,
    ),
    Item(
        "A3-tune",
        "tunes fla's kernels in the sizes of A3: the best variants travel with the compiled kernels",
        minutes=1,
        least=1,
        uses=(*MIXERS, *TRAINER),
        study=measurements.tuning_study,
    ),
    Item(
        "A3",
        "dim 512, depth 12, bfloat16: attention, HE, gated_delta, next to plain torch and fla's layers",
        minutes=2,
        least=0.5,
        uses=(*MIXERS, *TRAINER),
        study=measurements.wide_study,
    ),
    Item(
        "A4",
        "kernels by turns, where the rule that chooses one on a GPU is an estimate",
        minutes=1,
        least=0.3,
        uses=(),
        study=op_races.ops_study,
    ),
    Item(
        "B1",
        "the comparison's decisions: dim 128, ten folds, float32",
        minutes=8,
        least=0.2,
        uses=(*MIXERS, *TRAINER),
        study=trainings.decisions,
        reads=True,
    ),
    Item(
        "B1-long",
        "the same at 20 million tokens",
        minutes=28,
        least=0.6,
        uses=(*MIXERS, *TRAINER),
        study=trainings.longer_decisions,
        reads=True,
    ),
    Item(
        "B2",
        "recall of 4, 16, 64 pairs, parity, swaps: equal grids, three rates, three seeds",
        minutes=27,
        least=0.2,
        uses=(*RECALLED, *TRAINER),
        study=trainings.recall_study,
    ),
    Item(
        "B3",
        "Figure 8's headline: SHE, 32 heads, HE; 10,000 batches, two seeds",
        minutes=8,
        least=2.5,
        uses=(*MIXERS, *TRAINER),
        study=trainings.headline,
        reads=True,
    ),
    Item(
        "B4",
        "dim 512: attention, gated_delta, HE, both mixtures; three rates, then folds",
        minutes=13,
        least=0.8,
        uses=(*MIXERS, *TRAINER),
        study=trainings.wide,
        reads=True,
    ),
    Item(
        "B5",
        "Figure 8 at 60,000 batches, then Figures 7, 10, 11",
        minutes=141,
        least=6,
        uses=(*MIXERS, *TRAINER),
        study=trainings.figures,
        reads=True,
    ),
    Item(
        "B5-more",
        "the comparison's further mixers: rwkv7, mamba2, kda",
        minutes=6,
        least=0.3,
        uses=(*RECALLED, "seqloom.mixers.linear.kda", *TRAINER),
        study=trainings.further,
        reads=True,
    ),
)
