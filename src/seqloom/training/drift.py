"""What could make the same settings compute other bits: a run records it, and reports a change.

The order of a floating-point sum depends on the number of threads, on the device, on torch and on the backend of each
op; everything depends on the code of the mixers (`seqloom.runs.code`). Threads and backends are taken up again when a
run continues; any other change is an error unless it is allowed.
"""

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from seqloom.core.objective import Batch
from seqloom.core.progress import Say
from seqloom.core.rest import Rest
from seqloom.ops import backends
from seqloom.runs.code import changed_kinds, changed_words, codes, unwritten_kinds
from seqloom.training.compilable import why_uncompiled
from seqloom.training.config import TrainConfig
from seqloom.training.step import Learner


def surroundings(learner: Learner, batch: Batch, config: TrainConfig) -> dict[str, Any]:
    """Torch, threads, device, the backends that the model's ops choose for the rows of a batch in training, and codes.

    The codes are there only where the model has more than our equations at version 1, and `compiled` only where its
    layers are compiled.
    """
    device = learner.model.device
    with backends.record_backends() as ran:
        if not learner.model.config.fits:  # read with gradients, since a training step may choose other backends
            with config.autocast(device), Rest(learner), torch.enable_grad():
                learner({name: tensor.to(device) for name, tensor in batch.items()}, {})
    compiles = config.compile and not why_uncompiled(learner.model, learner.objective, config)
    cuda = device.type == "cuda"
    code = codes(learner.model.config)
    return {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(device) if cuda else f"{platform.machine()} {device.type}",
        "instructions": "" if cuda else torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "backends": dict(sorted(ran.items())),
        **({"code": code} if code else {}),
        **({"compiled": "layers"} if compiles else {}),
    }


@contextmanager
def threads_of(earlier: dict[str, Any], say: Say) -> Iterator[None]:
    """Inside the block, as many threads as the run was computed with before; a change is reported."""
    threads = torch.get_num_threads()
    run_threads = int(earlier.get("threads", threads))
    if run_threads != threads:
        say(f"using {run_threads} threads, as the run did before (there are {threads} here; --allow-drift takes them)")
        torch.set_num_threads(run_threads)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def backends_of(earlier: dict[str, Any]) -> dict[str, str]:
    """The backend of each op that the run's steps were computed with before, where it was one alone and exists."""
    alone = {op: names[0] for op, names in earlier.get("backends", {}).items() if len(names) == 1}
    return {op: name for op, name in alone.items() if name in backends.known_backends().get(op, ())}


def describe_drift(earlier: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What differs, a few words each."""
    edited = changed_kinds(earlier.get("code", {}), now.get("code", {}))
    others = [name for name in now if name != "code" and earlier.get(name) != now[name]]
    return [
        *([changed_words(edited)] if edited else []),
        *(f"{name} was {earlier.get(name)}, is {now[name]}" for name in others),
    ]


def require_undrifted(earlier: dict[str, Any], now: dict[str, Any], allow_drift: bool, say: Say) -> None:
    """Raises ValueError where surroundings have changed; with `allow_drift` each change is printed instead."""
    differences = describe_drift(earlier, now)
    if differences and not allow_drift:
        elsewhere = ", or choose another --out" if earlier.get("code", {}) != now.get("code", {}) else ""
        raise ValueError(
            f"the run would no longer be the same bit for bit: {'; '.join(differences)}; go on with --allow-drift"
            f"{elsewhere}"
        )
    for difference in differences:
        say(f"drift allowed: {difference}")
    for kind in unwritten_kinds(earlier.get("code", {}), now.get("code", {})):
        say(f"the run does not say with which code of {kind} it began: it goes on with the code that is here")
