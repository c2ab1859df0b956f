"""Loss of a trained HE when poles replace its taps: `distil.py FOLDER_OF_BOOKS [OUT] [ORDER …]`.

Held-out loss, error of the taps and bytes of state per layer, for HE at depth 2 and context 128, without learned
positions, which would limit generation to the context.
"""

import sys
from pathlib import Path

from harness import append, gate

from seqloom.training.settings import resolve
from seqloom.training.train import train
from seqloom_studies.poles.study import distil

BATCHES, ORDERS = 800, (4, 8, 16, 32)
SETTINGS = ("model.mixer.kind=he", "model.context=128", "model.position=none", f"training.batches={BATCHES}")


def main() -> None:
    gate("tests/ops/test_pole_fit.py", "tests/mixers/test_modal_extractor.py", "tests/evaluation/test_scores.py")
    source, *rest = sys.argv[1:]
    out, orders = Path(rest[0] if rest else "runs/distil"), [int(word) for word in rest[1:]] or ORDERS
    sys.argv[1] = "BOOKS"  # the folder's own place is nobody's business
    sys.argv[2:3] = ["OUT"] if rest else []
    outcome = train(resolve("paper/small", [*SETTINGS], source=source), out / "he")
    if outcome.step < BATCHES:
        raise SystemExit("the run was not trained to its end: run the same command again")
    for order in orders:
        found = distil(out / "he", order, out / f"he-{order}")
        assert found.scores is not None
        before, after = found.scores
        row = {
            "mixer": "modal_extractor",
            "preset": "paper/small",
            "settings": SETTINGS,
            "order": order,
            "held_out_loss_of_taps": round(before.loss, 4),
            "held_out_loss": round(after.loss, 4),
            "tokens": after.tokens,
            "errors_of_taps": [round(layer.error, 4) for layer in found.layers],
            "bounds": [round(layer.inside + layer.beyond, 4) for layer in found.layers],
            "state_bytes_a_layer": [layer.state for layer in found.layers],
            "data": outcome.corpus.identity[:16],
        }
        append("distil", [row])


if __name__ == "__main__":
    main()
