"""Pictures in patches: which number is where, held out as by pixel, and what is refused."""

import re
from pathlib import Path

import numpy as np
import pytest

from seqloom.data.labelled import split_examples
from seqloom.data.pictures import encode_picture
from seqloom.data.pictures.patches import cut_patches, identity_of, read_known_patches, read_patches

SOURCE = "images:colors:8:40"


def test_the_numbers_of_each_patch() -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (2, 6, 4, 3), np.uint8)
    values = cut_patches(pictures, 2)
    assert values.shape == (2, 6, 12)
    for patch, (row, column) in enumerate([(0, 0), (0, 2), (2, 0), (2, 2), (4, 0), (4, 2)]):
        expected = pictures[:, row : row + 2, column : column + 2].reshape(2, -1)
        assert (values[:, patch] == expected).all()


def test_the_same_pictures_are_held_out_as_by_pixel() -> None:
    corpus = read_patches(SOURCE, 8, 0.2, 3)
    train, held_out, names = split_examples(SOURCE, "given", 0, 0.2, 3, "text")
    assert corpus.names == names == ("circle", "square", "triangle")
    assert corpus.shape == (8, 8, 3)
    for patches, examples in ((corpus.train, train), (corpus.held_out, held_out)):
        assert len(patches) == len(examples)
        texts = [encode_picture(values.reshape(8, 8, 3)) for values in patches.values]
        assert texts == [example.texts[0] for example in examples]
        assert [names[label] for label in patches.labels] == [example.label for example in examples]
    assert (len(corpus.train), len(corpus.held_out)) == (32, 8)


def test_all_pictures_for_a_model_that_knows_them() -> None:
    names = ("circle", "square", "triangle", "star")
    assert read_known_patches(SOURCE, 4, (8, 8, 3), names).values.shape == (40, 4, 48)
    with pytest.raises(ValueError, match=r"pictures of 8 × 8 colored pixels, and .* on 8 × 4 gray pixels: give such"):
        read_known_patches(SOURCE, 4, (4, 8, 1), names)
    with pytest.raises(ValueError, match=r"'\w+' was never seen in training; there is circle, star"):
        read_known_patches(SOURCE, 4, (8, 8, 3), ("circle", "star"))


def test_equal_pictures_have_one_identity(tmp_path: Path) -> None:
    Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    assert identity_of("images:digits") == identity_of("images:digits:16:20000:0")
    assert identity_of("images:digits") != identity_of("images:digits:16:20000:1")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for number in range(2):
            Image.new("L", (4, 4), 9 * number + ord(name)).save(tmp_path / name / f"{number}.png")
    before = identity_of(f"images:{tmp_path}")
    values = read_patches(f"images:{tmp_path}", 2, 0.3, 0).train.values.max()
    assert before == identity_of(f"images:{tmp_path}/")
    Image.new("L", (4, 4), 200).save(tmp_path / "a" / "0.png")
    assert identity_of(f"images:{tmp_path}") != before
    again = read_patches(f"images:{tmp_path}", 2, 0.3, 0)
    assert again.names == ("a", "b")
    assert max(again.train.values.max(), again.held_out.values.max()) == 200 > values, "files are read again"
    assert read_patches(SOURCE, 4, 0.2, 0) is read_patches(SOURCE, 4, 0.2, 0), "drawn pictures are not"


@pytest.mark.parametrize(
    ("source", "patch", "words"),
    [
        ("stories", 4, "patches are of pictures: say images:KIND, such as images:digits"),
        ("images:digits:8:40", 3, "model.patch=3 does not divide pictures of 8 × 8 pixels: choose one of 1, 2, 4, 8"),
        ("images:digits:8:40:blocks", 4, "patches are squares already: leave :blocks out"),
        ("images:cats", 4, "pictures are images:KIND or images:./FOLDER"),
        ("images:digits:8:2:0", 4, "examples cannot be divided into two sides"),
    ],
)
def test_what_is_refused(source: str, patch: int, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)) as error:
        read_patches(source, patch, 0.5, 0)
    assert "\n" not in str(error.value)
