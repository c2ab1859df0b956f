"""A malicious run folder raises one clear error, in little memory, and nothing outside of it is opened."""

import os
import random
import re
import resource
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import seqloom
from seqloom.data.tokenizer import Tokenizer
from seqloom.runs.layout import Run
from seqloom.runs.model import describe_weights
from tests.runs.hostile import FILES, WRECKS

GIB = 2**30


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = seqloom.decoder("me", vocab=300, dim=8, depth=1, context=6)
    folder = tmp_path_factory.mktemp("good") / "run"
    return seqloom.save(model, folder, tokenizer=Tokenizer.train(["a text, a text, a text"], 300))


@pytest.fixture(scope="module", autouse=True)
def opened() -> Iterator[list[str]]:
    """What Python opens, as its audit events tell; they cannot be unheard, so one listener serves all cases."""
    paths: list[str] = []
    listening = [True]

    def listen(event: str, arguments: tuple[object, ...]) -> None:
        if listening and event in ("open", "os.mkdir", "pickle.find_class") and not isinstance(arguments[0], int):
            paths.append(str(arguments[0]))

    sys.addaudithook(listen)
    yield paths
    listening.clear()


@pytest.mark.slow
@pytest.mark.parametrize("name", WRECKS)
def test_a_hostile_run(run: Path, tmp_path: Path, opened: list[str], name: str) -> None:
    wreck, why = WRECKS[name]
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    wreck(folder)
    opened.clear()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises((ValueError, FileNotFoundError), match=re.escape(why)) as raised:
        seqloom.load(folder)
    assert "\n" not in str(raised.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < GIB // 1024
    foreign = [path for path in opened if not path.startswith((str(tmp_path), "/proc/", "/sys/fs/cgroup"))]
    assert not [path for path in foreign if not path.endswith((".py", ".pyc"))], "nothing but modules is opened besides"
    assert not os.path.exists("/tmp/seqloom-ran-code-of-a-pickle")


def test_the_run_itself_is_good(run: Path) -> None:
    assert seqloom.load(run).tokenizer is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_every_flipped_bit_is_an_error(run: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(run, tmp_path / "run")
    path = tmp_path / "run" / name
    whole = path.read_bytes()
    for bit in random.Random(2).sample(range(len(whole) * 8), 40):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(ValueError, match=path.name) as raised:
            seqloom.load(tmp_path / "run")
        assert "\n" not in str(raised.value)


@pytest.mark.slow
def test_what_a_model_is_described_as_is_what_it_is(run: Path) -> None:
    mixers = [{"kind": "rwkv"}, {"kind": "me"}, {"kind": "s4d"}]
    model = seqloom.decoder(mixers, vocab=30, dim=8, depth=5, context=6, channel="channel_mix")
    shapes = {name: (tensor.shape, tensor.dtype) for name, tensor in describe_weights(Run(run), model.config).items()}
    assert shapes == {name: (tensor.shape, tensor.dtype) for name, tensor in model.state_dict().items()}


def test_a_model_that_does_not_fit_is_not_built(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[torch.device] = []
    from seqloom.models.decoder import Decoder

    make = Decoder.__init__

    def watched(model: Decoder, *values: Any, **named: Any) -> None:
        make(model, *values, **named)
        built.append(model.token.weight.device)

    monkeypatch.setattr(Decoder, "__init__", watched)
    monkeypatch.setattr("seqloom.core.available_memory.available_memory", lambda: 10_000)
    with pytest.raises(ValueError, match=r"loading the model in .* needs at least .* of memory, and .* are available"):
        seqloom.load(run)
    assert [device.type for device in built] == ["meta"]
