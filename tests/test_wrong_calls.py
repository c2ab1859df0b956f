"""Every public function and verb of a model answers a wrong argument with ValueError or TypeError, in one line.

One table, generated: for each function and each parameter of its signature, every malformed value of the parameter's
class. A parameter without a class fails, so that a new one cannot be forgotten. The error must be raised by seqloom:
what torch or Python raise themselves does not count.
"""

import inspect
import math
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import seqloom
from seqloom.data.tokens import Tokens
from seqloom.depth.learned import LearnedConfig
from seqloom.depth.multinomial import MultinomialConfig
from seqloom.evaluation import scores, stories
from seqloom.generation import draws, price, sample
from seqloom.generation.beams import Beams, beam_search
from seqloom.generation.decode import generate_ids
from seqloom.generation.drafting import Draft
from seqloom.generation.exits import Exits
from seqloom.generation.sample import Sampling
from seqloom.generation.translation import translate, translate_best
from seqloom.models.decoder import Decoder
from seqloom.models.kinds import model_config
from tests.conftest import SHAPES

pytestmark = pytest.mark.skipif(SHAPES, reason="the shape hook objects first, in words of its own")

B, T, VOCAB, DIM = 2, 3, 11, 4
PACKAGE = Path(seqloom.__file__).parent


class Eleven:
    """A tokenizer of eleven letters."""

    eos = 0

    def encode(self, text: str) -> list[int]:
        return [1 + ord(letter) % 10 for letter in text]

    def decode(self, ids: list[int]) -> str:
        return "".join("abcdefghijk"[id] for id in ids)

    def stream(self) -> Any:
        raise NotImplementedError

    @property
    def json(self) -> str:
        return "eleven"


def decoder(kind: str = "attention", depth: int = 2, **settings: Any) -> Decoder:
    settings = {"heads": 2, **settings} if kind == "attention" else settings
    return seqloom.decoder(kind, vocab=VOCAB, dim=DIM, depth=depth, context=6, ffn=4, **settings).eval()


MODEL, MIXER = decoder(), seqloom.mixer("me", dim=DIM, context=4)
SIDE = {"mixer": {"kind": "attention", "heads": 2}}
TRANSLATOR = model_config(
    {"kind": "seq2seq", "vocab": VOCAB, "dim": DIM, "depth": 1, "context": 6, "ffn": 4, **SIDE, "encoder": SIDE}
).build()
MODEL.tokenizer, SAVED = Eleven(), decoder()
TOKENS = Tokens(np.array([1, 2, 0, 3, 0], "<u2"), np.array([0, 3]), np.array([4, 1]))
IDS, KEEP, LOGITS = torch.arange(B * T).reshape(B, T), torch.ones(B, T, dtype=torch.bool), torch.zeros(B, VOCAB)

CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "mixer": (seqloom.mixer, {"kind": "attention", "dim": DIM, "context": 4, "settings": {"heads": 2}}),
    "decoder": (
        seqloom.decoder,
        {"kind": "attention", "vocab": VOCAB, "dim": DIM, "depth": 1, "context": 4, "settings": {"heads": 2}},
    ),
    "list_mixers": (seqloom.list_mixers, {}),
    "save": (seqloom.save, {"model": MODEL, "folder": "saved", "tokenizer": Eleven()}),
    "swap": (seqloom.swap, {"model": decoder(), "layers": {0: "he"}, "init": "fresh"}),
    "quantize": (seqloom.quantize, {"model": decoder()}),
    "load": (seqloom.load, {"folder": "run"}),
    "generate": (seqloom.generate, {"model": MODEL, "prompt": [1, 2], "max_tokens": 2}),
    "generate_ids": (generate_ids, {"model": MODEL, "prompts": IDS, "max_tokens": 2}),
    "beam_search": (beam_search, {"model": MODEL, "prompts": IDS, "max_tokens": 2}),
    "translate": (translate, {"model": TRANSLATOR, "source": IDS, "keep": KEEP, "eos": 0, "max_tokens": 2}),
    "translate_best": (translate_best, {"model": TRANSLATOR, "source": IDS, "keep": KEEP, "eos": 0, "max_tokens": 2}),
    "tokens": (draws.tokens, {"model": MODEL, "prompts": IDS, "max_tokens": 2}),
    "price": (price.price, {"model": MODEL, "prompt_tokens": 2, "max_tokens": 2}),
    "probabilities": (sample.probabilities, {"logits": LOGITS, "sampling": Sampling()}),
    "draw": (sample.draw, {"logits": LOGITS, "sampling": Sampling(), "generator": torch.Generator()}),
    "score": (scores.score, {"model": MODEL, "tokens": TOKENS}),
    "unigram_entropy": (scores.unigram_entropy, {"tokens": TOKENS}),
    "floor": (stories.floor, {"tokens": TOKENS, "tokenizer": Eleven()}),
    "judged": (stories.judge_stories, {"model": MODEL, "stories": 1, "tokens": 2, "top_p": 0.5}),
    "forward": (MODEL.forward, {"ids": IDS}),
    "forward_with_extras": (MODEL.forward_with_extras, {"ids": IDS}),
    "features": (MODEL.features, {"ids": IDS}),
    "features_with_extras": (MODEL.features_with_extras, {"ids": IDS}),
    "logits": (MODEL.logits, {"x": torch.zeros(B, T, DIM)}),
    "start": (MODEL.start, {"batch": 2}),
    "extend": (MODEL.extend, {"ids": IDS, "state": MODEL.start(B)}),
    "extend_with_extras": (MODEL.extend_with_extras, {"ids": IDS, "state": MODEL.start(B)}),
    "read_with_extras": (MODEL.read_with_extras, {"ids": IDS, "state": MODEL.start(B)}),
    "read": (MODEL.read, {"ids": IDS, "state": MODEL.start(B)}),
    "step": (MODEL.step, {"ids": IDS[:, 0], "state": MODEL.start(B)}),
    "step_until": (
        MODEL.step_until,
        {"ids": IDS[:, 0], "state": MODEL.start(B), "enough": lambda before, after: False},
    ),
    "exits": (MODEL.exits, {"ids": IDS}),
    "exits_at": (MODEL.exits_at, {"ids": IDS, "layers": torch.ones_like(IDS)}),
    "exit_logits": (MODEL.exit_logits, {"x": torch.zeros(B, T, DIM), "layer": 1}),
    "rebuild_with": (MODEL.rebuild_with, {"config": MODEL.config}),
    "trim": (MODEL.trim, {"state": MODEL.start(B)}),
    "cost": (MODEL.cost, {"T": 2}),
    "inner_cost": (MODEL.inner_cost, {"T": 2}),
    "begin": (TRANSLATOR.begin, {"source": IDS, "keep": KEEP}),
    "crop": (MODEL.crop, {"state": MODEL.start(B), "tokens": 1}),
    "reserve": (MODEL.reserve, {"state": MODEL.start(B), "tokens": 1}),
    "recompute_layers": (MODEL.recompute_layers, {"on": False}),
}
"""each function with arguments that it takes"""


def misfits() -> list[Any]:
    """Values for another model than MODEL."""
    classifiers = (LearnedConfig(depth=9, dim=DIM), MultinomialConfig(depth=9, dim=DIM))
    other = seqloom.decoder("me", vocab=VOCAB + 1, dim=DIM, depth=1, context=6, ffn=4)
    exits = [Exits(by=config.build()) for config in classifiers]
    return [*exits, Draft(model=other), Beams(beams=VOCAB + 1), Beams(beams=2, best=2)]


WORDS = [None, 3, [], b"she", ("she",)]
COUNTS = [None, "3", 2.0, math.nan, True, -1, [1], torch.ones(2)]
SIZES = [*COUNTS, 0, 10**30]
TENSORS: list[Any] = [None, 3, "she", [[1, 2], [3, 4]], np.zeros((B, T), np.int64)]
STATE = MODEL.start(B)
WRONG: dict[str, list[Any]] = {
    "kind": [*WORDS, "attenton", {"kind": "attention"}, [{"kind": "she"}, 3]],
    "dim": SIZES,
    "vocab": SIZES,
    "depth": SIZES,
    "ffn": SIZES[1:],
    "context": SIZES[1:],
    "settings": [{"haeds": 2}, {"heads": "two"}, {"heads": 0}, {"heads": 3}, {"heads": None}],
    "dropout": [None, "x", -0.1, 1.0, math.nan, [0.1]],
    "position": [*WORDS, "learnt", {"kind": "learned", "base": 2.0}],
    "channel": [*(word for word in WORDS if word is not None), "fnn"],
    "norm": [*WORDS, "layers"],
    "causal": [None, "no", 1],
    "embed_norm": [None, "perhaps", 2, []],
    "model": [None, "runs/mine", MIXER, Decoder, {}],
    "folder": [None, 3, b"run", "", ["run"], "nothing/here", "file"],
    "tokenizer": [3, "tokenizer.json", object()],
    "step": ["1", 1.5, True, -1, [1], 10**30],
    "device": [None, 3, "cup", "cuda:99", "meta", ["cpu"]],
    "prompt": [None, 3, 1.5, "", [], [1.5], [True], [-1], [VOCAB], [10**30], [[1]], IDS, b"ab", {1: 2}, [None], ["a"]],
    "prompts": [
        *(*TENSORS, IDS[0], IDS[None], IDS[:0], IDS[:, :0], IDS.float(), IDS > 0, -IDS, IDS + VOCAB),
        *(IDS.to("meta"), IDS.to(torch.int8)),
    ],
    "max_tokens": [*COUNTS, 0],
    "mode": [*WORDS[1:], "slides"],
    "hop": [*COUNTS, 0, 7],
    "temperature": [None, "hot", -1.0, math.nan, math.inf, [1.0]],
    "top_k": ["x", 0, -1, 1.5, [1]],
    "top_p": ["x", 0.0, -1.0, 1.5, math.nan, [0.5]],
    "min_p": ["x", -0.1, 1.5, math.nan, [0.5]],
    "repetition_penalty": [None, "x", 0.0, -1.0, math.nan, math.inf, [1.0]],
    "presence_penalty": [None, "x", math.nan, math.inf, [1.0]],
    "seed": [None, "0", 1.5, -1, 2**64, True, [0]],
    "stop": [None, 3, "a", [""], [3], {"a": 1}, b"a"],
    "ignore_eos": [None, 1, "yes"],
    "sampling": [{}, 1.0, "greedy", Sampling],
    "eos": ["0", 1.5, -1, True],
    "source": [
        *(*TENSORS, IDS[0], IDS[None], IDS[:0], IDS[:, :0], IDS.float(), IDS > 0, -IDS, IDS + VOCAB),
        *(IDS.to("meta"), IDS.to(torch.int8), IDS.repeat(1, 3)),
    ],
    "beams": [{}, 4, "4", Beams, Beams(beams=VOCAB + 1)],
    "prompt_tokens": [*COUNTS, 0],
    "tokens": [None, 3, [1, 2], IDS, Tokens(TOKENS.ids[:0], TOKENS.starts[:0], TOKENS.sizes[:0])],
    "logits": [*TENSORS, LOGITS[0], LOGITS[None], LOGITS.long(), LOGITS / 0, LOGITS[:, :0], LOGITS.to("meta")],
    "generator": [None, 0, torch.Generator],
    "batch": [*COUNTS, 10**30],
    "stories": [*COUNTS, 0],
    "ids": [
        *(*TENSORS, IDS[None], IDS[0, 0], IDS.float(), IDS > 0, IDS.to(torch.int8), IDS.cfloat(), IDS.to("meta")),
        *(-1 - IDS, IDS + VOCAB),
    ],
    "keep": [3, "she", [[True]], KEEP[:1], KEEP[0], KEEP[:, :, None], KEEP.long(), KEEP.float(), KEEP.to("meta")],
    "added": [*TENSORS[1:], torch.zeros(B, T), torch.zeros(B, T + 1, DIM), torch.zeros(B, T, DIM, dtype=torch.int64)],
    "x": [
        *(*TENSORS, torch.zeros(B, T), torch.zeros(B, T, DIM + 1), IDS[:, :, None].expand(B, T, DIM)),
        *(torch.zeros(B, T, DIM, device="meta"), torch.zeros(B, T, DIM).double(), torch.zeros(B, T, DIM).half()),
    ],
    "state": [
        *(None, 3, [], "state", {}, {"length": [0, 0]}, torch.zeros(2), (), STATE.layers, STATE.extra),
        *(
            STATE._replace(extra=wrong)
            for wrong in (None, {}, {"length": [0, 0]}, {"length": STATE.extra["length"][0]})
        ),
        *(STATE._replace(layers=wrong) for wrong in (None, (), 3, (None, None), ((), ()), STATE.layers[:1])),
        STATE._replace(layers=(({}, {}), ({}, {}))),
        *(decoder(depth=1).start(B), decoder(depth=3).start(B), {1: 2}),
    ],
    "capacity": COUNTS[1:],
    "T": COUNTS,
    "per": [*WORDS, "batch"],
    "outputs": COUNTS[1:],
    "reuse": [None, 1, "yes"],
    "compile": [1, "yes"],
    "on": [None, 1, "yes"],
    "init": [None, 3, "copied"],
    "neighbors": [3, "store", {}],
    "show": [None, True, 3, "yes"],
    "seen": [3, "all", {}, sample.Seen.after(IDS[:1] * 0, VOCAB)],
    "exiting": [3, 0.9, {}, Exits(threshold=0.5)],
    "ways": [3, "greedy", {}, MODEL, Sampling, Exits(threshold=0.5, first=9), *misfits()],
    "config": [
        None,
        {},
        MODEL,
        MODEL.config.mixers[0],
        TRANSLATOR.config,
        decoder("me").config,
        decoder(depth=3).config,
    ],
    "layers": [*TENSORS, IDS[0], IDS[:1], IDS.float(), IDS * 0, IDS * 0 + 9, IDS.to("meta")],
    "layer": [*SIZES, 9],
    "enough": [None, 0.9, "sure"],
}
"""malformed values by the name of the parameter"""
SAMPLING = tuple(Sampling.model_fields)
OWN: dict[tuple[str, str], list[Any]] = {
    ("generate", "sampling"): [{name: value} for name in SAMPLING for value in WRONG[name]] + [{"topp": 0.5}],
    ("crop", "tokens"): COUNTS,
    ("swap", "layers"): [None, 3, {}, {7: "he"}, {0: "attenton"}, {"0": "he"}, {0: {"kind": "fnet"}}],
    ("reserve", "tokens"): COUNTS,
    ("translate", "model"): [*WRONG["model"], MODEL],
    ("translate_best", "model"): [*WRONG["model"], MODEL],
    ("translate", "max_tokens"): [*COUNTS[1:], 0],
    ("translate_best", "max_tokens"): [*COUNTS[1:], 0],
    ("begin", "source"): WRONG["ids"],
    ("save", "folder"): [None, 3, b"run", "", ["run"], "file"],
    ("judged", "tokens"): [*COUNTS, 0],
    ("judged", "model"): [None, MIXER, decoder()],  # the last has no tokenizer
    ("floor", "tokenizer"): [None, 3, object()],
    ("probabilities", "sampling"): [None, {}, Sampling],
    ("draw", "sampling"): [None, {}, Sampling],
    ("score", "batch"): [*COUNTS, 0],
    ("score", "stride"): [*COUNTS[1:], 0, 10**30],
    ("score", "tokens"): [*WRONG["tokens"], Tokens(TOKENS.ids + VOCAB, TOKENS.starts, TOKENS.sizes)],
    ("step", "ids"): [*WRONG["ids"], IDS, IDS[:1, 0], torch.tensor([1, VOCAB]), torch.tensor([-1, 1])],
    ("extend", "ids"): [*WRONG["ids"], IDS[0], IDS[:1]],
    ("extend", "state"): [*WRONG["state"], MODEL.start(B + 1)],
    ("step", "state"): [*WRONG["state"], MODEL.start(B + 1)],
    ("step_until", "ids"): [*WRONG["ids"], IDS, IDS[:1, 0], torch.tensor([1, VOCAB]), torch.tensor([-1, 1])],
    ("step_until", "state"): [*WRONG["state"], MODEL.start(B + 1)],
}
"""where a function wants something else by that name, or more"""


def parameters() -> list[tuple[str, str]]:
    """Each function with each of its parameters."""
    return [(name, parameter) for name, (call, _) in CALLS.items() for parameter in inspect.signature(call).parameters]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("no run")
    seqloom.save(SAVED, "run")


def call(name: str, arguments: dict[str, Any]) -> Any:
    function, _ = CALLS[name]
    given = {**arguments, **arguments.get("settings", {})}
    given = {key: value for key, value in given.items() if key != "settings"}
    if name != "generate":
        return function(**given)
    model, prompt, ways, sampling = (given.pop(key, ()) for key in ("model", "prompt", "ways", "sampling"))
    return function(model, prompt, *([ways] if ways != () else []), **given, **dict(sampling))


def shown(value: Any) -> str:
    return f"{tuple(value.shape)} {value.dtype}" if hasattr(value, "shape") else repr(value)[:80]


def complaint(name: str, arguments: dict[str, Any]) -> str | None:
    """What is wrong with the answer to a wrong call; None where it is as it should be."""
    try:
        call(name, arguments)
    except (ValueError, TypeError, FileNotFoundError, NotADirectoryError) as error:
        last, words = traceback.extract_tb(error.__traceback__)[-1], str(error)
        if not Path(last.filename).is_relative_to(PACKAGE) or not (last.line or "").startswith("raise "):
            return f"raised in {last.filename}:{last.lineno}: {words[:100]}"
        if "\n" in words or not 15 <= len(words) <= 400:
            return f"not one clear line: {words[:500]!r}"
        return None
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:100]}"
    return "no error"


@pytest.mark.parametrize(("name", "parameter"), parameters())
def test_wrong_values(name: str, parameter: str) -> None:
    _, good = CALLS[name]
    wrong = OWN.get((name, parameter)) or WRONG[parameter]
    result = {shown(value): complaint(name, {**good, parameter: value}) for value in wrong}
    assert not {value: words for value, words in result.items() if words}


@pytest.mark.parametrize("name", CALLS)
def test_the_right_call_passes(name: str) -> None:
    """So that an error is of the one argument that was made wrong."""
    call(name, CALLS[name][1])


def test_every_public_function_is_in_the_table() -> None:
    # tests/training/test_distilling.py and tests/studies/test_comparison_rows.py call these wrongly
    trains = {"distill", "compare", "results"}
    assert set(seqloom.__all__) - trains <= set(CALLS)
    verbs = {"forward", "features", "logits", "start", "extend", "read", "step", "step_until", "exits", "trim", "crop"}
    verbs |= {"rebuild_with", "begin", "exits_at", "exit_logits", "reserve", "recompute_layers"}
    verbs |= {"cost", "inner_cost"} | {f"{verb}_with_extras" for verb in ("forward", "features", "extend", "read")}
    classes = [each for each in Decoder.__mro__ if each.__module__.startswith("seqloom.")]
    members = {name for each in classes for name, value in vars(each).items() if inspect.isfunction(value)}
    own = {name for name in members if not name.startswith("_")}
    assert (
        own
        - {
            "after_update",
            "check_exits",
            "end_pass",
            "exit_output",
            "extend_loss",
            "extra_cost",
            "head_input",
            "loss_of",
            "loss_with_extras",
            "fit",
            "output",
            "reset",
            "take_lookup",
            "take_vectors",
            "take_windows",
        }
        == verbs
        <= set(CALLS)
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: seqloom.mixer("atention", dim=4), "did you mean 'attention'"),
        (lambda: seqloom.decoder("he", vocab=5, dim=4, dpeth=3), "did you mean 'depth'"),
        (lambda: seqloom.mixer("attention", dim=4, haeds=2), "did you mean 'heads'"),
        (lambda: list(seqloom.generate(MODEL, [1], mode="slid")), "did you mean 'slide'"),
        (lambda: MODEL([[1, 2]]), "torch.tensor"),
        (lambda: MODEL(IDS.float()), r"convert with .long\(\)"),
        (lambda: MODEL.step(torch.tensor([1, VOCAB]), MODEL.start(2)), r"0 … 10 \(the vocabulary\), not 1 … 11"),
        (lambda: seqloom.generate(MIXER, [1]), "seqloom.decoder"),
        (lambda: MODEL.start(10**12), "needs at least .* of memory, and .* are available"),
        (lambda: seqloom.mixer("she", dim=2**17, context=128), "needs at least .* of memory, and .* are available"),
    ],
)
def test_the_way_out_is_named(call: Callable[[], Any], words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        call()


@pytest.mark.parametrize("kind", ["he", "rwkv", "mamba"])
def test_wrong_calls_of_no_rows_and_of_no_tokens(kind: str) -> None:
    """No rows, and sequences of no tokens."""
    model = decoder(kind)
    state = model.start(0)
    logits, state = model.extend(IDS[:0], state)
    assert logits.shape == (0, T, VOCAB)
    logits, state = model.step(IDS[:0, 0], state)
    assert logits.shape == (0, VOCAB)
    assert model(IDS[:, :0]).shape == (B, 0, VOCAB)
    assert model(IDS[:0]).shape == (0, T, VOCAB)
    logits, after = model.extend(IDS[:, :0], model.start(B))
    assert logits.shape == (B, 0, VOCAB)
    assert after.extra["length"].tolist() == [0] * B


@pytest.mark.slow
@pytest.mark.parametrize("position", ["learned", "none"])
def test_meta_and_fake_tensors_pass(position: str) -> None:
    """Where values cannot be read none are; shapes come out as they would."""
    with torch.device("meta"):
        model = decoder("me", position=position)
        assert model(IDS.to("meta")).shape == (B, T, VOCAB)
        assert model(IDS.to("meta"), KEEP.to("meta")).shape == (B, T, VOCAB)
    with FakeTensorMode():
        model, ids = decoder("rwkv", position=position), torch.zeros(B, T, dtype=torch.long)
        assert model(ids).shape == (B, T, VOCAB)
        logits, state = model.extend(ids, model.start(B))
        assert logits.shape == (B, T, VOCAB)
        assert model.step(ids[:, 0], state)[0].shape == (B, VOCAB)


def test_under_autocast_any_floating_type_passes() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert MODEL(IDS).shape == (B, T, VOCAB)
        for dtype in (torch.bfloat16, torch.float32, torch.float64):
            assert MODEL.logits(torch.zeros(B, T, DIM, dtype=dtype)).shape == (B, T, VOCAB)


def test_a_step_reads_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the ids; what mixers read is theirs."""
    model = decoder("rwkv")
    read: list[str] = []
    for name in ("__int__", "__bool__", "item", "tolist", "min", "max"):
        original = getattr(torch.Tensor, name)
        monkeypatch.setattr(torch.Tensor, name, lambda *given, o=original, n=name: (read.append(n), o(*given))[1])
    model.step(IDS[:, 0], model.start(B))
    assert read == []
    model(IDS)
    assert "min" in read


def test_the_memory_check_draws_nothing() -> None:
    """A seed gives the weights that it gives without the check."""
    torch.manual_seed(3)
    checked = seqloom.decoder("performer", vocab=5, dim=8, depth=2, context=4)
    torch.manual_seed(3)
    plain = Decoder(checked.config)
    assert all(torch.equal(tensor, plain.state_dict()[name]) for name, tensor in checked.state_dict().items())
