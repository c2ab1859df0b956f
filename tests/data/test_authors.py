"""A text divided by author: names of authors, names of the same person, and the part of every author."""

from pathlib import Path

import pytest

from seqloom.data.authors import PARTS, authors, divide, key
from seqloom.data.corpora import read
from seqloom.data.documents import Document, Documents
from seqloom.data.prepare import prepare

WORDS = "the old king went over the hill and sang to the moon about tea "


def library(folder: Path, people: int = 24, each: int = 2) -> Path:
    for person in range(people):
        for book in range(each):
            text = (WORDS * 12 + f"{person} {book}\n\n") * 3
            (folder / f"Person{person} Name{person} - Book {book}.txt").write_text(text)
    return folder


def division_of(folder: Path, part: float = 0.1) -> dict[str, set[str]]:
    divided = divide(read(folder), folder, part)
    return {side.name: set(side.authors) for side in divided.sides}


@pytest.mark.slow
def test_every_author_is_in_exactly_one_part(tmp_path: Path) -> None:
    library(tmp_path)
    parts = division_of(tmp_path)
    everybody = [author for members in parts.values() for author in members]
    assert sorted(everybody) == sorted({f"Person{n} Name{n}" for n in range(24)})
    divided = divide(read(tmp_path), tmp_path, 0.1)
    for name in PARTS:
        of_side = {document.name.partition(" - ")[0] for document in divided.side(read(tmp_path), name)}
        assert of_side == parts[name]


@pytest.mark.slow
def test_validation_and_test_have_about_their_part_and_no_more(tmp_path: Path) -> None:
    library(tmp_path)
    sides = divide(read(tmp_path), tmp_path, 0.1).sides
    whole = sum(side.characters for side in sides)
    for side in sides[1:]:
        assert 0.05 < side.characters / whole <= 0.125


def test_validation_stays_and_all_others_are_dealt_into_folds_of_about_equal_size(tmp_path: Path) -> None:
    library(tmp_path)
    plain = division_of(tmp_path)
    tests, sizes = [], []
    for fold in range(5):
        training, validation, test = divide(read(tmp_path), tmp_path, 0.1, folds=5, fold=fold).sides
        assert set(validation.authors) == plain["validation"]
        assert set(training.authors) == (plain["training"] | plain["test"]) - set(test.authors)
        tests.append(set(test.authors))
        sizes.append(test.characters)
    assert set.union(*tests) == plain["training"] | plain["test"]
    assert sum(map(len, tests)) == len(set.union(*tests))
    assert max(sizes) <= 1.3 * min(sizes)
    training, validation, test = divide(read(tmp_path), tmp_path, 0.1, folds=5).sides
    assert set(training.authors) == plain["training"] | plain["test"]
    assert not test.documents
    with pytest.raises(ValueError, match="cannot be dealt into 24 folds: choose fewer"):
        divide(read(tmp_path), tmp_path, 0.1, folds=24)


def test_a_corpus_without_a_test_fold_has_no_test_text(tmp_path: Path) -> None:
    books, cache = tmp_path / "books", tmp_path / "cache"
    books.mkdir()
    library(books)
    whole = prepare(books, vocab=300, context=8, held_out=0.1, division="authors", folds=5, cache=cache)
    fold = prepare(books, vocab=300, context=8, held_out=0.1, division="authors", folds=5, fold=1, cache=cache)
    assert whole.test is None
    assert fold.test is not None
    assert whole.train.documents == fold.train.documents + fold.test.documents
    assert whole.identity != fold.identity


@pytest.mark.slow
def test_the_division_depends_on_authors_and_not_on_names_of_files(tmp_path: Path) -> None:
    library(tmp_path)
    before = division_of(tmp_path)
    for number, path in enumerate(sorted(tmp_path.iterdir(), reverse=True)):
        path.rename(path.with_name(f"{path.stem.partition(' - ')[0]} - {number}.txt"))
    assert division_of(tmp_path) == before


def test_the_manifest_is_asked_first_then_the_header_then_the_name() -> None:
    book = Document("Somebody - A Tale.txt", "Title: A Tale\nAuthor: Jane Header\n\nOnce.")
    assert authors(book, {"Somebody - A Tale.txt": "Doe, Jane"}, "books") == ("Doe, Jane",)
    assert authors(book, {}, "books") == ("Jane Header",)
    assert authors(Document(book.name, "Once."), {}, "books") == ("Somebody",)


def test_a_document_without_author_is_an_error_that_names_it() -> None:
    with pytest.raises(ValueError, match=r"no author is named for tale\.txt: write manifest\.csv"):
        authors(Document("tale.txt", "Once."), {}, "books")


def test_spellings_of_one_person_are_one() -> None:
    assert key("Carroll, Lewis") == key("Lewis Carroll")
    assert key("Wiggin, Kate Douglas Smith") == key("Wiggin, Kate Douglas") != key("Smith, Nora A.")
    assert key("Aesop") == "aesop"
    assert key("Carroll, Lewis, 1832-1898") == key("Carroll, Lewis (1832-1898)") == key("Lewis Carroll")
    assert key("Horatio Alger Jr.") == key("Alger, Horatio, Jr.") == key("Alger, Horatio")
    with pytest.raises(ValueError, match="is no author's name"):
        key(",")


def test_coauthors_are_in_one_part() -> None:
    rows = [("a", "Grimm, Jacob; Grimm, Wilhelm"), ("b", "Wilhelm Grimm"), ("c", "Grimm, Jacob (editor)")]
    rows += [(f"d{number}", f"Other{number} Name{number}") for number in range(20)]
    documents = Documents.of([Document(f"{name}.txt", f"Author: {who}\n{WORDS * 5}") for name, who in rows])
    divided = divide(documents, Path("nowhere"), 0.15)
    assert len(set(divided.parts[:3])) == 1


def test_too_few_authors_are_an_error(tmp_path: Path) -> None:
    library(tmp_path, people=2)
    with pytest.raises(ValueError, match="2 authors cannot be divided so that validation has about 10% of the text"):
        division_of(tmp_path)


@pytest.mark.slow
def test_a_manifest_without_its_columns_is_an_error(tmp_path: Path) -> None:
    library(tmp_path)
    (tmp_path / "manifest.csv").write_text("name,writer\na,b\n")
    with pytest.raises(ValueError, match=r"manifest\.csv: it has no columns file and author"):
        division_of(tmp_path)


@pytest.mark.slow
def test_a_corpus_has_three_parts_and_the_same_for_every_seed(tmp_path: Path) -> None:
    library(tmp_path)
    first, second = (
        prepare(tmp_path, vocab=300, context=8, held_out=0.1, seed=seed, division="authors") for seed in (0, 1)
    )
    assert first.identity == second.identity
    assert first.test is not None
    assert first.division is not None
    sizes = [len(side) for side in (first.train, first.held_out, first.test)]
    assert min(sizes) > 0
    assert [side.documents for side in (first.train, first.held_out, first.test)] == [
        side.documents for side in first.division.sides
    ]
    assert prepare(tmp_path, vocab=300, context=8, held_out=0.1).test is None
