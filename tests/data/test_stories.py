import math
import statistics
from hashlib import sha256

import pytest

from seqloom.data.stories import (
    agreement,
    corpus,
    derive,
    entropy,
    grammatical_share,
    is_sentence,
    log_probability,
    parse,
    repeat_probability,
    sentences,
    story,
)
from seqloom.data.stories.grammar import RULES, longest
from seqloom.data.stories.tables import SENTENCES

OPENING = "Once upon a time a brave girl named Mina lived near the sea."
GIFT = "One spring morning her aunt gave her an old bell."


# The stories.


def test_a_story_is_a_function_of_its_seed_and_number_on_every_machine() -> None:
    written = list(corpus(100, 7))
    assert written == [story(7, number) for number in range(100)]
    assert not set(written) & set(corpus(100, 8))
    assert (
        sha256("\n".join(written).encode()).hexdigest()
        == "d8c2d2d996e483480f116d75b35153d1193d6cb9544af883ef08d6b818493a78"
    )


@pytest.mark.slow
def test_stories_do_not_repeat() -> None:
    assert len(set(corpus(20_000, 0))) == 20_000
    assert entropy() / math.log(2) > 60
    assert 20_000**2 / 2 * repeat_probability() < 1e-9


def test_repeat_probability_of_a_small_rule() -> None:
    assert repeat_probability("child") == pytest.approx(
        sum(0.25 * sum(p * p for p in RULES[name].probabilities) for name in ("girl", "boy"))
    )


@pytest.mark.slow
def test_a_text_gives_back_its_derivation() -> None:
    used = set()
    for number in range(3000):
        derivation = derive(3, number)
        parsed = parse(derivation.text)
        assert parsed is not None
        assert parsed.text == derivation.text
        assert parsed.choices == derivation.choices
        assert len(parsed.choices) <= longest()
        used |= {(choice.rule, choice.option) for choice in parsed.choices}
    assert used == {(name, index) for name, rule in RULES.items() for index in range(len(rule.options))}


@pytest.mark.slow
def test_mean_loss_is_the_entropy() -> None:
    losses = [-log_probability(text) for text in corpus(3000, 5)]
    error = statistics.stdev(losses) / math.sqrt(len(losses))
    assert abs(statistics.mean(losses) - entropy()) < 4 * error
    assert error < 0.01 * entropy()


def test_probability_is_the_product_of_the_choices() -> None:
    derivation = derive(0, 0)
    product = math.prod(RULES[choice.rule].probabilities[choice.option] for choice in derivation.choices)
    assert log_probability(derivation.text) == pytest.approx(math.log(product))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[:-1],
        lambda text: text + " ",
        lambda text: text + " " + text,
        lambda text: text.replace(" he ", " she ").replace(" him ", " her ") if " his " in text else text + "!",
        lambda text: " ".join(sentences(text)[1:]),
        lambda text: "",
    ],
)
def test_other_texts_are_no_stories(spoil) -> None:
    for text in corpus(20, 1):
        assert parse(spoil(text)) is None
        with pytest.raises(ValueError, match="not a story"):
            log_probability(spoil(text))


def test_negative_numbers_are_errors() -> None:
    with pytest.raises(ValueError, match="counts from 0"):
        story(0, -1)
    with pytest.raises(ValueError, match="negative"):
        corpus(-1, 0)


# Sentences.


@pytest.mark.slow
def test_every_sentence_of_a_story_is_one_and_agrees() -> None:
    for number in range(300):
        derivation = derive(9, number)
        count = sum(choice.rule in SENTENCES for choice in derivation.choices)
        assert len(sentences(derivation.text)) == count
        assert grammatical_share(derivation.text) == (count, count)
        assert agreement(derivation.text) == (count, count)
    several = "\n".join(corpus(5, 2))
    assert agreement(several) == (len(sentences(several)),) * 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mina was so sad that she could not sleep.", True),
        ("Mina was so sad that he could not sleep.", False),  # the name and the pronoun
        ("Tom was so sad that he could not sleep.", True),
        ("She was so sad that she could not sleep.", False),
        ("And she never lost the old bell again.", True),
        ("So Tom learned that a true friend is better than an old bell.", True),
        ("So Tom learned that a true friend is better than a old bell.", False),
        ('"Where can my silver key be?" he asked.', True),
        ('"Where can my silver key be?"', False),
        ("Then a sly fox came through the door, took the cup, and flew away.", False),
        ("Then a sly crow came through the door, took the cup, and flew away.", True),
        ("Once upon a time", False),
        ("", False),
    ],
)
def test_is_sentence(text: str, expected: bool) -> None:
    assert is_sentence(text) is expected


@pytest.mark.parametrize(
    ("text", "cut", "expected"),
    [
        ("", False, (0, 0)),
        (f"{OPENING} {GIFT}", False, (2, 2)),
        (f"{OPENING} {GIFT} Mina loved the", False, (2, 2)),
        (f"{OPENING} Bell the old gave. {GIFT}", False, (2, 3)),
        (f"near the sea. {GIFT}", False, (1, 2)),
        (f"near the sea. {GIFT}", True, (1, 1)),
        ('"Have you seen my old bell?" asked Mina.', False, (1, 1)),
        (f'{OPENING} "Have you seen my old bell?"', False, (1, 1)),
        (f"{OPENING}\n{OPENING}\n", False, (2, 2)),
    ],
)
def test_grammatical_share(text: str, cut: bool, expected: tuple[int, int]) -> None:
    assert grammatical_share(text, cut=cut) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{OPENING} {GIFT} And she never lost the old bell again.", (3, 3)),
        (f"{OPENING} {GIFT} And he never lost the old bell again.", (2, 3)),
        (f"{OPENING} {GIFT} And she never lost the red bell again.", (2, 3)),
        (f"{OPENING} {GIFT} Rosa sat by the fire and cried.", (2, 3)),
        (f"{OPENING} {GIFT} Mina hugged the owl and sang for joy.", (2, 3)),  # no owl was met
        ("Mina hugged the owl and sang for joy. And she never lost the red bell again.", (2, 2)),
        ("Mina hugged the owl and sang for joy. And he never lost the red bell again.", (1, 2)),
        (f"Tom sat by the fire and cried. {OPENING} {GIFT}", (3, 3)),
        (f"{OPENING} Nonsense came. {GIFT}", (2, 2)),
    ],
)
def test_agreement(text: str, expected: tuple[int, int]) -> None:
    assert agreement(text) == expected
