"""Calls of every mixer that a user may make by mistake, or through torch: each works, or raises one clear line of ours.

An error of ours is a ValueError or a TypeError in one line that is raised in the package; a text of torch is a fault.
"""

import copy
import random
import traceback
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import seqloom
from seqloom.core.mixer import Mixer
from tests.contract.cases import CASES, DIM, Case, draw, fits
from tests.sanitize.spoiling import WRONG

PACKAGE = str(seqloom.__file__).removesuffix("__init__.py")
LONGEST = 300
"""characters of a clear line"""
Call = Callable[[], object]
Way = Callable[[Mixer, Tensor, random.Random], tuple[Call, bool]]
"""a call, and whether it must raise an error"""


def check(seed: int) -> str:
    """Makes a call; what is wrong with its end, or ""."""
    chance = random.Random(seed)
    make: Case = CASES[seed % len(CASES)]
    mixer = make()
    x = draw(2, fits(mixer, 3), DIM)
    ways = {**ANY, **STREAMING} if mixer.traits.streams else ANY
    name = chance.choice(sorted(ways))
    call, must = ways[name](mixer, x, chance)
    said = fault(call, must)
    return f"{make}, {name}: {said}" if said else ""


def fault(call: Call, must: bool) -> str:
    """What is wrong with how the call ends; "" where it is as it should be."""
    try:
        call()
    except (ValueError, TypeError) as error:
        where, text = traceback.extract_tb(error.__traceback__)[-1], str(error)
        clear = where.filename.startswith(PACKAGE) and "\n" not in text and 15 <= len(text) <= LONGEST
        return "" if clear else f"not a clear line: {type(error).__name__} in {where.filename}: {text[:200]!r}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
    return "no error" if must else ""


def _copied(mixer: Mixer, x: Tensor, chance: random.Random) -> tuple[Call, bool]:
    other = copy.deepcopy(mixer)
    kind = chance.choice(["as it is", "half", "meta", "in inference mode"])
    if kind == "half":
        return lambda: other.half()(x.half()), False
    if kind == "meta":
        return lambda: other.to("meta")(x.to("meta")), False
    if kind == "in inference mode":
        return lambda: torch.inference_mode()(other)(x), False
    return lambda: other(x), False


def _spoilt(mixer: Mixer, x: Tensor, chance: random.Random) -> tuple[Call, bool]:
    """A wrong shape, dtype or device, or no tensor; some shapes are right ones of other sizes."""
    bad = chance.choice(WRONG)(x, chance)
    return lambda: mixer(bad), False


def _masked(mixer: Mixer, x: Tensor, chance: random.Random) -> tuple[Call, bool]:
    bad = chance.choice(WRONG)(torch.ones(x.shape[:2], dtype=torch.bool), chance)
    return lambda: mixer(x, bad), False


def _on_meta(mixer: Mixer, x: Tensor, chance: random.Random) -> tuple[Call, bool]:
    return lambda: mixer(x.to("meta")), True


def _nested(mixer: Mixer, x: Tensor, chance: random.Random) -> tuple[Call, bool]:
    layout = chance.choice([torch.strided, torch.jagged])
    rows = torch.nested.nested_tensor([x[0], x[1][:1]], layout=layout)
    kept = torch.nested.nested_tensor([torch.ones(2) > 0, torch.ones(1) > 0])
    return (lambda: mixer(rows)) if chance.random() < 0.5 else (lambda: mixer(x, kept)), True


def _by_vmap(mixer: Mixer, x: Tensor, chance: random.Random) -> tuple[Call, bool]:
    keep = torch.ones(x.shape[:2], dtype=torch.bool)
    if chance.random() < 0.5:
        return lambda: torch.func.vmap(lambda row: mixer(row[None])[0])(x), False
    return lambda: torch.func.vmap(lambda row, kept: mixer(row[None], kept[None])[0])(x, keep), False


def _compiled(mixer: Mixer, x: Tensor, chance: random.Random) -> tuple[Call, bool]:
    torch._dynamo.reset()
    return lambda: torch.compile(mixer, backend="eager", fullgraph=True)(x), False


def _too_many(mixer: Mixer, x: Tensor, chance: random.Random) -> tuple[Call, bool]:
    rows = 2 ** chance.randrange(40, 80)
    return lambda: mixer.start(rows), True


def _too_long(mixer: Mixer, x: Tensor, chance: random.Random) -> tuple[Call, bool]:
    tokens = 2 ** chance.randrange(50, 80)
    return lambda: mixer.start(2, capacity=tokens), False


def _of_another_batch(mixer: Mixer, x: Tensor, chance: random.Random) -> tuple[Call, bool]:
    rows = chance.choice([1, 3, 4])
    reuse = chance.random() < 0.5
    state = mixer.step(draw(rows, DIM), mixer.start(rows))[1] if chance.random() < 0.5 else mixer.start(rows)
    mixer.step(x[:, 0], mixer.start(2))
    state = {name: tensor.detach() for name, tensor in state.items()} if chance.random() < 0.5 else state
    if chance.random() < 0.5:
        return lambda: mixer.extend(x, state), True
    return lambda: mixer.step(x[:, 0], state, reuse=reuse), True


def _of_another_mixer(mixer: Mixer, x: Tensor, chance: random.Random) -> tuple[Call, bool]:
    """A foreign state may have the same form, such as another window."""
    others = [case for case in CASES if case.first and case.causal]
    other = chance.choice(others)()
    state = other.start(2) if other.traits.streams else {"length": torch.zeros(2)}
    return lambda: mixer.step(x[:, 0], state), False


def _of_meta(mixer: Mixer, x: Tensor, chance: random.Random) -> tuple[Call, bool]:
    state = {name: tensor.to("meta") for name, tensor in mixer.start(2).items()}
    return (lambda: mixer.step(x[:, 0], state)) if chance.random() < 0.5 else (lambda: mixer.extend(x, state)), True


def _spoilt_entry(mixer: Mixer, x: Tensor, chance: random.Random) -> tuple[Call, bool]:
    state = dict(mixer.start(2))
    name = chance.choice(sorted(state))
    state[name] = chance.choice(WRONG)(state[name], chance)
    return (lambda: mixer.step(x[:, 0], state)) if chance.random() < 0.5 else (lambda: mixer.extend(x, state)), False


def _nested_entry(mixer: Mixer, x: Tensor, chance: random.Random) -> tuple[Call, bool]:
    state = {name: torch.nested.nested_tensor([*entry]) for name, entry in mixer.start(2).items()}
    return lambda: mixer.step(x[:, 0], state), True


def _negative(mixer: Mixer, x: Tensor, chance: random.Random) -> tuple[Call, bool]:
    state = {**mixer.start(2), "length": torch.tensor([1, -1])}
    return (lambda: mixer.step(x[:, 0], state)) if chance.random() < 0.5 else (lambda: mixer.extend(x, state)), True


def _of_inference_mode(mixer: Mixer, x: Tensor, chance: random.Random) -> tuple[Call, bool]:
    with torch.inference_mode():
        state = mixer.step(x[:, 0], mixer.start(2))[1]
    return (lambda: mixer.step(x[:, 0], state)) if chance.random() < 0.5 else (lambda: mixer.extend(x, state)), False


def _expanded(mixer: Mixer, x: Tensor, chance: random.Random) -> tuple[Call, bool]:
    state = {name: tensor.expand(2, *tensor.shape[1:]) for name, tensor in mixer.start(1).items()}
    return lambda: mixer.step(x[:, 0], state, reuse=True), True


def _read_by_vmap(mixer: Mixer, x: Tensor, chance: random.Random) -> tuple[Call, bool]:
    def read(row: Tensor, kept: Tensor) -> Tensor:
        return mixer.extend(row[None], mixer.start(1), kept[None])[0][0]

    return lambda: torch.func.vmap(read)(x, torch.ones(x.shape[:2], dtype=torch.bool)), False


def _reused_by_a_word(mixer: Mixer, x: Tensor, chance: random.Random) -> tuple[Call, bool]:
    word: Any = chance.choice(["no", 1, None, 0.0])
    return lambda: mixer.step(x[:, 0], mixer.start(2), reuse=word), True


ANY: dict[str, Way] = {
    "a copy": _copied,
    "a wrong input": _spoilt,
    "a wrong mask": _masked,
    "an input on meta": _on_meta,
    "nested tensors": _nested,
    "vmap": _by_vmap,
    "compiled": _compiled,
}
STREAMING: dict[str, Way] = {
    "too many rows": _too_many,
    "too many tokens": _too_long,
    "a state of another batch": _of_another_batch,
    "a state of another mixer": _of_another_mixer,
    "a state on meta": _of_meta,
    "a wrong entry": _spoilt_entry,
    "a nested entry": _nested_entry,
    "a negative length": _negative,
    "a state of inference mode": _of_inference_mode,
    "an expanded state": _expanded,
    "reading by vmap": _read_by_vmap,
    "reuse that is no bool": _reused_by_a_word,
}
"""calls of what reads from a state"""
