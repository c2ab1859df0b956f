"""A matched model has the other's quantity, by counting and not by formula, and differs in one size only."""

import re
from functools import cache
from itertools import count as counting
from itertools import product
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.analysis import sizes as module
from seqloom.analysis.match import By, Match, match, quantity
from seqloom.analysis.sizes import Counted
from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer
from seqloom.core.mixer_config import MixerConfig
from seqloom.counting.count import count
from seqloom.mixers.attention.attention import AttentionConfig
from seqloom.mixers.cached_heads import TRAITS
from seqloom.models.decoder import Decoder, DecoderConfig
from seqloom.models.verbs import ForwardVerb
from seqloom.ops.backends import known_backends, use
from tests.at_once import first

pytestmark = pytest.mark.slow

MIXERS: dict[str, dict[str, Any]] = {
    "attention": {"kind": "attention", "heads": 32},
    "she": {"kind": "she"},
    "he": {"kind": "he"},
    "we": {"kind": "we"},
    "me": {"kind": "me"},
    "he_extraction": {"kind": "he_extraction"},
}
PAIRS = list(product(MIXERS, MIXERS))
SIZES: dict[str, dict[str, int]] = {
    "table1": {},
    "small": {"depth": 2, "context": 32},
    "tiny": {"vocab": 11, "dim": 16, "depth": 3, "context": 6, "ffn": 64},
}
ASIDE = ("token.", "position.", "head.")


def decoder(mixer: Any, size: str = "table1", **changed: Any) -> DecoderConfig:
    if isinstance(mixer, str):
        mixer = MIXERS[mixer] | ({"heads": 4} if (size, mixer) == ("tiny", "attention") else {})
    return DecoderConfig.model_validate({**SIZES[size], "mixer": mixer, **changed})


@cache
def held(config: DecoderConfig) -> int:
    """The trainable numbers of the built model, tables and head aside."""
    with torch.device("meta"):
        model = Decoder(config)
    return sum(p.numel() for name, p in model.named_parameters() if not name.startswith(ASIDE))


@cache
def multiplied(config: DecoderConfig) -> int:
    """The multiplications that the layers and the last norm execute on one row, by their references."""
    model = Decoder(config).double().eval()
    embedded = torch.randn(1, config.context, config.dim, dtype=torch.float64)

    def layers() -> torch.Tensor:
        x, verb = embedded, ForwardVerb()
        for number, block in enumerate(model.blocks):
            x = block(x, verb.call(number))
        y: torch.Tensor = model.norm(x)
        return y

    with use(**{op: "reference" for op in known_backends() if "reference" in known_backends()[op]}), torch.no_grad():
        return count(layers).mul


def only(actual: Match, given: DecoderConfig) -> bool:
    """Whether only the size that may change differs, and has the stated value."""
    before, after = given.model_dump(), actual.config.model_dump()
    message = (before[actual.by], after[actual.by]) == (actual.before, actual.after)
    return message and before | {actual.by: actual.after} == after


def holds(config: DecoderConfig, to: DecoderConfig, equal: Counted, counted: Any) -> None:
    """Matched by ffn within 1% by count; refused only where the narrowest ffn is too much already."""
    try:
        result = match(config, to, equal=equal)
    except ValueError:
        assert counted(config.with_ffn_width(1)) > 1.01 * counted(to)
        return
    assert (result.quantity, result.aim) == (counted(result.config), counted(to))
    assert abs(result.quantity - result.aim) <= 0.01 * result.aim
    assert result.difference == pytest.approx(result.quantity / result.aim - 1)
    assert only(result, config)


@pytest.mark.parametrize("size", first(1, ["small", "table1"]))
@pytest.mark.parametrize(("kind", "to"), PAIRS)
def test_every_pair_holds_as_many_parameters(kind: str, to: str, size: str) -> None:
    holds(decoder(kind, size), decoder(to, size), "params", held)


@pytest.mark.parametrize(("kind", "to"), PAIRS)
def test_every_pair_executes_as_many_multiplications(kind: str, to: str) -> None:
    holds(decoder(kind, "tiny"), decoder(to, "tiny"), "mul", multiplied)


@pytest.mark.parametrize("position", ["learned", "none"])
@pytest.mark.parametrize("mixer", [*MIXERS, [{"kind": "me"}, {"kind": "attention", "heads": 2}]])
def test_quantity_is_what_is_counted(mixer: Any, position: str) -> None:
    config = decoder(mixer, "tiny", position=position)
    assert (quantity(config, "params"), quantity(config, "mul")) == (held(config), multiplied(config))


WHOLE_RWKV: dict[str, Any] = {"position": "none", "channel": "channel_mix", "embed_norm": True}


def test_quantity_of_whole_rwkv_is_what_is_counted() -> None:
    config = decoder({"kind": "rwkv"}, "tiny", **WHOLE_RWKV)
    plain = config.model_copy(update={"embed_norm": False})
    assert quantity(config, "params") == held(config) == held(plain) + 2 * 16
    assert quantity(plain, "mul") == multiplied(plain)
    assert quantity(config, "mul") == multiplied(plain) + 2 * 16 * 6, "gain and squares of the norm of each token"


def test_layers_without_a_second_half_have_no_ffn_to_move() -> None:
    config = decoder({"kind": "he"}, "small", channel="none", norm="rms")
    assert quantity(config, "params") == held(config)
    with pytest.raises(ValueError, match=r"he has no feed-forward network: match by dim or depth instead"):
        match(config, decoder("attention", "small"), by="ffn")
    assert match(config, decoder("attention", "small"), by="dim").close


@pytest.mark.parametrize("size", ["small", "table1"])
def test_whole_rwkv_is_matched_both_ways(size: str) -> None:
    whole = decoder({"kind": "rwkv"}, size, **WHOLE_RWKV)
    for config, to in ((whole, decoder("attention", size)), (decoder("he", size), whole)):
        holds(config, to, "params", held)
        result = match(config, to, equal="mul")
        assert result.close
        assert only(result, config)


def test_attention_as_large_as_she_at_table_1() -> None:
    result = match(decoder("attention"), decoder("she"))
    assert (result.before, result.after, result.quantity, result.aim) == (512, 8545, 40_720_594, 40_718_848)
    assert held(result.config) == 40_720_594
    assert str(result) == (
        "attention: ffn 512 → 8,545, 40,720,594 parameters, 0.004288% above the 40,718,848 of she, "
        "embeddings and head aside"
    )


@pytest.mark.parametrize(("equal", "by"), list(product(get_args(Counted), get_args(By))))
@pytest.mark.parametrize("mixer", [*MIXERS, [{"kind": "me"}, {"kind": "we"}]])
def test_matched_with_itself_nothing_changes(mixer: Any, equal: Counted, by: By) -> None:
    config = decoder(mixer, "tiny")
    result = match(config, config, equal=equal, by=by)
    assert result.config is config
    assert result.difference == 0
    assert f"{by} {result.before} stays" in str(result)


def test_vocabulary_and_positions_are_left_aside() -> None:
    config = decoder("he", "tiny")
    assert match(config, decoder("he", "tiny", vocab=900, position="none")).config is config


@pytest.mark.parametrize("heads", [1, 2, 4, 5, 7, 32, 43])
def test_dim_is_the_nearest_that_the_heads_divide(heads: int) -> None:
    config, to = decoder({"kind": "attention", "heads": heads}, "small", dim=heads * 3), decoder("he", "small", dim=129)
    try:
        result = match(config, to, by="dim")
    except ValueError as refusal:
        message = re.search(r"the nearest, dim (\d+), has ", str(refusal))
        assert message is not None
        dim, near = int(message[1]), False
    else:
        assert only(result, config)
        dim, near = result.after, True
    below, here, above = (abs(held(config.model_copy(update={"dim": dim + d})) - held(to)) for d in (-heads, 0, heads))
    assert dim % heads == 0
    assert here <= min(below, above)
    assert near == (here <= 0.01 * held(to))


@pytest.mark.parametrize(("depth", "to", "after"), [(4, 8, 8), (5, 9, 9), (5, 8, None), (2, 7, None), (7, 3, 3)])
def test_depth_moves_by_whole_patterns(depth: int, to: int, after: int | None) -> None:
    pattern = [{"kind": "me"}, {"kind": "he"}]
    config, other = decoder(pattern, depth=depth), decoder(pattern, depth=to)
    if after is None:
        with pytest.raises(ValueError, match=r"^no depth .* the nearest, depth (7|9|6|8), has .*; match by ffn"):
            match(config, other, by="depth")
    else:
        assert match(config, other, by="depth").config == config.model_copy(update={"depth": after})


def test_of_two_sizes_as_near_the_smaller_is_taken() -> None:
    config, to = decoder("me", depth=2, context=3), decoder("me", depth=1, context=3, ffn=404)
    near = [quantity(config.with_ffn_width(ffn), "mul") - quantity(to, "mul") for ffn in (200, 201)]
    assert near[0] == -near[1]
    assert match(config, to, equal="mul").after == 200


SMALL_IN_VAIN = decoder({"kind": "attention", "heads": 5}, "tiny")
REFUSED: dict[str, tuple[DecoderConfig, DecoderConfig, dict[str, Any], str]] = {
    "no other way": (
        decoder("she"),
        decoder("attention"),
        {},
        "no ffn brings she within 1% of attention: the nearest, ffn 1, has 38,354,962 parameters, 977.406% above the "
        "3,559,936 of attention; dim and depth cannot either",
    ),
    "one other way": (
        decoder("she"),
        decoder("me"),
        {},
        "no ffn brings she within 1% of me: the nearest, ffn 1, has 38,354,962 parameters, 1,510% above the "
        "2,382,592 of me; match by dim instead",
    ),
    "two other ways": (
        decoder("attention"),
        decoder("she"),
        {"by": "dim"},
        "no dim brings attention within 1% of she: the nearest, dim 640, has 41,355,776 parameters, 1.564% above the "
        "40,718,848 of she; match by ffn or depth instead",
    ),
    "multiplications": (
        decoder("me", "small"),
        decoder("attention", "small", depth=1),
        {"by": "depth", "equal": "mul"},
        "no depth brings me within 1% of attention: the nearest, depth 2, has 8,564,736 multiplications, 32.762% "
        "above the 6,451,200 of attention; match by ffn or dim instead",
    ),
    "other contexts": (
        decoder("he"),
        decoder("he", "small"),
        {"equal": "mul"},
        "multiplications of rows of 128 and of 32 tokens do not compare: give both models the same context, or match "
        "params",
    ),
    "cannot be built": (
        SMALL_IN_VAIN,
        decoder("he", "tiny"),
        {},
        "dim 16 is not divisible by heads 5: choose heads from 1, 2, 4, 8, 16",
    ),
    "other cannot be built": (
        decoder("he", "tiny"),
        SMALL_IN_VAIN,
        {"by": "dim"},
        "dim 16 is not divisible by heads 5: choose heads from 1, 2, 4, 8, 16",
    ),
    "unknown quantity": (
        decoder("he"),
        decoder("we"),
        {"equal": "size"},
        "equal must be params or mul or time, not 'size'",
    ),
    "unknown size": (decoder("he"), decoder("we"), {"by": "width"}, "by must be ffn or dim or depth, not 'width'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors_name_the_nearest_size_and_alternatives(name: str) -> None:
    config, to, how, message = REFUSED[name]
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 - the whole line is compared
        match(config, to, **how)
    assert str(refusal.value) == message


def test_other_contexts_can_hold_as_many_parameters() -> None:
    config, to = decoder("we", "small"), decoder("we", "small", context=64)
    result = match(config, to)
    assert result.config.context == 32
    assert abs(held(result.config) / held(to) - 1) <= 0.01


class Picky(MixerConfig):
    """Attention that can be built with three dims only."""

    kind: str = "picky"
    traits = TRAITS

    def make(self, layer: Layer) -> Mixer:
        if layer.dim not in (8, 24, 64):
            raise ValueError(f"dim must be 8, 24 or 64, not {layer.dim}")
        return AttentionConfig(heads=1).make(layer)


@pytest.mark.parametrize(("expected", "after"), [(1, 8), (8, 8), (12, 8), (24, 24), (25, 24), (60, 64), (600, 64)])
def test_dims_that_few_mixers_take(expected: int, after: int) -> None:
    to = decoder({"kind": "attention", "heads": 1}, "tiny", dim=expected)
    try:
        assert match(decoder(Picky(), "tiny", dim=24), to, by="dim").after == after == expected
    except ValueError as refusal:
        assert f"the nearest, dim {after}, has " in str(refusal)  # noqa: PT017 - either is right, by the size
        assert after != expected


@pytest.mark.parametrize("by", get_args(By))
def test_the_search_prices_few_sizes(by: By, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[DecoderConfig] = []
    monkeypatch.setattr(module, "quantity", lambda config, equal: asked.append(config) or quantity(config, equal))
    match(decoder("we"), decoder("she"), by=by)
    assert len(asked) < 40


def test_nothing_is_drawn() -> None:
    before = torch.get_rng_state()
    match(decoder("he"), decoder("she"), by="dim")
    assert torch.equal(torch.get_rng_state(), before)


def brute(config: DecoderConfig, equal: Counted, by: By, aim: int) -> tuple[int, int]:
    """How near any size comes, and the smallest that does, by trying all up to twice the aim."""
    pattern = len(config.mixer) if isinstance(config.mixer, tuple) else 1
    first, step = {"ffn": (1, 1), "dim": (2, 2), "depth": (pattern + config.depth % pattern, pattern)}[by]
    tried: list[tuple[int, int]] = []
    for size in counting(first, step):
        changed = config.with_ffn_width(size) if by == "ffn" else config.model_copy(update={by: size})
        result = quantity(changed, equal)
        tried.append((abs(result - aim), size))
        if result > 2 * aim:
            break
    return min(tried)


CONFIGS = st.builds(
    lambda mixer, dim, depth, ffn: decoder(mixer, "tiny", dim=dim, depth=depth, ffn=ffn),
    st.sampled_from(
        [
            {"kind": "attention", "heads": 2},
            {"kind": "she", "groups": 2},
            {"kind": "extractor", "groups": 2, "in_proj": True},
            [{"kind": "me"}, {"kind": "attention", "heads": 2}],
        ]
    ),
    st.sampled_from([4, 6, 8]),
    st.integers(2, 3),
    st.integers(8, 24),
)


@settings(max_examples=15, deadline=None)
@given(CONFIGS, CONFIGS, st.sampled_from(get_args(Counted)), st.sampled_from(get_args(By)))
def test_no_size_is_nearer(config: DecoderConfig, to: DecoderConfig, equal: Counted, by: By) -> None:
    aim = quantity(to, equal)
    distance, size = brute(config, equal, by, aim)
    try:
        result = match(config, to, equal=equal, by=by)
    except ValueError as refusal:
        assert 100 * distance > aim
        assert f"the nearest, {by} {size:,}, has " in str(refusal)  # noqa: PT017 - either is right, by the distance
    else:
        assert (result.after, abs(result.quantity - aim)) == (size, distance)
        assert 100 * distance <= aim
        assert only(result, config)
