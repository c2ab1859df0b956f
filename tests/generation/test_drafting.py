"""Drafts: the distribution is the large model's, states are restored for any mixer, Big-Little's bounds by hand."""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import seqloom
from seqloom.core.config import read
from seqloom.core.model import Model
from seqloom.generation.ahead import Streamed, Windowed
from seqloom.generation.drafting import Draft, Drafting, draw_with_draft
from seqloom.generation.modes import reader
from seqloom.generation.sample import Sampling, probabilities
from tests.generation.markov import Markov, chance
from tests.kinds import CAUSAL

VOCAB, CONTEXT = 7, 10


def decoder(kind: str, seed: int, vocab: int = VOCAB, **settings: Any) -> Model:
    torch.manual_seed(seed)
    sizes = {"vocab": vocab, "dim": 8, "depth": 2, "context": CONTEXT, "ffn": 16, "dropout": 0.0, "std": 0.5}
    return seqloom.decoder(kind, **{**sizes, **settings}).double().eval()


def written(model: Model, drafting: Drafting, prompt: Sequence[int], **settings: Any) -> list[int]:
    how = {"max_tokens": 12, "mode": "stream", "hop": 1, "sampling": Sampling(), **settings}
    return list(draw_with_draft(model, list(prompt), drafting, **how))


def drafts_of(small: Model, tokens: int = 4, **bounds: float) -> Drafting:
    return Drafting(Draft(model=small, tokens=tokens, **bounds))


def test_the_methods_of_the_table_model_are_used() -> None:
    """The law below is tested on a model of which every next token depends on the last alone."""
    model = Markov(0)
    logits, state = model.step(torch.tensor([2]), model.start(1))
    x, _ = model.read(torch.tensor([[1, 2]]), state)
    assert torch.equal(model.logits(x)[0, 1], logits[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("drafts", "sampling", "draws"),
    [
        (4, Sampling(), 6_000),
        pytest.param(4, Sampling(), 100_000, marks=pytest.mark.slow),
        pytest.param(1, Sampling(), 100_000, marks=pytest.mark.slow),
        pytest.param(4, Sampling(temperature=0.7, top_k=3), 100_000, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_distribution_is_that_of_the_large_model(drafts: int, sampling: Sampling, draws: int) -> None:
    """χ² over the draws: the tokens that follow each token, under the large model's own law."""
    large, small = Markov(0), Markov(1, scale=2.0)
    draft = drafts_of(small, drafts)
    ids = written(large, draft, [0], max_tokens=draws, sampling=sampling)
    assert len(ids) == draft.written == draws
    assert 0.1 < draft.stayed / draft.drafted < 0.9
    laws = probabilities(large.table, sampling).numpy()
    pairs = Counter(itertools.pairwise([0, *ids]))
    for token, law in enumerate(laws):
        counts = np.array([pairs[token, after] for after in range(4)])
        assert not counts[law == 0].any()
        possible = law > 0
        assert chance(counts[possible], law[possible]) > 1e-3
    other = probabilities(small.table, sampling).numpy()
    counts = np.array([pairs[0, after] for after in range(4)])
    possible = other[0] > 0
    assert chance(counts[possible], other[0][possible]) < 1e-6, "it is the draft's"


@pytest.mark.slow
@pytest.mark.parametrize("kind", CAUSAL)
def test_without_chance_it_writes_what_the_large_model_writes(kind: str) -> None:
    """Any mixer on either side: what is taken back leaves no trace in a state."""
    large = decoder(kind, 0, position="none", depth=1)
    small, greedy = decoder("he", 5, position="none", depth=1), Sampling(temperature=0.0)
    plain = list(seqloom.generate(large, [1, 2, 3], max_tokens=8, mode="stream", temperature=0.0))
    draft = drafts_of(small, 3)
    assert written(large, draft, [1, 2, 3], sampling=greedy, max_tokens=8) == plain
    assert draft.drafted > 0
    turned = list(seqloom.generate(small, [1, 2, 3], max_tokens=8, mode="stream", temperature=0.0))
    assert written(small, drafts_of(large, 3), [1, 2, 3], sampling=greedy, max_tokens=8) == turned
    own = drafts_of(large, 3)
    assert written(large, own, [1, 2, 3], sampling=greedy, max_tokens=8) == plain
    assert own.stayed == own.drafted
    assert own.readings == 2, "three drafts and one token more at each reading"


def test_ids_that_nobody_reads_are_not_counted() -> None:
    large, draft = decoder("gru", 0, position="none"), drafts_of(decoder("gru", 0, position="none"), 6)
    greedy = Sampling(temperature=0.0)
    ids = draw_with_draft(large, [1, 2], draft, max_tokens=12, mode="stream", hop=1, sampling=greedy)
    next(ids), next(ids)
    assert (draft.written, draft.stayed, draft.drafted, draft.readings) == (2, 2, 6, 1)


@pytest.mark.slow
@pytest.mark.parametrize("hop", [1, 3])
@pytest.mark.parametrize("prompt", [1, 4, 10, 13])
@pytest.mark.parametrize("kind", ["attention", "mamba"])
def test_windows_that_slide_in_drafting(kind: str, prompt: int, hop: int) -> None:
    """Past the context: what the large model writes in mode `slide`, with learned positions."""
    heads = {"heads": 2} if kind == "attention" else {}
    large, small = decoder(kind, 0, **heads), decoder("he", 5)
    ids = torch.randint(VOCAB, (prompt,), generator=torch.Generator().manual_seed(2)).tolist()
    plain = list(seqloom.generate(large, ids, max_tokens=25, mode="slide", hop=hop, temperature=0.0))
    how = {"mode": "slide", "hop": hop, "max_tokens": 25, "sampling": Sampling(temperature=0.0)}
    assert written(large, drafts_of(small, 3), ids, **how) == plain


@pytest.mark.parametrize(("large", "small"), [("none", "learned"), ("learned", "none"), ("none", "none")])
def test_without_a_mode_each_model_has_its_own(large: str, small: str) -> None:
    """Past the context: a model that streams drafts for one that slides, and the other way round."""
    model, draft = decoder("gru", 0, position=large), Draft(model=decoder("he", 5, position=small), tokens=3)
    plain = list(seqloom.generate(model, [1, 2, 3], max_tokens=25, temperature=0.0))
    assert list(seqloom.generate(model, [1, 2, 3], draft, max_tokens=25, temperature=0.0)) == plain


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["attention", "he", "mamba"])
def test_predictions_along_tokens_that_are_taken_back(kind: str) -> None:
    """In any order of tries and of what is kept, predictions are those of the whole text."""
    model = decoder(kind, 0, position="none", **({"heads": 2} if kind == "attention" else {}))
    text, draw = [3, 1], np.random.default_rng(0)
    with torch.no_grad():
        for make in (lambda: Streamed(model, text), lambda: Windowed(model, text, 2)):
            ahead, now = make(), text.copy()
            reading = None
            for _ in range(12):
                ids: list[int] = []
                for _ in range(int(draw.integers(0, 4))):
                    ahead.predict(ids, len(ids))
                    ids = [*ids, int(draw.integers(VOCAB))]
                actual = ahead.predict(ids)
                if isinstance(ahead, Streamed):
                    expected = model(torch.tensor([now + ids]))[0, len(now) - 1 :]
                    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-10)
                else:
                    reading = reader(model, "slide", 2, len(text), 60)
                    logits = reading.prompt(torch.tensor([text]))
                    for id in (now + ids)[len(text) :]:
                        logits = reading.token(torch.tensor([id]))
                    torch.testing.assert_close(actual[-1:], logits, rtol=0, atol=1e-10)
                stay = int(draw.integers(0, len(ids) + 1))
                new = [*ids[:stay], int(draw.integers(VOCAB))]
                ahead.keep(new)
                now += new


def test_big_little_by_hand() -> None:
    """Two tables: the small one drafts while it is sure, and drafts that the large one finds unlikely are rejected."""
    small, large = Markov(0), Markov(0)
    sure, unsure = [9.0, 0.0, 0.0, 0.0], [0.1, 0.0, 0.0, 0.0]
    with torch.no_grad():
        small.table.copy_(torch.tensor([[0.0, 9.0, 0.0, 0.0], [0.0, 0.0, 9.0, 0.0], unsure, sure]))
        large.table.copy_(torch.tensor([[0.0, 3.0, 0.0, 0.0], [0.0, 0.0, 0.0, 3.0], [0.0, 0.0, 0.0, 3.0], sure]))
    greedy = {"sampling": Sampling(temperature=0.0), "max_tokens": 4}
    nats = float(-large.table.detach()[1].log_softmax(0)[2])
    patient = drafts_of(small, 4, confidence=0.9, take_back=nats + 0.01)
    assert written(large, patient, [0], **greedy) == [1, 2, 3, 0], "0 → 1 → 2 are sure; the large model goes on with 3"
    assert (patient.readings, patient.stayed, patient.differing) == (2, 2, 1)
    strict = drafts_of(small, 4, confidence=0.9, take_back=nats - 0.01)
    assert written(large, strict, [0], **greedy) == [1, 3, 0, 1], "1 → 2 is taken back"
    assert strict.differing == 0
    bold = drafts_of(small, 3, confidence=0.0)
    assert written(large, bold, [0], **greedy) == [1, 2, 0, 1], "no confidence is too low, nothing is taken back"
    assert not bold.draft.exact


@pytest.mark.slow
def test_its_error_lies_between_the_models(tmp_path: Any) -> None:
    """The mean loss under the large model falls with the bound, to that of the exact form."""
    large, small = Markov(0, scale=2.0), Markov(1, scale=2.0)
    nats = -large.table.detach().double().log_softmax(1)

    def loss(draft: Drafting) -> float:
        ids = written(large, draft, [0], max_tokens=400)
        return float(sum(nats[one, other] for one, other in itertools.pairwise([0, *ids]))) / 400

    losses = [loss(drafts_of(small, 4, take_back=bound)) for bound in (math.inf, 3.0, 1.0)]
    assert losses[0] > losses[1] > losses[2]
    assert losses[0] > loss(drafts_of(small, 4)) + 0.1


@pytest.mark.parametrize(
    ("small", "words"),
    [
        ({"model": decoder("he", 1, vocab=VOCAB + 1)}, "the draft model has another tokenizer"),
        ({"tokens": 0}, "tokens: .* not 0"),
        ({"confidence": 1.5}, "confidence: .* not 1.5"),
        ({"confidence": "0.5"}, "confidence: .* not '0.5'"),
        ({"take_back": -1.0}, "take_back: .* not -1.0"),
        ({"take_back": math.nan}, "take_back: .* not nan"),
        ({"model": None}, "a draft has a model that seqloom.decoder or seqloom.load gives, not None"),
        ({"model": nn.Linear(1, 1)}, "a draft has a model .* not Linear"),
    ],
)
def test_impossible_drafts(small: dict[str, Any], words: str) -> None:
    def write() -> None:
        draft = read(Draft, {"model": decoder("he", 1), **small})
        seqloom.generate(decoder("he", 0), [1], draft, max_tokens=3)

    with pytest.raises(ValueError, match=words) as caught:
        write()
    assert "\n" not in str(caught.value)


def test_models_of_two_tokenizers() -> None:
    large, small = decoder("he", 0), decoder("me", 1)
    large.tokenizer, small.tokenizer = SimpleNamespace(json="a", eos=0), SimpleNamespace(json="b", eos=0)
    with pytest.raises(ValueError, match="the draft model has another tokenizer"):
        seqloom.generate(large, [1], Draft(model=small), max_tokens=3)


@pytest.mark.slow
def test_the_face_draws_the_same_text_by_seed() -> None:
    large, small = decoder("he", 0), decoder("me", 1)
    texts = [list(seqloom.generate(large, [1, 2], Draft(model=small), max_tokens=8, seed=seed)) for seed in (3, 3, 4)]
    assert texts[0] == texts[1] != texts[2]
    assert [len(text) for text in texts] == [8, 8, 8]
