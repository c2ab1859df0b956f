"""The promises of seqloom's contract, checked for this mixer: causality, padding, streaming, price and more."""

import pytest

from seqloom.contracts import PROMISES
from seqloom.contracts.finding import Promise
from seqloom.contracts.target import subject_of


@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.parametrize("decay", [0.5, 0.9])
def test_the_promises(promise: Promise, decay: float) -> None:
    finding = promise(subject_of("my_mixer:DecayedMeanConfig", dim=8, settings={"decay": decay}))
    assert finding.verdict == "holds", finding.detail
