"""The same mistakes made in Python: a ValueError (or a missing file) in one line that says what to do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import seqloom
from seqloom.models.decoder import Decoder
from seqloom.ops.backends import use
from tests.conftest import SHAPES

Call = Callable[["Kit"], object]


class Kit:
    """What the calls are made on: a model of vocabulary 300 and context 16, without and with a tokenizer."""

    def __init__(self, run: Path, folder: Path) -> None:
        self.run, self.folder = run, folder
        self.model: Decoder = seqloom.decoder("she", vocab=300, dim=8, depth=1, context=16, ffn=8)
        self.trained: Decoder = seqloom.load(run)
        self.mixer = seqloom.mixer("attention", dim=8, context=16, heads=2)


def ids(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.long)


def kept(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.bool)


def mixes(kind: Any, **settings: Any) -> Call:
    return lambda kit: seqloom.mixer(kind, **{"dim": 8, "context": 4, **settings})


def decodes(kind: Any, **settings: Any) -> Call:
    return lambda kit: seqloom.decoder(kind, **{"vocab": 300, "dim": 8, "depth": 2, "context": 4, **settings})


def says(prompt: Any, **settings: Any) -> Call:
    return lambda kit: list(seqloom.generate(kit.trained, prompt, **settings))


def forced(**backends: str) -> object:
    with use(**backends):
        return None


CALLS: list[tuple[str, Call, tuple[str, ...]]] = [
    ("mixer", mixes("shee"), ("unknown mixer 'shee'", "did you mean 'she'")),
    ("mixer-list", mixes(["she"]), ("unknown mixer",)),
    ("mixer-setting", mixes("attention", head=2), ("unknown setting 'head'", "did you mean 'heads'")),
    ("mixer-heads", mixes("attention", heads=3), ("dim 8", "heads 3", "1, 2, 4, 8")),
    ("mixer-groups", mixes("she", groups=3), ("dim 8", "groups 3")),
    ("mixer-dim", mixes("she", dim=0), ("dim must be", "not 0")),
    ("mixer-dim-negative", mixes("he", dim=-1), ("dim must be", "not -1")),
    ("mixer-dim-text", mixes("he", dim="8"), ("dim must be a whole number", "'8'")),
    ("mixer-dim-fraction", mixes("he", dim=2.5), ("dim must be a whole number", "2.5")),
    ("mixer-context", mixes("me", context=0), ("context must be", "not 0")),
    ("mixer-no-context", mixes("me", context=None), ("me needs a context",)),
    ("decoder-kind", decodes("shee"), ("unknown mixer 'shee'", "did you mean 'she'")),
    ("decoder-dict", decodes({"kind": "she"}), ("a list such as",)),
    ("decoder-names", decodes(["she", "he"]), ("a list such as",)),
    ("decoder-number", decodes(3), ("a list such as", "not 3")),
    ("decoder-no-mixers", decodes([]), ("the list of mixers is empty",)),
    ("decoder-settings", decodes([{"kind": "she"}], groups=2), ("move groups into it",)),
    ("decoder-heads", decodes("attention", heads=3), ("dim 8", "heads 3")),
    ("decoder-second", decodes([{"kind": "she"}, {"kind": "attention", "heads": 3}]), ("dim 8", "heads 3")),
    ("decoder-vocab", decodes("she", vocab=0), ("vocab", "greater than or equal to 1")),
    ("decoder-depth", decodes("she", depth=-1), ("depth", "-1")),
    ("decoder-dropout", decodes("she", dropout=1.0), ("dropout", "less than 1")),
    ("decoder-position", decodes("she", position="learnt"), ("'learned'", "'learnt'")),
    ("long", lambda kit: kit.model(ids(1, 17)), ("17 tokens long", "reach 16", "'slide'", "position='none'")),
    (
        "long-extend",
        lambda kit: kit.model.extend(ids(1, 1), kit.model.extend(ids(1, 16), kit.model.start(1))[1]),
        ("17 tokens long", "reach 16"),
    ),
    ("ids-above", lambda kit: kit.model(ids(1, 3) + 300), ("0 … 299", "300 … 300")),
    ("ids-below", lambda kit: kit.model(ids(1, 3) - 1), ("0 … 299", "-1")),
    ("ids-step", lambda kit: kit.model.step(ids(1) + 300, kit.model.start(1)), ("0 … 299",)),
    ("state-extend", lambda kit: kit.model.extend(ids(2, 3), kit.model.start(3)), ("3 rows", "2", "start(2)")),
    ("state-step", lambda kit: kit.model.step(ids(2), kit.model.start(1)), ("1 rows", "start(2)")),
    (
        "state-none",
        lambda kit: kit.model.step(ids(2), kit.model.start(2)._replace(extra={})),
        ("no state", "start(batch)"),
    ),
    ("state-mixer", lambda kit: kit.mixer.extend(torch.zeros(2, 3, 8), kit.mixer.start(3)), ("3 rows", "start(2)")),
    ("keep-mixer", lambda kit: kit.mixer(torch.zeros(2, 3, 8), kept(2, 4)), ("keep", "(2, 3)", "(2, 4)")),
    ("keep-mixer-kind", lambda kit: kit.mixer(torch.zeros(2, 3, 8), kept(2, 3).float()), ("keep", "bool")),
    ("keep-tokens", lambda kit: kit.model(ids(2, 3), kept(2, 4)), ("keep", "(2, 3)", "(2, 4)")),
    ("keep-rows", lambda kit: kit.model(ids(2, 3), kept(1, 3)), ("keep", "(2, 3)", "(1, 3)")),
    ("keep-extend", lambda kit: kit.model.extend(ids(2, 3), kit.model.start(2), kept(2, 2)), ("keep", "(2, 2)")),
    ("dim", lambda kit: kit.mixer(torch.zeros(2, 3, 9)), ("D = 8", "(2, 3, 9)")),
    ("no-tokenizer", lambda kit: seqloom.generate(kit.model, "Once"), ("no tokenizer", "model.tokenizer", "ids")),
    ("prompt-empty", says(""), ("the prompt is empty",)),
    ("prompt-no-ids", says([]), ("the prompt is empty",)),
    ("prompt-id", says([0, 300]), ("token id 300", "0 … 299")),
    ("prompt-surrogate", says("\ud800"), ("not UTF-8", "half a surrogate pair")),
    ("stop-text", says("Once", stop="end"), ("list of strings", "['end']")),
    ("stop-empty", says("Once", stop=[""]), ("empty string",)),
    ("stop-surrogate", says("Once", stop=["a\udcff"]), ("the stop string 'a\\udcff' is not UTF-8", "the byte 0xff")),
    ("stop-ids", says([0], stop=["end"]), ("stop is for a text prompt",)),
    ("max-tokens", says("Once", max_tokens=0), ("max_tokens must be at least 1",)),
    ("mode", says("Once", mode="steam"), ("unknown mode 'steam'", "did you mean 'stream'")),
    ("stream-long", says("Once", mode="stream", max_tokens=50), ("the model takes 16", "mode 'slide'")),
    ("hop", says("Once", hop=17), ("hop must lie in 1 … 16",)),
    ("temperature", says("Once", temperature=float("nan")), ("temperature", "finite")),
    ("temperature-text", says("Once", temperature="warm"), ("temperature", "'warm'")),
    ("top-k", says("Once", top_k=0), ("top_k", "greater than or equal to 1")),
    ("top-p", says("Once", top_p=1.1), ("top_p", "less than or equal to 1")),
    ("seed", says("Once", seed=-1), ("a seed must be a whole number of 0 … 4294967295",)),
    ("decode", lambda kit: kit.trained.tokenizer.decode([300]), ("token id 300", "300")),
    ("op", lambda kit: forced(lagsum="direct"), ("unknown op 'lagsum'", "did you mean 'lag_sum'")),
    ("backend", lambda kit: forced(lag_sum="dirct"), ("no backend 'dirct'", "did you mean 'direct'")),
    ("load-nothing", lambda kit: seqloom.load(kit.folder / "no"), ("does not exist", "--out")),
    ("load-no-run", lambda kit: seqloom.load(kit.folder), ("is not a run",)),
    ("load-step", lambda kit: seqloom.load(kit.run, step=9), ("no checkpoint of step 9", "there is 3")),
    ("load-device", lambda kit: seqloom.load(kit.run, device="cuda:99"), ("no device 'cuda:99'",)),
    ("load-device-typo", lambda kit: seqloom.load(kit.run, device="gpu"), ("no device 'gpu'",)),
    ("save-run", lambda kit: seqloom.save(kit.model, kit.run), ("other settings", "another")),
    ("save-file", lambda kit: seqloom.save(kit.model, kit.run / "config.json"), ("a file is in its place",)),
]


@pytest.fixture(scope="module")
def kit(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Kit:
    return Kit(trained, tmp_path_factory.mktemp("nothing"))


@pytest.mark.parametrize(("call", "words"), [case[1:] for case in CALLS], ids=[case[0] for case in CALLS])
def test_a_mistake_is_one_line(call: Call, words: tuple[str, ...], kit: Kit) -> None:
    try:
        call(kit)
    except (ValueError, FileNotFoundError) as error:
        message = str(error)
        missing = [word for word in words if word not in message]
        assert not missing, f"{missing} not in {message!r}"
        assert "\n" not in message
    except TypeError:  # the shape hook objects before we do
        if not SHAPES:
            raise
    else:
        pytest.fail("it was accepted")


@pytest.mark.slow
def test_a_tokenizer_of_another_model(trained: Path, tmp_path: Path) -> None:
    small = seqloom.decoder("she", vocab=200, dim=8, depth=1, context=4)
    seqloom.save(small, tmp_path / "small", tokenizer=seqloom.load(trained).tokenizer)
    with pytest.raises(ValueError, match=r"has 300 tokens, the model 200: put the run's own tokenizer back"):
        seqloom.load(tmp_path / "small")
