"""What each of our mixers computes, in float64: a few numbers in which every output, gradient and state has its part.

    python -m tests.recordings.equations        writes equations.json: new kinds, and kinds whose version was raised

`MixerConfig.equation_version` is what a run's surroundings and a cell's digest have of our equations, so that a
refactoring makes no run stale. `test_equations.py` holds the version to these numbers: where they change, it must be
raised, and they are written anew. Numbers of the same version are never overwritten here.
"""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seqloom.core.mixer_config import MixerConfig
from seqloom.mixers import kinds

PATH = Path(__file__).with_name("equations.json")
DIM, CONTEXT, TOKENS, ROWS = 8, 6, 9, 2
SEEDS = (0, 1)
NOISE = 0.1
"""what is added to the first weights, so that none is zero and hides what it is multiplied with"""
BOUND = 1e-9


def ours() -> list[str]:
    """The kinds of our own mixers."""
    return [kind for kind, config in kinds().items() if config.__module__.startswith("seqloom.")]


def equation(kind: str) -> dict[str, list[float]]:
    """The numbers of a kind, by its examples and forms: `numbers` of each seed, one after the other."""
    config = kinds()[kind]
    result = {}
    for example in config.examples:
        settings = config.model_validate({"kind": kind, **example})
        for causal in (True, False):
            if config.traits.causal == "never" if causal else not settings.has_bidirectional:
                continue
            name = f"{json.dumps(example, sort_keys=True)} {'causal' if causal else 'bidirectional'}"
            result[name] = [number for seed in SEEDS for number in numbers(settings, causal, seed)]
    return result


def numbers(settings: MixerConfig, causal: bool, seed: int) -> list[float]:
    """Of outputs, of gradients of the input and of the weights, and of the state where there is one."""
    torch.manual_seed(seed)
    torch.set_default_dtype(torch.float64)  # the first weights too, whose last bits depend on the processor in float32
    try:
        mixer = settings.build(DIM, CONTEXT, causal).double()
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter += NOISE * torch.randn_like(parameter)
    x = torch.randn(ROWS, min(TOKENS, mixer.traits.longest or TOKENS), DIM, dtype=torch.float64, requires_grad=True)
    loss = part([mixer(x)])
    loss.backward()
    gradients = [parameter.grad for _, parameter in sorted(mixer.named_parameters()) if parameter.grad is not None]
    found = [loss, part([x.grad]) if x.grad is not None else torch.zeros(()), part(gradients)]
    if mixer.traits.streams and causal:
        with torch.no_grad():
            _, state = mixer.extend(x, mixer.start(ROWS))
            found.append(part([tensor for _, tensor in sorted(mixer.trim(state).items())]))
    return [float(f"{number.item():.13g}") for number in found]


def part(tensors: list[Tensor]) -> Tensor:
    """The sum of all entries, each with a weight of its own between -1 and 1."""
    flat = [(torch.view_as_real(tensor) if tensor.is_complex() else tensor).double().flatten() for tensor in tensors]
    entries = torch.cat(flat) if flat else torch.zeros(0, dtype=torch.float64)
    return (entries * torch.cos(1 + 1.7 * torch.arange(len(entries), dtype=torch.float64))).sum()


def differing(before: dict[str, list[float]], now: dict[str, list[float]]) -> list[str]:
    """The examples that only one has, or whose numbers differ by more than `BOUND`, relative to numbers above 1."""
    return [name for name in {**before, **now} if not _same(before.get(name), now.get(name))]


def _same(before: list[float] | None, now: list[float] | None) -> bool:
    if before is None or now is None or len(before) != len(now):
        return False
    return all(abs(new - old) <= BOUND * max(1.0, abs(old)) for old, new in zip(before, now, strict=True))


def recorded() -> dict[str, dict[str, Any]]:
    """The recording: by kind its version and its numbers."""
    contents: dict[str, dict[str, Any]] = json.loads(PATH.read_text(encoding="utf-8")) if PATH.exists() else {}
    return contents


def main() -> None:
    """Writes the kinds that are new and those of another version; the numbers of all others stay as they are."""
    before = recorded()
    written = {}
    for kind in ours():
        version = kinds()[kind].equation_version
        earlier = before.get(kind, {"version": None, "numbers": {}})
        if earlier["version"] != version:
            written[kind] = {"version": version, "numbers": equation(kind)}
            continue
        added = {name: found for name, found in equation(kind).items() if name not in earlier["numbers"]}
        written[kind] = {"version": version, "numbers": {**earlier["numbers"], **added}}
    lines = (f"{json.dumps(kind)}: {json.dumps(entry)}" for kind, entry in written.items())
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
