"""Hidden Markov chains: the forward algorithm against a sum over all paths, the text, tokens that are letters."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from seqloom.data.corpora import chain_of, read
from seqloom.data.markov import Chain, HiddenChain, hidden_chain
from seqloom.data.prepare import prepare
from seqloom.data.tokenizer import Tokenizer


def test_the_forward_algorithm_is_the_sum_over_all_paths() -> None:
    source = hidden_chain(3, 2, 5)
    text = "abbab"
    total = 0.0
    for path in itertools.product(range(3), repeat=len(text)):
        p = 1 / 3
        for i, (state, letter) in enumerate(zip(path, text, strict=True)):
            p *= source.moves[path[i - 1], state] if i else 1.0
            p *= source.writes[state, "ab".index(letter)]
        total += p
    assert source.log_probability(text) == pytest.approx(math.log(total), rel=1e-13)


def test_the_probabilities_of_all_texts_of_one_length_sum_to_one() -> None:
    source = hidden_chain(4, 3, 1)
    texts = ("".join(letters) for letters in itertools.product("abc", repeat=5))
    assert math.fsum(math.exp(source.log_probability(text)) for text in texts) == pytest.approx(1, abs=1e-12)


def test_a_state_stays_with_four_fifths_and_more() -> None:
    source = hidden_chain(5, 4, 0)
    assert (np.diag(source.moves) > 0.8).all()
    np.testing.assert_allclose(source.moves.sum(1), 1)
    np.testing.assert_allclose(source.writes.sum(1), 1)


def test_a_chain_written_by_hand_follows_its_rows() -> None:
    # two states that never move, each with a letter of its own: a document is one letter throughout
    source = HiddenChain(0, ((1, 0), (0, 1)), ((1, 0), (0, 1)))
    texts = list(source.documents(20))
    assert {len(set(text)) for text in texts} == {1}
    assert {text[0] for text in texts} == {"a", "b"}
    assert source.log_probability("aaa") == pytest.approx(math.log(1 / 2))


@pytest.mark.slow
def test_the_true_chain_predicts_its_text_better_than_the_letters_alone() -> None:
    source = hidden_chain(4, 5, 3)
    text = "".join(source.documents(30))
    shares = np.array([text.count(letter) for letter in source.alphabet]) / len(text)
    alone = float(-(shares * np.log(shares)).sum())
    assert -source.log_probability(text) / len(text) < alone - 0.05


@pytest.mark.slow
def test_a_document_is_a_function_of_seed_and_number() -> None:
    few, many = list(hidden_chain(3, 4, 7).documents(2)), list(hidden_chain(3, 4, 7).documents(4))
    assert many[:2] == few
    assert len(set(many)) == 4
    assert {len(text) for text in many} == {1000}
    texts = [document.text for document in read("hmm:3:4:7")]
    assert (len(texts), texts[:4]) == (1000, many)


def test_a_source_is_known_by_its_chain() -> None:
    assert isinstance(chain_of("markov:3:2:7:variable"), Chain)
    assert chain_of("hmm:3:4:7") == hidden_chain(3, 4, 7)
    assert chain_of("stories:20") is None


@pytest.mark.slow
@pytest.mark.parametrize(("source", "letters"), [("markov:3:2:7", 3), ("hmm:4:5:1", 5)])
def test_each_letter_is_a_token(source: str, letters: int, tmp_path: Path) -> None:
    corpus = prepare(source, vocab=300, context=16, cache=tmp_path)
    assert (corpus.tokenizer.vocab, corpus.tokenizer.eos) == (letters + 1, 0)
    assert len(corpus.train) + len(corpus.held_out) == 1000 * 1001
    text = corpus.tokenizer.decode(corpus.held_out.ids[:1000].tolist())
    assert corpus.tokenizer.encode(text) == corpus.held_out.ids[:1000].tolist()
    assert text in {document.text for document in read(source)}
    given = prepare(source, vocab=300, context=16, cache=tmp_path, tokenizer=Tokenizer.of_bytes())
    assert given.tokenizer.vocab == 257, "a tokenizer that is given is taken"


def test_a_tokenizer_of_letters_is_restored_from_its_file(tmp_path: Path) -> None:
    tokenizer = Tokenizer.of_letters("abc")
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert loaded.json == tokenizer.json
    assert loaded.encode("cab") == [3, 1, 2]
    stream = loaded.stream()
    assert "".join(stream.push(id) for id in (3, 1, 2)) + stream.finish() == "cab"


@pytest.mark.parametrize("text", ["abd", "a b", "a\nb", "<eos>"])
def test_a_character_that_is_no_letter_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="the tokenizer cannot read the text") as error:
        Tokenizer.of_letters("abc").encode(text)
    assert "\n" not in str(error.value)
