"""Speed of Kneser-Ney scores, relative to kenlm, which reads our ARPA file: `ngram_query.py FOLDER_OF_BOOKS`.

    kenlm    one call for the whole text, from words, with its hash tables in memory; log10 in float32
    ours     one call for the whole text, from ids, with sorted tables in memory; `Interpolated.tables`, float64

Five-grams of the first 2^20 training tokens of the books, queried with 2^16 held-out tokens, one core each. Both must
agree to 1e-5 in log10 for each token. The goal is at least 0.5 of kenlm's tokens per second. kenlm is compiled when it
is installed: pip install 'seqloom[kenlm]'.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from harness import append, compare, gate

from seqloom.data.prepare import prepare
from seqloom.models.kinds import model_config

ORDER, COUNTED, QUERIED, VOCAB = 5, 2**20, 2**16, 5000


def counted(ids, vocab):
    """The tables of a model that has counted these ids."""
    model = model_config({"kind": "ngram", "order": ORDER, "vocab": vocab, "context": 128}).build()
    model.fit({"ids": torch.from_numpy(ids)[None]})
    model.end_pass()
    return model.tables


def read_by_kenlm(tables, words):
    """The model that kenlm has of the ARPA file."""
    import kenlm

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.arpa"
        with path.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in tables.arpa(words))
        return kenlm.Model(str(path))


def main() -> None:
    gate("tests/models/test_kneser_ney.py", "tests/cli/test_arpa.py")
    corpus = prepare(sys.argv[1], vocab=VOCAB, context=128)
    sys.argv[1] = "BOOKS"
    words = [f"w{id}" for id in range(corpus.tokenizer.vocab)]
    tables = counted(corpus.train.ids[:COUNTED].astype(np.int64), len(words))
    peer = read_by_kenlm(tables, words)
    ids = corpus.held_out.ids[:QUERIED].astype(np.int64)
    text = " ".join(words[id] for id in ids)
    theirs = np.array([log for log, _, _ in peer.full_scores(text, bos=False, eos=False)])
    difference = np.abs(tables.log_probabilities(ids, begin=False) / np.log(10) - theirs).max()
    if difference > 1e-5:
        raise SystemExit(f"ours and kenlm's differ by {difference:.2g} in log10")
    runs = {
        "kenlm": lambda: peer.score(text, bos=False, eos=False),
        "ours": lambda: tables.log_probabilities(ids, begin=False),
    }
    times = compare(runs, peer="kenlm", repeats=25)
    if times["loaded"]:
        del times["ms_median_quartiles"]  # next to other work only ratios within a round are worth something
    low, middle, high = (times["ratio_median_quartiles"]["ours"][place] for place in (1, 0, 2))
    share = [float(f"{1 / ratio:.3g}") for ratio in (middle, high, low)]
    row = {
        "order": ORDER,
        "counted": COUNTED,
        "queried": QUERIED,
        "grams": sum(len(each.keys) for each in tables.orders),
    }
    row |= {"largest_difference_log10": float(f"{difference:.2g}"), "of_kenlms_tokens_per_second": share, "goal": 0.5}
    append("ngram_query", [{**row, **times}])


if __name__ == "__main__":
    main()
