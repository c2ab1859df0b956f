"""kNN-LM stores from the domain of the training text and from another: `knn_domains.py FOLDER_OF_BOOKS [OUT]`.

The model is llama/small with 2,000 tokens, trained for 1,200 batches on eleven books of one author. Two stores hold
those books and four of another author. λ, k and τ are tuned on an excerpt of a further book of each author, and the
loss is measured on an excerpt of another: 20,000 and 40,000 characters. FOLDER_OF_BOOKS has a manifest.csv with the
columns file and author. Quotation marks are replaced by straight ones, as only some books of one author have them:
otherwise a store would gain by the quotation marks alone, which the tokenizer was not trained on.
"""

import csv
import sys
from pathlib import Path

from harness import append, gate

from seqloom.data.corpora import read
from seqloom.data.prepare import encode_documents
from seqloom.evaluation.scores import score
from seqloom.evaluation.tuning import tune
from seqloom.face import load
from seqloom.retrieval.building import build
from seqloom.retrieval.neighbors import Neighbors
from seqloom.retrieval.search import Kind
from seqloom.training.settings import resolve
from seqloom.training.train import train

AUTHORS = {
    "Baum": ("Baum, L. Frank", "00960", "00961"),
    "Montgomery": ("Montgomery, L. M.", "00051", "03796"),
}
"""the author in the manifest, and the numbers of the book to tune on and of the book to test on"""
TRAINED = "Baum"
SEARCH: Kind = "flat"
"""faiss' exact index, which finds the neighbors of our own search"""
BATCHES, VOCAB = 1200, 2000
BEGINNING, TUNED_ON, TESTED_ON = 20_000, 20_000, 40_000
"""characters of a book: before its stretch, and of the stretches"""
STRAIGHT = str.maketrans("“”‘’", "\"\"''")
GRID = {"ks": [8, 64, 512], "weights": [0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6], "temperatures": [1.0, 3.0, 10.0]}


def divided(books: Path, out: Path) -> None:
    """Writes the books of each author into a folder, and the stretches next to them."""
    rows = list(csv.DictReader((books / "manifest.csv").read_text(encoding="utf-8-sig").splitlines()))
    for name, (author, tuned, tested) in AUTHORS.items():
        (out / name).mkdir(parents=True, exist_ok=True)
        for file in (row["file"] for row in rows if row["author"].startswith(author)):
            text = (books / file).read_text(encoding="utf-8").translate(STRAIGHT)
            stretch = text[BEGINNING:]
            if file.startswith(tuned):
                (out / f"{name}-tuned.txt").write_text(stretch[:TUNED_ON], encoding="utf-8")
            elif file.startswith(tested):
                (out / f"{name}-tested.txt").write_text(stretch[:TESTED_ON], encoding="utf-8")
            else:
                (out / name / file).write_text(text, encoding="utf-8")


def main() -> None:
    """A row for each text with each store."""
    gate("tests/retrieval")
    books, out = Path(sys.argv[1]), Path(sys.argv[2] if sys.argv[2:] else "runs/domains")
    sys.argv[1:] = ["BOOKS", "OUT"][: len(sys.argv) - 1]  # the row's command names no folder of this machine
    texts = out / "texts"
    divided(books, texts)
    changes = [f"data.vocab={VOCAB}", f"training.batches={BATCHES}", "training.evaluate_every=0"]
    train(resolve("llama/small", changes, source=str(texts / TRAINED)), out / "run")
    model = load(out / "run")

    def tokens(name: str):
        return encode_documents(read(str(texts / name)), model.tokenizer, unwrap=True)

    stores = {name: build(model, tokens(name), out / f"store-{name}", source=name) for name in AUTHORS}
    rows = []
    for domain in AUTHORS:
        tested = tokens(f"{domain}-tested.txt")
        alone = score(model, tested)
        for of, store in stores.items():
            tuned = tune(model, store, tokens(f"{domain}-tuned.txt"), search=SEARCH, **GRID)
            best = tuned.best
            with Neighbors(model, store, best, SEARCH) as neighbors:
                mixed = score(model, tested, neighbors=neighbors)
            alike = {"k": best.k, "temperature": best.temperature}
            by_weight = {m.weight: loss for m, loss in tuned.losses.items() if m.model_copy(update=alike) == m}
            rows.append(
                {
                    "trained_on": TRAINED,
                    "text": domain,
                    "store": of,
                    "keys": store.config.entries,
                    "tokens": alone.tokens,
                    "batches": BATCHES,
                    "loss": round(alone.loss, 4),
                    "loss_with_store": round(mixed.loss, 4),
                    "weight": best.weight,
                    "k": best.k,
                    "temperature": best.temperature,
                    "tuned_loss": round(tuned.plain, 4),
                    "tuned_loss_by_weight": {str(weight): round(loss, 4) for weight, loss in by_weight.items()},
                }
            )
    append("knn_domains", rows)


if __name__ == "__main__":
    main()
