"""The demo: attention, an Extractor, the gated delta rule and a GRU, on stories from a known grammar.

Every model reads the same batches in the same order, from three seeds, so that a difference can be told from chance.
The known grammar gives a lower bound of the held-out loss, and
says of every sampled sentence whether it is grammatical.
"""

from pathlib import Path

from seqloom.core.config import suggestion
from seqloom.report.comparison import Comparison
from seqloom.studies.candidates import parse_candidate
from seqloom.studies.compare import Compare
from seqloom.studies.summary import compare

MIXERS = ("attention:heads=4", "he", "gated_delta", "gru")
SEEDS = {"full": 3, "tiny": 1}
LENGTHS = (128, 8192)
"""lengths of the texts after which the state and the time of one more token are measured"""
SCALES: dict[str, list[str]] = {
    "full": [],
    "tiny": ["data.source=stories:300:0", "model.dim=32", "model.context=32", "model.ffn=64", "training.batches=30"],
}


def demo(out: Path, scale: str = "full", command: str = "") -> Comparison:
    """Trains and measures the models in OUT/SCALE, or continues there; returns and raises as `summary.compare` does."""
    if scale not in SCALES:
        raise ValueError(f"unknown scale {scale!r}; {suggestion(scale, SCALES)}")
    study = Compare(
        [parse_candidate(text) for text in MIXERS], "demo", SCALES[scale], seeds=SEEDS[scale], lengths=LENGTHS
    )
    return compare(study, out / scale, command=command)
