"""Which price of a whole model a setting `per` asks for."""

import pytest

from seqloom.analysis.whole import require_use
from seqloom.core.cost import Cost
from seqloom.models.decoder import DecoderConfig


def test_the_use_that_is_asked_for() -> None:
    config = DecoderConfig(vocab=9, dim=8, depth=1, context=4, ffn=8, mixer={"kind": "linear"})
    costs = {"training": Cost(mul=1), "prefill": Cost(mul=2), "token": Cost(mul=3)}
    uses = {per: require_use(config, costs, per) for per in (None, "sequence", "training", "prefill", "token")}
    assert uses == {
        **{None: "training", "sequence": "training"},
        **{per: per for per in ("training", "prefill", "token")},
    }
    with pytest.raises(ValueError, match="no price of token, only of training"):
        require_use(config, {"training": Cost(mul=1)}, "token")
