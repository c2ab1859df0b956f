"""A mixer that is built alone owns what layers share; one that is given it holds it without owning it."""

from seqloom.mixers.linear.hgrn2 import HGRN2Config
from seqloom.mixers.linear.linear import LinearConfig


def test_who_owns_what_layers_share() -> None:
    config = HGRN2Config(heads=2)
    first = config.build(8, 4, layer=0, depth=2)
    assert first.shared is not None
    assert "shared.table" in dict(first.named_parameters())
    later = config.build(8, 4, layer=1, depth=2, shared=first.shared)
    assert later.shared is first.shared
    assert "shared.table" not in dict(later.named_parameters())
    assert LinearConfig(heads=2).build(8, 4).shared is None
