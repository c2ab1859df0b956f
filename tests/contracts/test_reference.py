"""A layer against the one that its author wrote plainly: outputs and gradients, in any dtype."""

import re

import pytest
import torch

from seqloom.contracts import verify
from seqloom.contracts.reference import reference
from seqloom.contracts.target import subject_of

TRAINED, LAYERS = "tests.contracts.layers_trained", "tests.contracts.layers"


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("layer", "plain", "says"),
    [
        ("Keyed", "Keyed", ""),
        ("TriplesKeys", "Keyed", "forward over .* tokens: the gradient of k.weight is off by (2|1.99|2.0)"),
        ("DropsTheState", "Decay", r"extend over .*: the gradient of the input that its state has read is off by"),
        ("ForgetsDecays", "Decay", "the gradient of a is off by 1, allowed"),
        ("OnlyReads", "Keyed", "forward over 5 tokens: the output has no gradient"),
        ("ReadsOnWithoutGradients", "Decay", ""),
        ("Relu", "Keyed", "the output is off by"),
    ],
)  # fmt: skip
def test_false_gradients_and_outputs(dtype: torch.dtype, layer: str, plain: str, says: str) -> None:
    home = LAYERS if plain == "Decay" else TRAINED
    result = reference(subject_of(f"{TRAINED}:{layer}", dim=8, dtype=dtype, reference=f"{home}:{plain}"))
    assert result.verdict == ("breaks" if says else "holds"), result
    assert re.search(says, result.detail), result


def test_it_is_a_promise_only_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.contracts.PROMISES", ())
    assert verify(subject_of(f"{TRAINED}:Keyed", dim=8)) == []
    (finding,) = verify(subject_of(f"{TRAINED}:Keyed", dim=8, reference=f"{TRAINED}:Keyed"))
    assert finding.promise == "reference"


def test_settings_reach_the_reference_where_it_takes_them() -> None:
    subject = subject_of("linear", dim=8, settings={"heads": 2}, reference="linear")
    assert subject.reference is not None
    assert subject.reference(5, torch.float64).heads == 2
    subject_of(f"{LAYERS}:made", dim=8, settings={"heads": 2}, reference=f"{LAYERS}:Decay")
