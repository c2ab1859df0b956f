"""Tokens after long texts: states that have read them or are filled, the mean over a schedule, stored rows."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from seqloom.cli import command
from seqloom.core.state import flat, nbytes
from seqloom.models.decoder import Decoder, DecoderConfig
from seqloom.ops.lag_sum.online.blocks import longest
from seqloom.studies import decoding as module
from seqloom.studies import latency as pacing
from seqloom.studies import long_context as reading
from seqloom.studies.decoding import Decoding, Token, require_lengths
from seqloom.studies.latency import TOKENS, latency
from seqloom.studies.long_context import long_context
from seqloom.studies.runner import run
from seqloom.studies.study import Study
from seqloom.training.config import RunConfig
from seqloom.training.settings import resolve
from tests.kinds import CAUSAL

N = 40


def model(kind: str, context: int = N) -> Decoder:
    torch.manual_seed(0)
    sizes = {"vocab": 11, "dim": 16, "depth": 1, "context": context, "ffn": 8, "dropout": 0, "position": "none"}
    return Decoder(DecoderConfig(mixer={"kind": kind}, **sizes)).eval()


def configs(*names: str) -> dict[str, RunConfig]:
    sizes = ["data.source=stories", "data.vocab=300", "model.dim=8", "model.ffn=8"]
    return {name: resolve("tiny", [*sizes, f"model.mixer={{kind: {name}}}"]) for name in names}


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PIECE", 8)


@pytest.fixture
def no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "latency", lambda model, state, tokens: 0.002)


@pytest.mark.sample(4)
@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("kind", CAUSAL)
def test_a_filled_state_equals_one_that_read_the_tokens(kind: str) -> None:
    reader = model(kind)
    true = long_context(reader, N, room=TOKENS, limit=math.inf)
    expected = long_context(reader, N, room=TOKENS, limit=0.0)
    assert (true.read, expected.read) == (N, 16)
    kept = [
        {name: (tensor.shape, tensor.dtype) for name, tensor in flat(reader.trim(each.state)).items()}
        for each in (true, expected)
    ]
    assert kept[0] == kept[1]
    assert nbytes(reader.trim(true.state)) == nbytes(reader.trim(expected.state))
    assert all(int(tensor) == N for name, tensor in flat(expected.state).items() if name.endswith("length"))
    assert all(bool(tensor.isfinite().all()) for tensor in flat(expected.state).values())


@pytest.mark.usefixtures("small_pieces")
def test_the_text_is_really_read() -> None:
    reader = model("he")
    state = long_context(reader, N).state
    text = torch.randint(11, (1, N), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = reader.read(text, reader.start(1))[1]
    torch.testing.assert_close(flat(state), flat(expected))


@pytest.mark.usefixtures("small_pieces")
def test_a_state_without_room_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = model("attention")
    start = reader.start
    monkeypatch.setattr(reader, "start", lambda batch, capacity=None: start(batch))
    assert long_context(reader, N).read == N
    with pytest.raises(ValueError, match=r"reading 40 tokens would take \d+ seconds, longer than 0"):
        long_context(reader, N, limit=0.0)


class Counted:
    """Reads tokens that take as long as the block after them is large."""

    origins = (True,)

    def __init__(self, P: int) -> None:
        self.P, self.r, self.now = P, 0, 0.0

    def at(self, position: int) -> None:
        self.r = position - 1

    def __call__(self, tokens: int) -> None:
        for _ in range(tokens):
            self.r += 1
            self.now += 1 + min(self.r & -self.r, self.P) ** 1.3


@pytest.mark.parametrize(("P", "most"), [(1, 9e9), (2, 9e9), (64, 9e9), (64, 0.0), (256, 900.0), (1024, 3000.0)])
def test_the_mean_over_a_schedule(P: int, most: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as a whole period takes, although the longest blocks are timed alone."""
    read = Counted(P)

    def clocked(run: Callable[[], None]) -> float:
        before = read.now
        run()
        return read.now - before

    monkeypatch.setattr(pacing, "_once", clocked)
    monkeypatch.setattr(pacing, "_median", clocked)
    monkeypatch.setattr(pacing, "MOST", most)
    result = pacing._mean(read, P)  # type: ignore[arg-type]  # a stand-in that counts
    whole = Counted(P)
    whole(P)
    assert result == pytest.approx(whole.now / P)
    assert read.now < 40 * most or most in (9e9, 0.0), "it took as long as the period that it is to be shorter than"


def test_the_schedule_is_the_extractors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state of every layer is set to the position; the period is that of the context."""
    reader = model("he", 20)
    read = pacing._Reading(reader, long_context(reader, 20).state)
    read(1)
    assert longest(20) == 32
    for position in (1, 8, 32):
        read.at(position)
        assert [int(length + 1 - origin) for origin, length in read.origins] == [position]
    asked: list[int] = []
    monkeypatch.setattr(pacing, "_mean", lambda read, P: asked.append(P) or 1.0)
    latency(reader, long_context(reader, 20).state, 20)
    assert asked == [32]


@pytest.mark.parametrize("kind", ["attention", "aft_full", "mamba"])
def test_repeats_read_at_the_same_position(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, positions = model(kind, N + TOKENS), []
    step = reader.step

    def noted(ids: Any, state: Any, *, reuse: bool) -> Any:
        positions.append(int(state.extra["length"]))
        assert reuse
        return step(ids, state, reuse=reuse)

    state = long_context(reader, N, room=TOKENS).state
    monkeypatch.setattr(reader, "step", noted)
    monkeypatch.setattr(pacing, "MOST", 0.0)
    assert latency(reader, state, N) > 0
    assert set(positions[2:]) == {N}
    assert min(positions) == N


def rows(kinds: list[str], lengths: list[int], out: Path) -> list[Token]:
    cells = [Decoding(f"{name}/{tokens}", name, config, tokens, "M") for name, config in configs(*kinds).items()
             for tokens in lengths]  # fmt: skip
    return run(Study("decoding", {}, lambda results: iter([cells])), out).of(Token)


@pytest.mark.slow
@pytest.mark.usefixtures("no_clock")
def test_rows_are_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = rows(["attention", "s5"], [8, 16], tmp_path)
    assert [(row.contender, row.tokens) for row in result] == [
        *(("attention", 8), ("attention", 16), ("s5", 8), ("s5", 16)),
    ]
    assert [row.state_bytes for row in result[:2]] == [2 * 8 * tokens * 4 for tokens in (8, 16)]
    assert result[2].state_bytes == result[3].state_bytes
    assert all((row.ms_per_token, row.why, row.tokens_read) == (2.0, None, row.tokens) for row in result)
    measured: list[int] = []
    real = Decoding._measure
    monkeypatch.setattr(Decoding, "_measure", lambda cell: measured.append(cell.tokens) or real(cell))
    assert rows(["attention", "s5"], [8, 16, 32], tmp_path)[0] == result[0]
    assert measured == [32, 32]


@pytest.mark.parametrize("kind", ["aft_full", "attention", "he"])
@pytest.mark.usefixtures("no_clock")
def test_a_model_limited_to_its_context_gets_a_few_positions_more(kind: str, tmp_path: Path) -> None:
    config = configs(kind)[kind]
    result = module._model(config.model, N, torch.device("cpu"))
    assert result.config.context == N + TOKENS * (kind == "aft_full")
    assert result.position is None


@pytest.mark.parametrize(
    ("what", "value", "why"),
    [("streams", lambda model: False, "does not stream"), ("require_room", None, "parameters does not fit")],
)
@pytest.mark.usefixtures("no_clock")
def test_no_value_has_a_reason(
    what: str, value: object, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise ValueError("a long story of training")

    monkeypatch.setattr(module, what, value or refused)
    (row,) = rows(["me"], [8], tmp_path)
    assert why in (row.why or "")
    assert row.ms_per_token is row.state_bytes is None


@pytest.mark.slow
def test_an_interrupted_command_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[int] = []

    def interrupted(model: object, state: object, tokens: int) -> float:
        calls.append(tokens)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return 0.001

    monkeypatch.setattr(module, "latency", interrupted)
    monkeypatch.setattr("seqloom.studies.samples.STORIES", 2)
    monkeypatch.setattr("seqloom.studies.samples.LENGTH", 20)
    words = ["compare", "me", "--preset", "tiny", "--set", "training.batches=2", "--data", "stories:30:0"]
    words += ["--lengths", "8,16", "--out", str(tmp_path)]
    assert command(words) == 130
    assert "the same command continues" in capsys.readouterr().err
    assert len(list(tmp_path.rglob("decoding-*/rows.json"))) == 1
    assert command(words) == 0
    assert calls == [8, 16, 16]
    assert "ms a token at 16" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [[8, 8], [0], [-1, 2]])
def test_impossible_lengths(wrong: list[int]) -> None:
    with pytest.raises(ValueError, match="from 1 on that differ"):
        require_lengths(wrong)
