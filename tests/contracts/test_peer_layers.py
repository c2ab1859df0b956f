"""The wrappers of public layers fit `seqloom verify`: the promises that these layers keep hold here."""

import pytest

pytest.importorskip("transformers")
pytest.importorskip("mambapy")

from seqloom.contracts.causality import causality
from seqloom.contracts.numbers import rows
from seqloom.contracts.padding import padding
from seqloom.contracts.reading import token_steps
from seqloom.contracts.target import subject_of


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "promises"),
    [
        ("TransformersMamba", (causality, rows, padding, token_steps)),
        ("TransformersRwkv", (causality, rows)),
        ("MambapyBlock", (causality, rows, token_steps)),
    ],
)
def test_public_layers(layer: str, promises: tuple) -> None:
    subject = subject_of(f"examples.public_layers:{layer}", dim=16, context=6)
    for promise in promises:
        result = promise(subject)
        assert result.verdict == "holds", result
