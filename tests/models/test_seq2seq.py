"""An encoder-decoder: its equations, streaming, padding, price, training, commands, and its errors."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from seqloom.cli import command
from seqloom.core.cost import Span
from seqloom.core.state import nbytes, select
from seqloom.data.tokenizer import Tokenizer
from seqloom.data.tokens import Tokens
from seqloom.generation.beams import Beams
from seqloom.generation.translation import translate, translate_best
from seqloom.mixers import kinds
from seqloom.models.kinds import model_config
from seqloom.models.seq2seq import Seq2Seq
from seqloom.studies.pictures import plot_model
from seqloom.studies.random_batches import training_step
from seqloom.studies.samples import _state_bytes
from seqloom.training.objectives.pairs import Pairs, pairs
from seqloom.training.settings import resolve
from seqloom.training.train import train
from tests.kinds import CAUSAL

V, D, L = 11, 8, 8
TINY = (
    *("model.dim=16", "model.ffn=16", "model.depth=1", "model.encoder.depth=1", "model.context=24"),
    *("training.batches=300", "training.batch=32", "training.schedule.kind=constant", "training.device=cpu"),
    *("training.lr=0.003", "training.evaluate_every=0", "model.std=0.1", "model.position=none"),
)


def built(mixer: str = "attention", encoder: str = "attention", **changes: Any) -> Seq2Seq:
    torch.manual_seed(0)
    sizes = {"vocab": V, "dim": D, "depth": 2, "context": L, "ffn": 16, "std": 0.4}
    parts: dict[str, Any] = {"encoder": {"depth": 2, "mixer": {"kind": encoder, **_first(encoder)}}}
    parts |= {"mixer": {"kind": mixer, **_first(mixer)}, "cross": {"heads": 2}}
    model = model_config({"kind": "seq2seq", **sizes, **parts, **changes}).build()
    assert isinstance(model, Seq2Seq)
    return model.double().eval()


def _first(kind: str) -> dict[str, Any]:
    return dict(kinds()[kind].examples[0])


def ids_of(*shape: int, seed: int = 1) -> Tensor:
    return torch.randint(1, V, shape, generator=torch.Generator().manual_seed(seed))


KEEP = torch.tensor([[True] * 6, [True] * 4 + [False] * 2, [False, True, True, False, True, True]])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mixer", "cross"),
    [
        *(("attention", "additive"), ("gru", "additive")),
        *(pytest.param(kind, "attention", marks=[pytest.mark.slow] if n % 4 else []) for n, kind in enumerate(CAUSAL)),
    ],
)
def test_a_target_read_in_pieces_and_tokens(mixer: str, cross: str) -> None:
    """Any mixer in the decoder: forward, pieces and tokens agree, from reordered rows of a state too."""
    model = built(mixer, cross={"kind": cross, "heads": 2})
    if not model.traits.translates:
        with pytest.raises(ValueError, match=f"no state in {mixer}"):
            translate(model, ids_of(3, 6), eos=0)
        return
    source, ids = ids_of(3, 6), ids_of(3, 5, seed=2)
    whole = model(ids, None, source, KEEP)
    logits, state = model.extend(ids[:, :2], model.begin(source, KEEP))
    torch.testing.assert_close(logits, whole[:, :2], rtol=0, atol=1e-9)
    rows = torch.tensor([2, 0, 1])
    state = select(state, rows)
    for t in range(2, 5):
        logits, state = model.step(ids[rows, t], state)
        torch.testing.assert_close(logits, whole[rows, t], rtol=0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("mixer", kinds())
def test_any_mixer_encodes(mixer: str) -> None:
    """Every position of the target depends on every kept token of the source, and on no dropped one."""
    if mixer == "rwkv7":
        with pytest.raises(ValueError, match="both_ways cannot pass on what rwkv7 hands over"):
            built(encoder=mixer)
        return
    model = built(encoder=mixer, position="none" if mixer in CAUSAL else "learned")
    source, ids = ids_of(3, 6), ids_of(3, 2, seed=2)
    logits = model(ids, None, source, KEEP)
    torch.testing.assert_close(model(ids, None, torch.where(KEEP, source, 3), KEEP), logits, rtol=0, atol=1e-9)
    changed = torch.where(KEEP & (torch.arange(6) == 2), 1 + source % (V - 1), source)
    assert ((model(ids, None, changed, KEEP) - logits).abs().amax((1, 2)) > 1e-9).all()


@pytest.mark.slow
def test_cross_attention_as_plain_sums() -> None:
    for kind in ("attention", "additive"):
        model = built(cross={"kind": kind, "heads": 2, "bias": True})
        cross, x, s = model.source_blocks[0].cross, torch.randn(D).double(), torch.randn(6, D).double()
        q, k, v = (w(z).unflatten(-1, (2, D // 2)) for w, z in ((cross.w_q, x), (cross.w_k, s), (cross.w_v, s)))
        y = []
        for h in range(2):
            network: Any = cross
            scores = torch.stack(
                [
                    q[h] @ k[j, h] / (D // 2) ** 0.5 if kind == "attention" else network.w[h] @ (q[h] + k[j, h]).tanh()
                    for j in (1, 2, 4)
                ]
            )
            y.append(sum(a * v[j, h] for a, j in zip(scores.softmax(0), (1, 2, 4), strict=True)))
        keep = torch.tensor([[False, True, True, False, True, False]])
        read = cross(x[None, None], cross.start(s[None], keep))[0, 0]
        torch.testing.assert_close(read, cross.w_out(torch.cat(y)))  # type: ignore[arg-type]


@pytest.mark.slow
def test_padding_of_the_target_changes_nothing() -> None:
    model, source, ids = built(), ids_of(3, 6), ids_of(3, 6, seed=2)
    logits = model(ids, KEEP, source, KEEP)
    assert not logits[~KEEP].any()
    for row in range(3):
        alone = model(ids[row : row + 1, KEEP[row]], None, source[row : row + 1, KEEP[row]])
        if row < 2:  # learned positions of the third count kept tokens as well
            torch.testing.assert_close(logits[row][KEEP[row]], alone[0])


def test_norms_after_and_one_embedding() -> None:
    model = built(norm_place="after", tie=True, head_bias=False, position="sinusoidal")
    names = model.state_dict().keys()
    assert [name for name in names if name.endswith("token.weight") or "head" in name] == ["token.weight"]
    copied = built(norm_place="after", tie=True, head_bias=False, position="sinusoidal")
    with torch.no_grad():
        model.token.weight.mul_(2)
    source, ids = ids_of(3, 6), ids_of(3, 4, seed=2)
    assert not torch.allclose(model(ids, None, source), copied(ids, None, source))
    copied.load_state_dict(model.state_dict())
    assert torch.equal(model(ids, None, source), copied(ids, None, source))
    assert not any(isinstance(norm, torch.nn.LayerNorm) for norm in (model.norm, model.encoder.norm))


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"tie": True}, {"norm_place": "after", "cross": {"kind": "additive"}}])
def test_price(changes: dict[str, Any]) -> None:
    model = built("attention", "mamba", **changes)
    parameters = sum(weights.numel() for weights in model.parameters())
    assert model.cost(6).params == model.cost(6, "token").params == parameters
    _, state = model.extend(ids_of(1, 6), model.begin(ids_of(1, 6)))
    assert 8 * model.cost(6).state == nbytes(model.trim(state))
    assert model.cost(6).mul > 6 * model.cost(6, "token").mul  # the encoder is of the sequence alone
    assert model.cost(6, outputs=1).mul < model.cost(6).mul
    assert 0 < model.inner_cost(6).mul < model.cost(6).mul


def test_the_products_of_cross_attention_are_counted() -> None:
    """Queries and outputs of T tokens, keys and values of the source once: 4 D² each token, and 2 T² D of scores."""
    cross = built().source_blocks[0].cross
    sequence, token = cross.cost(6, Span(6)), cross.cost(6, Span(6, "token"))
    assert sequence.mul == 4 * 6 * D * D + 2 * 36 * D
    assert token.mul == 2 * D * D + 2 * 6 * D
    assert (sequence.params, sequence.state) == (4 * D * D, 2 * 6 * D + 6)


def text() -> Tokens:
    """Three pairs of several lengths."""
    parts = [[3, 4, 0], [5, 0], [6, 0], [7, 8, 9, 0], [1, 2, 0], [3, 0]]
    sizes = np.array([len(part) for part in parts])
    ids = np.concatenate([np.array(part, np.uint16) for part in parts])
    return Tokens(ids, np.cumsum(sizes) - sizes, np.ones(6, np.int64), None, 2)


def test_rows_of_pairs() -> None:
    batch = pairs(text(), np.array([1, 0]))
    assert batch["source"].tolist() == [[6, 0, 0], [3, 4, 0]]
    assert batch["source_keep"].tolist() == [[True, True, False], [True] * 3]
    assert batch["ids"].tolist() == [[0, 7, 8, 9], [0, 5, 0, 0]]
    assert batch["target"].tolist() == [[7, 8, 9, 0], [5, 0, 0, 0]]
    assert batch["keep"].tolist() == [[True] * 4, [True, True, False, False]]
    assert Pairs(text(), 2).targets(batch) == 6


def test_each_pair_is_read_once_an_epoch() -> None:
    objective = Pairs(text(), 1)
    for epoch in (0, 1):
        steps = [objective.batch(5, 3 * epoch + step, torch.nn.Identity()) for step in range(3)]
        assert sorted(step["source"][0, 0].item() for step in steps) == [1, 3, 6]


@pytest.mark.slow
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_of_the_target_alone(smoothing: float) -> None:
    model, batch = built(), pairs(text(), np.arange(3))
    total, count = torch.zeros(()).double(), 0
    for source, target in (([3, 4, 0], [5, 0]), ([6, 0], [7, 8, 9, 0]), ([1, 2, 0], [3, 0])):
        logits = model(torch.tensor([[0, *target[:-1]]]), None, torch.tensor([source]))[0]
        log_p = logits.log_softmax(1)
        expected = log_p[range(len(target)), target]
        total -= ((1 - smoothing) * expected + smoothing * log_p.mean(1)).sum()
        count += len(target)
    loss = Pairs(None, 3, smoothing).losses(model, batch, {}).losses["loss"]
    torch.testing.assert_close(loss, total / count, check_dtype=False)
    score = Pairs(None, 2, smoothing).score(model, text())
    plain = [
        cross_entropy(
            model(batch["ids"], None, batch["source"], batch["source_keep"])[batch["keep"]],
            batch["target"][batch["keep"]],
        )
    ]
    assert score["held_out"] == pytest.approx(float(plain[0].detach()))
    assert score["pairs"] == 3


@pytest.mark.slow
@torch.no_grad()
def test_beams_of_targets_are_those_of_all_texts() -> None:
    """Two tokens of a vocabulary of eleven: no prefix is pruned, so brute force finds the same, in each of two rows."""
    model, source = built("gru"), ids_of(3, 6)
    result = translate_best(model, source, KEEP, eos=0, max_tokens=2, beams=Beams(beams=V, best=3, length_penalty=0.0))
    for row in range(3):
        own, keep = source[row : row + 1], KEEP[row : row + 1]
        first = model(torch.tensor([[0]]), None, own, keep)[0, 0].log_softmax(0)
        every = {(): float(first[0])}
        for a in range(1, V):
            second = model(torch.tensor([[0, a]]), None, own, keep)[0, 1].log_softmax(0)
            every |= {((a, b) if b else (a,)): float(first[a] + second[b]) for b in range(V)}
        best = sorted(every, key=lambda text: -every[text])[:3]
        assert [tuple(each.ids) for each in result[row]] == best
        assert [each.log_probability for each in result[row]] == pytest.approx([every[text] for text in best])


@pytest.mark.slow
def test_greedy_targets_end_by_row() -> None:
    model, source = built("gru"), ids_of(3, 6)
    rows = translate(model, source, KEEP, eos=0)
    for row in range(3):
        ids = [0]
        while len(ids) <= L:
            ids.append(
                int(model(torch.tensor([ids]), None, source[row : row + 1], KEEP[row : row + 1])[0, -1].argmax())
            )
            if ids[-1] == 0:
                break
        assert rows[row] == [id for id in ids[1:] if id]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mixer": "fnet"}, "bidirectional"),
        ({"cross": {"heads": 3}}, "cross.heads=3"),
        ({"cross": {"kind": "additive", "scale": 1.0}}, "leave it out"),
        ({"channel": "none"}, "of kind ffn, not none"),
        ({"sublayers": "parallel"}, "sublayers"),
    ],
)
def test_settings_of_seq2seq_that_do_not_fit(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        built(**changes)


def test_missing_verbs_and_wrong_texts() -> None:
    model = built()
    with pytest.raises(ValueError, match="reads a source with each target"):
        model(ids_of(1, 3))
    with pytest.raises(ValueError, match="starts from a source: use begin"):
        model.start(1)
    with pytest.raises(ValueError, match="2 sources for 3 targets"):
        model(ids_of(3, 2), None, ids_of(2, 2))
    with pytest.raises(ValueError, match="the source has 9 tokens with its end, the model reads at most 8"):
        translate(model, ids_of(1, 9), eos=0)
    with pytest.raises(ValueError, match="12 beams are more than the vocabulary"):
        translate_best(model, ids_of(1, 3), eos=0, beams=Beams(beams=12))
    decoder = model_config({"vocab": V, "dim": D, "depth": 1, "mixer": {"kind": "he"}}).build()
    with pytest.raises(ValueError, match=r"use one of model\.kind=seq2seq"):
        translate(decoder, ids_of(1, 3), eos=0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["training.objective.kind=next_token"], "choose training.objective.kind=pairs"),
        (["data.packed=true"], "pairs have no use for data.packed"),
        (["data.passage=3"], "pairs have no use for data.passage"),
    ],
)
def test_settings_of_a_run_that_do_not_fit(changes: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        resolve("seq2seq/dates", changes)


def test_pairs_need_a_model_that_translates() -> None:
    with pytest.raises(ValueError, match=r"choose model\.kind=seq2seq"):
        resolve("tiny", ["training.objective.kind=pairs"])


def test_a_causal_encoder_reads_both_ways_and_a_line_reports_it() -> None:
    notes: list[str] = []
    config = resolve("seq2seq/dates", ["model.encoder.mixer.kind=mamba"], log=notes.append)
    assert notes == ["model.encoder.mixer: no bidirectional form of mamba: each row is read both ways, by two of them"]
    assert [mixer.kind for mixer in config.layered_model.encoder_pattern or ()] == ["both_ways"]


@pytest.mark.slow
def test_from_pairs_to_targets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a user types: a model of copied letters is trained, scored, and asked."""
    file, out = tmp_path / "pairs.tsv", tmp_path / "run"
    letters = "abcdefgh"
    file.write_text("".join(f"{a}{b}\t{b}\n" for a in letters for b in letters))
    changes = [f"--set={change}" for change in (*TINY, "model.mixer.kind=gru", "model.encoder.mixer.kind=gru")]
    assert command(["train", "seq2seq/dates", "--data", str(file), *changes, "--out", str(out)]) == 0
    output = capsys.readouterr()
    assert "targets exact" in output.out
    assert "model.encoder.mixer: no bidirectional form of gru" in output.err
    assert command(["evaluate", str(out), "--data", str(file)]) == 0
    assert "targets written exactly" in capsys.readouterr().out
    assert command(["generate", str(out), "ab", "--beams", "4", "--best", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert float(lines[0].split()[3].rstrip(",")) > -0.5
    assert lines[1] == "b"
    assert command(["generate", str(out), "cd", "--temperature", "0"]) == 0
    assert capsys.readouterr().out == "d\n"
    for arguments, words in (
        (["--mode", "stream"], "leave out --mode"),
        (["--beams", "999"], "more than the vocabulary"),
        (["--beams", "2", "--seed", "3"], "leave out --seed"),
    ):
        assert command(["generate", str(out), "ab", *arguments]) == 2
        assert words in capsys.readouterr().err
    assert command(["generate", str(out), "a" * 40]) == 2
    assert "the source has 41 tokens with its end, the model reads at most 24" in capsys.readouterr().err
    assert command(["evaluate", str(out), "--data", str(file), "--stride", "2"]) == 2


@pytest.mark.slow
def test_a_step_on_noise_and_what_a_report_shows() -> None:
    config = resolve("seq2seq/dates", [*TINY, "training.batch=2"])
    training_step(config.layered_model, config.training)()
    model = built("he").float()
    shown = plot_model(model, Tokenizer.of_bytes(), [1, 2, 3, 4])
    assert {view["layer"] for view in shown} == {0, 1}
    assert {view["name"] for view in shown} >= {"reach"}
    ids = torch.zeros(1, L, dtype=torch.long)
    assert _state_bytes(model) == nbytes(model.trim(model.extend(ids, model.begin(ids))[1]))


@pytest.mark.slow
def test_training_resumes_bit_for_bit(tmp_path: Path) -> None:
    changes = [*TINY, "data.source=pairs:reversing:60", "model.mixer.kind=she", "training.batch=8"]
    whole = train(resolve("seq2seq/dates", [*changes, "training.batches=6"]), tmp_path / "whole")
    train(resolve("seq2seq/dates", [*changes, "training.batches=3"]), tmp_path / "parts")
    parts = train(resolve("seq2seq/dates", [*changes, "training.batches=6"]), tmp_path / "parts")
    for name, weights in whole.model.state_dict().items():
        assert torch.equal(parts.model.state_dict()[name], weights), name
