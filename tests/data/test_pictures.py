"""Pictures as texts: every order and back, what is drawn, files, and what reads them."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqloom.data.corpora import read
from seqloom.data.labels import from_file
from seqloom.data.pairs import read_pairs
from seqloom.data.pictures import FRAME, KINDS, decode_picture, draw_pictures, encode_picture, read_pictures
from seqloom.data.pictures.text import Order, place_pixels


@pytest.fixture
def picture() -> Any:
    return np.random.default_rng(0).integers(0, 256, (8, 12, 3), np.uint8)


@pytest.mark.parametrize("order", ["raster", "blocks"])
def test_a_picture_comes_back_from_its_text(order: Order, picture: Any) -> None:
    text = encode_picture(picture, order)
    assert len(text) == 1 + picture.size
    assert np.array_equal(decode_picture(text, 8, 12, 3, order), picture)
    assert np.array_equal(decode_picture(text.removeprefix(FRAME), 8, 12, 3, order), picture)


def test_the_first_characters(picture: Any) -> None:
    assert encode_picture(picture)[:4] == FRAME + "".join(chr(0x2800 + number) for number in picture[0, 0].tolist())
    pixels = place_pixels(8, 12, "blocks")
    assert pixels[:6].tolist() == [0, 1, 2, 12, 13, 14], "the first square, 3 wide and 2 high"
    assert pixels[6:9].tolist() == [3, 4, 5], "then the one right of it"
    assert np.array_equal(np.sort(pixels), np.arange(96))


def test_a_text_that_a_model_wrote_badly() -> None:
    assert decode_picture("⠁x⠃", 2, 2, 1).reshape(-1).tolist() == [1, 0, 3, 0]
    assert decode_picture("\ufffd⠁", 1, 2, 1).reshape(-1).tolist() == [0, 1]
    assert decode_picture("⠁" * 99, 2, 2, 1).tolist() == [[[1], [1]], [[1], [1]]]


@pytest.mark.parametrize("kind", KINDS)
def test_drawn_pictures_depend_on_their_number_alone(kind: str) -> None:
    size = 24 if kind == "pathfinder" else 16
    drawn = draw_pictures(kind, size, 3, 0, 40)
    later = draw_pictures(kind, size, 3, 10, 5)
    assert all(
        np.array_equal(a.picture, b.picture) and a.label == b.label for a, b in zip(drawn[10:15], later, strict=True)
    )
    other = draw_pictures(kind, size, 4, 0, 40)
    assert not any(np.array_equal(a.picture, b.picture) for a, b in zip(drawn, other, strict=True))
    numbers = np.stack([one.picture for one in drawn])
    assert set(np.unique(numbers)) <= set(range(0, 256, 17))
    assert numbers.max() - numbers.min() > 128
    assert numbers.shape == (40, size, size, 3 if kind == "colors" else 1)
    assert len({one.label for one in drawn}) >= 2


def test_a_digit_looks_like_its_label() -> None:
    """The nearest mean picture of other digits names most of them."""
    learn, judge = draw_pictures("digits", 16, 0, 0, 2000), draw_pictures("digits", 16, 1, 0, 300)
    means = {}
    for label in "0123456789":
        means[label] = np.mean([one.picture for one in learn if one.label == label], 0)
    right = [min(means, key=lambda label: np.square(means[label] - one.picture).sum()) == one.label for one in judge]
    assert np.mean(right) > 0.7


def test_a_texture_goes_in_its_direction() -> None:
    for one in draw_pictures("textures", 16, 0, 0, 60):
        numbers = one.picture[..., 0].astype(float)
        changes = {
            "across": np.abs(numbers[:, 1:] - numbers[:, :-1]).mean(),
            "down": np.abs(numbers[1:] - numbers[:-1]).mean(),
            "rising": np.abs(numbers[1:, :-1] - numbers[:-1, 1:]).mean(),
            "falling": np.abs(numbers[1:, 1:] - numbers[:-1, :-1]).mean(),
        }
        along = {"across": "across", "down": "down", "falling": "rising", "rising": "falling"}[one.label]
        assert min(changes, key=lambda name: changes[name]) == along


def test_the_ends_of_a_path_are_marked() -> None:
    """Two discs; following bright pixels from one of them, with gaps, leads to the other where they are joined."""
    for one in draw_pictures("pathfinder", 32, 0, 0, 40):
        bright = one.picture[..., 0] > 60
        ends = np.argwhere(one.picture[..., 0] == 255)
        first = ends[0]
        other = ends[np.abs(ends - first).max(1) > 3]
        assert len(other), "two marked ends"
        reached = np.zeros_like(bright)
        reached[tuple(first)] = True
        for _ in range(64):
            wide = np.zeros_like(reached)
            for row, column in np.argwhere(reached):
                wide[max(row - 2, 0) : row + 3, max(column - 2, 0) : column + 3] = True
            reached = wide & bright
        assert reached[tuple(other[0])] == (one.label == "joined")


def test_documents_pairs_and_examples() -> None:
    documents = list(read("images:shapes:8:5:2"))
    assert [len(document.text) for document in documents] == [65] * 5
    drawn = draw_pictures("shapes", 8, 2, 0, 5)
    assert [document.text for document in documents] == [encode_picture(one.picture) for one in drawn]
    assert next(iter(read("images:shapes:8:5:2:blocks"))).text == encode_picture(drawn[0].picture, "blocks")
    examples = from_file("images:shapes:8:5:2")
    assert [(example.label, *example.texts) for example in examples] == [
        (one.label, encode_picture(one.picture)) for one in drawn
    ]
    for pair in read_pairs("pairs:pictures-doubling:3"):
        small, large = decode_picture(pair.source, 8, 8, 1), decode_picture(pair.target, 16, 16, 1)
        assert np.abs(large.reshape(8, 2, 8, 2).mean((1, 3)) - small[..., 0]).max() <= 0.5
    for pair in read_pairs("pairs:pictures-coloring:3"):
        gray, color = decode_picture(pair.source, 8, 8, 1), decode_picture(pair.target, 8, 8, 3)
        assert np.abs(color.mean(2) - gray[..., 0]).max() <= 0.5


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("images:", "pictures are images:KIND or images:./FOLDER"),
        ("images:digit", "did you mean 'digits'"),
        ("images:digits:7", "8 … 64 pixels a side, a multiple of 4, not 7"),
        ("images:digits:10", "a multiple of 4, not 10"),
        ("images:pathfinder:16", "24 … 64 pixels a side"),
        ("images:digits:16:1", "from 2 to 1,000,000 pictures are drawn, not 1"),
        ("images:digits:x", "say images:digits[:SIZE[:COUNT[:SEED]]]"),
        ("images:digits:16:9:0:9", "say images:digits[:SIZE[:COUNT[:SEED]]]"),
    ],
)
def test_a_wrong_name(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)) as error:
        read_pictures(name)
    assert "\n" not in str(error.value)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    image = pytest.importorskip("PIL.Image")
    for label in ("cats", "dogs"):
        (tmp_path / label).mkdir()
        for number in range(3):
            numbers = np.full((8, 12), 40 * number + len(label), np.uint8)
            image.fromarray(numbers).save(tmp_path / label / f"{number}.png")
    return tmp_path


def test_files_of_a_folder(files: Path) -> None:
    pictures = read_pictures(f"images:{files}")
    assert (pictures.height, pictures.width, pictures.channels, pictures.count) == (8, 12, 1, 6)
    drawn = list(pictures)
    assert [one.label for one in drawn] == ["cats"] * 3 + ["dogs"] * 3
    assert (drawn[1].picture == 44).all()
    assert len(list(read(f"images:{files}:blocks"))) == 6


def test_odd_files(files: Path) -> None:
    image = pytest.importorskip("PIL.Image")

    def error() -> str:
        with pytest.raises((ValueError, FileNotFoundError)) as raised:
            list(read_pictures(f"images:{files}"))
        assert "\n" not in str(raised.value)
        return str(raised.value)

    odd = files / "dogs" / "9.png"
    image.fromarray(np.zeros((8, 8), np.uint8)).save(odd)
    assert "8 × 8 pixels of 1 numbers, where the first file has 12 × 8 of 1" in error()
    image.fromarray(np.zeros((8, 12, 4), np.uint8)).save(odd)
    assert "a picture of mode RGBA: save it as gray or RGB" in error()
    odd.write_bytes(b"\x89PNG\r\n\x1a\nno")
    assert "9.png is no readable PNG file" in error()
    odd.write_bytes((files / "dogs" / "1.png").read_bytes()[:50])
    assert "9.png is no readable PNG file" in error()
    with pytest.raises(FileNotFoundError, match="there is no such folder"):
        read_pictures("images:./nowhere")
    (files / "empty").mkdir()
    with pytest.raises(ValueError, match="0 PNG files: at least two are needed"):
        read_pictures(f"images:{files / 'empty'}")
