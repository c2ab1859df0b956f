"""Random calls of every mixer's `extend` and `step`: valid ones, wrong tokens, and states of another mixer."""

import random
from typing import Any

import torch
from torch import Tensor

from seqloom.core.mixer import Mixer
from seqloom.core.state import State
from tests.contract.cases import CASES, DIM, Case
from tests.sanitize.spoiling import WRONG, odd_strides

STREAMING = [case for case in CASES if case().traits.streams]
SEVERAL = 3
"""rows"""


def check(seed: int) -> str:
    """Runs a case; what is wrong with its end, or "". Memory errors end the process."""
    chance = random.Random(seed)
    make = STREAMING[seed % len(STREAMING)]
    way = chance.choice(["right", "odd", "token", "foreign", "foreign", "foreign"])
    dtype = chance.choice([torch.float32, torch.float64])
    context = chance.choice(_contexts(make))
    with torch.no_grad():
        return f"{make}: {said}" if (said := WAYS[way](make, context, dtype, chance)) else ""


def _contexts(make: Case) -> list[int]:
    """Of 2, 5 and 9 tokens, those that the example can be built for: three clusters are too many for two tokens."""
    try:
        make(context=2)
    except ValueError:
        return [5, 9]
    return [2, 5, 9]


def _read(mixer: Mixer, x: Tensor, pieces: list[int], state: State, reuse: bool) -> tuple[Tensor, State]:
    """Pieces by `extend`, those of one token by `step`."""
    outputs, first = [], 0
    for size in pieces:
        if size == 1:
            y, state = mixer.step(x[:, first], state, reuse=reuse)
            outputs.append(y[:, None])
        else:
            y, state = mixer.extend(x[:, first : first + size], state)
            outputs.append(y)
        first += size
    return torch.cat(outputs, 1), state


def _right(make: Case, context: int, dtype: torch.dtype, chance: random.Random, odd: bool = False) -> str:
    mixer, rows = make(context=context, dtype=dtype), chance.choice([1, 2, SEVERAL])
    pieces = [chance.choice([0, 1, 1, 2, 5]) for _ in range(chance.randint(1, 6))]
    if mixer.traits.longest is not None:
        pieces = [1] * min(len(pieces), mixer.traits.longest)
    x = _tokens(rows, sum(pieces), dtype, chance)
    y, _ = _read(
        mixer, odd_strides(x, chance) if odd and x.numel() else x, pieces, mixer.start(rows), chance.random() < 0.5
    )
    wanted = mixer(x)
    bound = (1e-8 if dtype == torch.float64 else 2e-3) * max(1.0, float(wanted.abs().max()) if wanted.numel() else 1.0)
    return "" if torch.allclose(y, wanted, rtol=0, atol=bound) else f"pieces {pieces} differ from forward"


def _odd(make: Case, context: int, dtype: torch.dtype, chance: random.Random) -> str:
    return _right(make, context, dtype, chance, odd=True)


def _token(make: Case, context: int, dtype: torch.dtype, chance: random.Random) -> str:
    """Tokens that are not those of a mixer of this dim and dtype."""
    mixer, rows, verb = make(context=context, dtype=dtype), chance.choice([1, 2]), chance.choice(["extend", "step"])
    x = _tokens(rows, 2, dtype, chance)
    x = x if verb == "extend" else x[:, 0]
    spoil = chance.choice(WRONG)
    return _refused(mixer, verb, spoil(x, chance), mixer.start(rows), chance, f"{verb} {spoil.__name__}", False)


def _foreign(make: Case, context: int, dtype: torch.dtype, chance: random.Random) -> str:
    """States of another mixer, context, batch, dtype or width, and entries that are missing, strange or spoilt."""
    mixer, rows, verb = make(context=context, dtype=dtype), chance.choice([1, 2]), chance.choice(["extend", "step"])
    x = _tokens(rows, 2, dtype, chance)
    x, fits = (x if verb == "extend" else x[:, 0]), _read_on(mixer, rows, dtype, chance)
    state, what = dict(fits), chance.choice(["kind", "context", "batch", "dtype", "entry", "entry", "names"])
    if what == "kind":
        other = chance.choice(STREAMING)
        built = other(context=chance.choice(_contexts(other)), dtype=dtype)
        state, what = _read_on(built, rows, dtype, chance), f"of {other}"
    elif what == "context":
        state = _read_on(make(context=chance.choice(_contexts(make)), dtype=dtype), rows, dtype, chance)
    elif what == "batch":
        state = _read_on(mixer, rows + 1, dtype, chance)
    elif what == "dtype":
        wider = torch.float64 if dtype == torch.float32 else torch.float32
        state = _read_on(make(context=context, dtype=wider), rows, wider, chance)
    elif what == "entry":
        name, spoil = chance.choice(sorted(state)), chance.choice(WRONG)
        state[name], what = spoil(state[name], chance), f"{name} {spoil.__name__}"
    elif chance.random() < 0.5:
        del state[chance.choice(sorted(state))]
    else:
        state["strange"] = torch.zeros(rows)
    return _refused(mixer, verb, x, state, chance, f"{verb} of a state, {what}", not _alike(mixer, state, fits))


def _refused(mixer: Mixer, verb: str, x: Any, state: State, chance: random.Random, about: str, must: bool) -> str:
    try:
        y, _ = mixer.extend(x, state) if verb == "extend" else mixer.step(x, state, reuse=chance.random() < 0.6)
    except (ValueError, TypeError):
        return ""
    except Exception as error:
        return f"{about}: {type(error).__name__}: {str(error).splitlines()[0]}"
    if must:
        return f"{about}: is read"
    return "" if y.shape == x.shape else f"{about}: {tuple(y.shape)} of {tuple(x.shape)}"


def _read_on(mixer: Mixer, rows: int, dtype: torch.dtype, chance: random.Random) -> State:
    """A state after some tokens, so that what grows has grown."""
    tokens = chance.choice([0, 1, 4])
    if mixer.traits.longest is not None:
        tokens = 0
    return mixer.extend(_tokens(rows, tokens, dtype, chance), mixer.start(rows))[1]


def _alike(mixer: Mixer, state: State, fits: State) -> bool:
    """Whether no shape and dtype tells the state from one of the mixer's own; the size that grows tells nothing."""
    if state.keys() != fits.keys():
        return False
    for name, tensor in state.items():
        like = fits[name]
        if not isinstance(tensor, Tensor) or (tensor.dtype, tensor.device) != (like.dtype, like.device):
            return False
        grows = mixer.traits.state == "grows" and tensor.ndim == like.ndim
        ends = [n for n in range(tensor.ndim) if tensor.shape[n] != like.shape[n]] if grows else []
        if tensor.layout != torch.strided or (tensor.shape != like.shape and ends != [_growing(mixer, name)]):
            return False
    return True


def _growing(mixer: Mixer, name: str) -> int:
    """The axis of an entry that grows; -1 for the others."""
    entry = mixer.state_spec.get(name)
    return -1 if entry is None or not entry.grows else 1 + entry.axis


def _tokens(rows: int, count: int, dtype: torch.dtype, chance: random.Random) -> Tensor:
    generator = torch.Generator().manual_seed(chance.randrange(1 << 30))
    return torch.randn(rows, count, DIM, generator=generator, dtype=torch.float64).to(dtype)


WAYS = {"right": _right, "odd": _odd, "token": _token, "foreign": _foreign}
