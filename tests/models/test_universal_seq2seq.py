"""The Universal Transformer that translates: its decoder, its encoder and both against layers that share weights."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import seqloom
from seqloom.cli import command
from seqloom.core.state import nbytes, select
from seqloom.counting.count import count
from seqloom.generation.translation import translate
from seqloom.models.kinds import model_config
from seqloom.models.source_block import SourceBlock
from seqloom.models.universal import UniversalEncoder
from seqloom.models.universal_seq2seq import UniversalSeq2Seq
from seqloom.ops.backends import known_backends, use
from seqloom.training.memory import weights
from seqloom.training.settings import resolve
from tests.models.test_seq2seq import KEEP, TINY, D, L, ids_of
from tests.models.test_universal import signal

V, T = 11, 3
MIXERS: list[dict[str, Any]] = [{"kind": "attention", "heads": 2}, {"kind": "he"}, {"kind": "mamba"}, {"kind": "gru"}]


def built(kind: str = "universal_seq2seq", encoder: dict[str, Any] | None = None, **changes: Any) -> Any:
    torch.manual_seed(0)
    sizes = {"vocab": V, "dim": D, "depth": T, "context": L, "ffn": 16, "std": 0.4, "dropout": 0.0}
    attention = {"kind": "attention", "heads": 2}
    parts = {"mixer": attention, "cross": {"heads": 2}, "position": "sinusoidal"}
    inside = {"depth": 2, "mixer": attention, **(encoder or {})}
    return model_config({"kind": kind, **sizes, **parts, **changes, "encoder": inside}).build().double().eval()


def added(model: Any) -> Any:
    """A seq2seq model with as many layers, each of which has the block's weights; the signals are its positions."""
    own = model.config
    plain = built("seq2seq", mixer=own.mixer.model_dump(), position="learned_each_layer")
    state = model.state_dict()
    for name in ("layers", "after"):
        block = {key.removeprefix(f"{name}.0."): value for key, value in state.items() if key.startswith(f"{name}.0.")}
        for layer in getattr(plain, name):
            layer.load_state_dict(block)
    rest = {key: value for key, value in state.items() if not key.startswith(("layers.", "after.", "encoder."))}
    plain.load_state_dict(rest, strict=False)
    with torch.no_grad():
        for step, table in enumerate(plain.positions, 1):
            (parameter,) = table.parameters()
            parameter.copy_(signal(step)[:L] / D**0.5)
    plain.encoder = model.encoder
    return plain


@pytest.mark.slow
@pytest.mark.parametrize("mixer", MIXERS, ids=lambda mixer: mixer["kind"])
def test_the_decoder_is_one_whose_layers_share_weights(mixer: dict[str, Any]) -> None:
    """With a fixed number of steps; outputs and gradients."""
    model = built(mixer=mixer)
    plain = added(model)
    source, ids = ids_of(3, 6), ids_of(3, 5, seed=2)
    first, second = (each(ids, None, source, KEEP) for each in (model, plain))
    torch.testing.assert_close(first, second, rtol=0, atol=1e-12)
    weighed = torch.randn(first.shape, generator=torch.Generator().manual_seed(1), dtype=first.dtype)
    for each, logits in ((model, first), (plain, second)):
        each.encoder.zero_grad()
        (logits * weighed).sum().backward(retain_graph=True)
    for shared, layers in ((model.blocks[0], plain.blocks), (model.source_blocks[0], plain.source_blocks)):
        for name, parameter in shared.named_parameters():
            together = sum(dict(layer.named_parameters())[name].grad for layer in layers)
            torch.testing.assert_close(parameter.grad, together, rtol=0, atol=1e-10)


def test_a_step_by_hand() -> None:
    """h + P + S through the block, cross-attention to the encoder's normed stream, and the transition."""
    model = built(depth=1, norm_place="after")
    source, ids = ids_of(2, 6), ids_of(2, 5, seed=2)
    s = model.encoder.norm(model.encoder.features(source))
    z = model.token(ids) * D**0.5 + signal(1)[:5]
    block, after = model.blocks[0], model.source_blocks[0]
    a = block.norm_1(z + block.mixer(z))
    b = after.norm_1(a + after.cross(a, after.cross.start(s)))
    expected = model.head(after.norm_2(b + after.ffn_sublayer(b)))
    torch.testing.assert_close(model(ids, None, source), expected, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["seq2seq", "universal_seq2seq"])
@pytest.mark.parametrize("channel", ["ffn", "separable"])
def test_the_encoder_is_a_universal_one(kind: str, channel: str) -> None:
    """Alone, or in both: its stream is that of a universal encoder of the same weights."""
    model = built(kind, {"repeat": True, "depth": 4, "channel": channel, "halt": True})
    assert isinstance(model.encoder, UniversalEncoder)
    assert len(model.encoder.layers) == 1
    assert len(model.encoder.blocks) == 4
    alone = model_config(model.config.encoding().model_dump()).build().double().eval()
    alone.load_state_dict({**model.encoder.state_dict(), "token.weight": model.token.weight})
    source = ids_of(3, 6)
    x, extras = model.encode(source, KEEP)
    expected, inside = alone.features_with_extras(source, KEEP)
    torch.testing.assert_close(x[KEEP], alone.norm(expected)[KEEP], rtol=0, atol=1e-12)
    torch.testing.assert_close(extras.losses["encoder.ponder"], inside.losses["ponder"])
    assert model.loss_weights["encoder.ponder"] == 0.01
    assert torch.equal(model.encoder.steps(source, KEEP), alone.steps(source, KEEP))


@pytest.mark.slow
@pytest.mark.parametrize("halt", [False, True])
@pytest.mark.parametrize("channel", ["ffn", "separable"])
@pytest.mark.parametrize("mixer", MIXERS, ids=lambda mixer: mixer["kind"])
def test_a_target_read_in_pieces_and_tokens(mixer: dict[str, Any], channel: str, halt: bool) -> None:
    model = built(mixer=mixer, channel=channel, halt=halt, encoder={"repeat": True, "halt": halt})
    source, ids = ids_of(3, 6), ids_of(3, 6, seed=2)
    with torch.no_grad():
        whole = model(ids, None, source, KEEP)
        logits, state = model.extend(ids[:, :2], model.begin(source, KEEP))
        torch.testing.assert_close(logits, whole[:, :2], rtol=0, atol=1e-10)
        logits, more = model.extend(ids[:, 2:4], state)
        torch.testing.assert_close(logits, whole[:, 2:4], rtol=0, atol=1e-10)
        rows = torch.tensor([2, 0, 1])
        state = select(model.trim(state), rows)
        for t in range(2, 6):
            logits, state = model.step(ids[rows, t], state, reuse=True)
            torch.testing.assert_close(logits, whole[rows, t], rtol=0, atol=1e-10)
        last, _ = model.step(ids[:, 4], more)
        torch.testing.assert_close(last, whole[:, 4], rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("channel", ["ffn", "separable"])
def test_padding_of_the_target_changes_nothing(channel: str) -> None:
    model = built(channel=channel, halt=True, encoder={"repeat": True, "halt": True, "channel": channel})
    source, ids = ids_of(3, 6), ids_of(3, 6, seed=2)
    logits, extras = model.forward_with_extras(ids, KEEP, source, KEEP)
    assert not logits[~KEEP].any()
    ponder, tokens = torch.zeros(()).double(), 0
    for row in range(3):
        kept = KEEP[row]
        alone, single = model.forward_with_extras(ids[row, kept][None], None, source[row, kept][None])
        torch.testing.assert_close(logits[row][kept], alone[0], rtol=0, atol=1e-12)
        ponder = ponder + single.losses["ponder"] * kept.sum()
        tokens += int(kept.sum())
    torch.testing.assert_close(extras.losses["ponder"], ponder / tokens, rtol=0, atol=1e-12)
    steps = model.steps(ids, KEEP, source, KEEP)
    assert int(steps.sum()) == int(extras.statistics["steps"])
    assert not steps[~KEEP].any()


@pytest.mark.slow
def test_halting_sides_are_apart() -> None:
    """With a large b on one side that side has one step, and the other is unchanged."""
    model = built(halt=True, encoder={"repeat": True, "halt": True, "depth": 4})
    source, ids = ids_of(3, 6), ids_of(3, 5, seed=2)
    with torch.no_grad():
        model.halting.p.bias.fill_(50.0)
        model.encoder.halting.p.bias.fill_(-50.0)
    assert model.steps(ids, None, source).unique().tolist() == [1]
    assert model.encoder.steps(source).unique().tolist() == [4]
    one = built(depth=1, encoder={"repeat": True, "halt": True, "depth": 4})
    one.load_state_dict(model.state_dict(), strict=False)
    torch.testing.assert_close(one(ids, None, source), model(ids, None, source), rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"channel": "separable"}, {"halt": True}, {"norm_place": "after"}])
@pytest.mark.parametrize("repeat", [False, True])
def test_price(repeat: bool, changes: dict[str, Any]) -> None:
    """Parameters, state, and the operations of a token: those that its step executes."""
    model = built(encoder={"repeat": repeat}, **changes)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    assert model.cost(6).params == model.cost(6, "token").params == parameters == weights(model.config)[0]
    assert {name: value.shape for name, value in model.config.tensors().items()} == {
        name: value.shape for name, value in model.state_dict().items()
    }
    with torch.no_grad():
        source, ids = ids_of(1, 6), ids_of(1, 6, seed=2)
        _, state = model.extend(ids[:, :5], model.begin(source))
        reference = {op: "reference" for op, names in known_backends().items() if "reference" in names}
        with use(**reference):
            counted = count(lambda: model.step(ids[:, 5], state)[0].softmax(-1))
            whole = count(lambda: model(ids, None, source).softmax(-1))
    price = model.cost(6, "token")
    assert (counted.mul, counted.exp, counted.div) == (price.mul, price.exp, price.div)
    assert whole.mul == model.cost(6).mul or changes.get("halt")
    assert 0 < model.inner_cost(6).mul < model.cost(6).mul


def test_the_source_is_projected_once_for_all_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    model, calls = built(), []
    start = SourceBlock.start
    monkeypatch.setattr(SourceBlock, "start", lambda self, *given: calls.append(1) or start(self, *given))
    state = model.begin(ids_of(2, 6))
    assert len(calls) == 1
    sources = [layer[1] for layer in state.layers]
    assert len(sources) == T
    assert all(source is sources[0] for source in sources)
    assert nbytes(state) > 0


def test_statistics_reach_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    routing = {"kind": "routing", "heads": 2, "clusters": 2, "window": 3}
    model = built(mixer=routing, encoder={"repeat": True, "mixer": routing}).train()
    _, extras = model.forward_with_extras(ids_of(2, 5), None, ids_of(2, 6))
    given: dict[str, Any] = {}
    for name, block in (("decoder", model.blocks[0]), ("encoder", model.encoder.blocks[0])):
        monkeypatch.setattr(block.mixer, "after_update", lambda step, values, name=name: given.update({name: values}))
    model.after_update(1, extras.statistics)
    for name, prefix, steps in (("decoder", "layers", T), ("encoder", "encoder.layers", 2)):
        expected = sum(extras.statistics[f"{prefix}.{n}.counts"] for n in range(steps))
        torch.testing.assert_close(given[name]["counts"], expected)


@pytest.mark.slow
def test_universal_seq2seq_is_saved_and_loaded(tmp_path: Path) -> None:
    model = built(halt=True, channel="separable", encoder={"repeat": True})
    assert isinstance(model, UniversalSeq2Seq)
    seqloom.save(model.float(), tmp_path / "universal")
    again = seqloom.load(tmp_path / "universal")
    assert again.config == model.config
    source: Tensor = ids_of(2, 6)
    torch.testing.assert_close(again(source, None, source), model(source, None, source))  # type: ignore[call-arg]
    assert translate(again, source, eos=0, max_tokens=3) == translate(model, source, eos=0, max_tokens=3)


@pytest.mark.parametrize(
    ("changes", "encoder", "words"),
    [
        ({"depth": 0}, {}, "depth"),
        ({}, {"depth": 0, "repeat": True}, r"encoder\.depth"),
        ({}, {"halt": True}, r"halt is of an encoder of one block: set encoder\.repeat=true"),
        ({}, {"epsilon": 0.5}, "epsilon is of an encoder of one block"),
        ({}, {"repeat": True, "epsilon": 0.5}, "epsilon is of positions that halt: set halt=true"),
        ({}, {"repeat": True, "halt": True, "epsilon": 1.0}, "epsilon"),
        ({"halt": True, "epsilon": 0.0}, {}, "epsilon"),
        ({"ponder": 0.5}, {}, "ponder is of positions that halt"),
        ({"mixer": [{"kind": "he"}, {"kind": "me"}]}, {}, "a universal model has one block: give one mixer"),
        ({}, {"repeat": True, "mixer": [{"kind": "he"}, {"kind": "me"}]}, "a universal model has one block"),
        ({"channel": "none"}, {}, "not none"),
        ({"position": "learned_each_layer"}, {}, "which one block lacks"),
    ],
)
def test_settings_of_universal_seq2seq_that_do_not_fit(
    changes: dict[str, Any], encoder: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        built(encoder=encoder, **changes)
    assert "\n" not in str(caught.value)


def test_missing_verbs_and_wrong_texts() -> None:
    model = built()
    for wrong, words in (
        (lambda: model(ids_of(1, 3)), "a model of kind universal_seq2seq reads a source with each target"),
        (lambda: model.start(1), "universal_seq2seq starts from a source"),
        (lambda: model.steps(ids_of(1, 3), None, ids_of(1, 3)), "set model.halt=true"),
        (lambda: model.exits(ids_of(1, 3)), "cannot leave layers out"),
    ):
        with pytest.raises(ValueError, match=words):
            wrong()


def test_settings_of_the_encoder_that_its_channel_has_no_use_for() -> None:
    """The decoder's feed-forward network may be gated while the encoder has convolutions."""
    model = built(glu=True, activation="silu", encoder={"channel": "separable"})
    assert model.config.encoding().ffn.kind == "separable"
    assert model.config.ffn.gated is True


@pytest.mark.slow
@pytest.mark.parametrize("side", ["encoder", "decoder", "both"])
def test_from_pairs_to_targets(side: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a user types: a model of copied letters is trained, scored, and asked."""
    file, out = tmp_path / "pairs.tsv", tmp_path / "run"
    letters = "abcdefgh"
    file.write_text("".join(f"{a}{b}\t{b}\n" for a in letters for b in letters))
    kind = "seq2seq" if side == "encoder" else "universal_seq2seq"
    own = [f"model.kind={kind}", f"model.encoder.repeat={'false' if side == 'decoder' else 'true'}"]
    own += ["model.mixer.kind=gru", "model.encoder.mixer.kind=gru", "model.depth=2", "model.encoder.depth=2"]
    own += ["model.encoder.halt=true"] if side != "decoder" else ["model.halt=true"]
    changes = [f"--set={change}" for change in (*TINY, *own)]
    assert command(["train", "universal/dates", "--data", str(file), *changes, "--out", str(out)]) == 0
    assert "targets exact" in capsys.readouterr().out
    assert command(["generate", str(out), "cd", "--temperature", "0"]) == 0
    assert capsys.readouterr().out == "d\n"


def test_the_recipe() -> None:
    config = resolve("universal/dates", ["model.mixer.kind=he", "model.encoder.mixer.kind=he"]).model
    assert config.kind == "universal_seq2seq"
    for change in ("model.depth=0", "model.encoder.depth=0"):
        with pytest.raises(ValueError, match=change.partition("=")[0].replace(".", r"\.")):
            resolve("universal/dates", [change])
