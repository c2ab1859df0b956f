"""The distance to a Markov chain: the true loss by hand, models that reach it, the page, wrong input."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from seqloom.data import corpora
from seqloom.data.corpora import chain_of
from seqloom.data.prepare import Corpus, prepare
from seqloom.studies.candidate import parse_candidate
from seqloom.studies.plan import plan
from seqloom.studies.runner import run
from seqloom_studies.markov_gap import page
from seqloom_studies.markov_gap.study import Gap, MarkovGap, true_loss


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return prepare("markov:3:2:7", vocab=300, context=4, cache=tmp_path_factory.mktemp("cache"))


@pytest.mark.slow
def test_the_true_loss_adds_up_letters_and_ends(corpus: Corpus) -> None:
    source = chain_of("markov:3:2:7")
    assert source is not None
    texts = corpus.tokenizer.decode(corpus.held_out.ids.tolist())
    documents = [texts[first : first + 1000] for first in range(0, len(texts), 1000)]
    assert len(documents) == 50
    letters = -sum(source.log_probability(text) for text in documents) + 50 * 2 * math.log(3)
    ends = -math.log(1 / 1001) - 1000 * math.log(1000 / 1001)
    assert true_loss("markov:3:2:7", corpus) == pytest.approx((letters + 50 * ends) / (50 * 1001), rel=1e-12)


@pytest.mark.slow
def test_a_text_that_no_chain_wrote_has_no_true_loss(corpus: Corpus) -> None:
    with pytest.raises(ValueError, match="stories is not written by a chain"):
        true_loss("stories", corpus)


@pytest.fixture
def short_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Chains write 200 documents, as many as these models need to be near them, instead of 1000."""
    monkeypatch.setattr(corpora, "_MARKOV", 200)
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "cache"))
    corpora._chain_text.cache_clear()
    yield
    corpora._chain_text.cache_clear()


@pytest.mark.slow
@pytest.mark.usefixtures("short_texts")
def test_n_grams_reach_a_chain_of_their_order_and_no_longer_one(tmp_path: Path) -> None:
    models = [parse_candidate(text) for text in ("ngram/context_tree:order=3", "ngram/kneser_ney:order=3", "me")]
    study = MarkovGap(models, (2, 3), states=3, context=2, hidden=0, batches=3, batch=8, changes=["model.dim=8"])
    out = tmp_path / "study"
    planned = str(plan(study.study, out))
    assert "6 runs of 6 batches in all" in planned, "those of models that count are not known"
    assert planned.endswith("held-out text included; not included: models that are fitted without gradients")
    rows = run(study.study, out).of(Gap)
    assert [(row.order, row.model) for row in rows] == [(order, model.name) for order in (2, 3) for model in models]
    tree, kneser_ney, me, tree_of_3, *_ = rows
    assert tree.gap is not None
    assert kneser_ney.gap is not None
    assert me.gap is not None
    assert tree_of_3.gap is not None
    assert abs(tree.gap) < 0.003
    assert tree.gap <= kneser_ney.gap < 0.02
    assert me.gap > 0.05
    assert tree_of_3.gap > 0.05, "the third letter back is not read"
    assert (me.parameters > 0, me.table_bytes, tree.parameters) == (True, None, 0)
    assert (me.batches, tree.context, tree.seed, tree.variable) == (3, 2, 0, False)
    assert tree.rate == pytest.approx(chain_of("markov:3:2:0").entropy_rate)  # type: ignore[union-attr]
    assert "ngram-context_tree-order=3" in page.write(out).read_text()
    (drawn,) = (chart.table for chart in page.charts(page.read_rows(out)))
    assert drawn.head == ["model", "order", "gap"]
    (gap_of_tree,) = (row[2] for row in drawn.rows if row[:2] == [tree.model, 2])
    assert gap_of_tree == pytest.approx(tree.gap, rel=1e-4)
    written = [json.loads(line)["model"] for line in (out / "results.jsonl").read_text().splitlines()]
    assert sorted(written) == sorted(2 * [model.name for model in models])


def test_a_hidden_chain_is_one_of_the_chains() -> None:
    study = MarkovGap([parse_candidate("me")], (1,), states=3, hidden=5, variable=True)
    assert study.sources == ["markov:3:1:0:variable", "hmm:5:3:0"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"orders": ()}, "needs orders that differ, not none"),
        ({"orders": (1, 1)}, "needs orders that differ, not 1, 1"),
        ({"orders": (17,)}, "order of a Markov chain must be a whole number of 0 … 16, got 17"),
        ({"states": 26, "orders": (4,)}, "456,976 contexts"),
        ({"hidden": 65}, "states of a hidden Markov chain"),
        ({"changes": ["model.size=3"]}, "unknown setting"),
        ({"models": [parse_candidate("ngram/kneser_ney:order=9")]}, "model.order"),
    ],
)
def test_wrong_input_is_one_line(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        MarkovGap(**{"models": [parse_candidate("me")], "orders": (1,), **settings})  # type: ignore[arg-type]
    assert "\n" not in str(error.value)
