"""What is installed and what runs here: `seqloom --version`, `seqloom doctor` and `seqloom list --backends`."""

import platform
from importlib.metadata import PackageNotFoundError, version

import torch

from seqloom import __version__
from seqloom.core.available_memory import available_memory, format_bytes
from seqloom.core.table import table
from seqloom.data import cache
from seqloom.ops import backends as chooser
from seqloom.ops import native as native_code
from seqloom.ops.op import CHANNELS, Op

NEEDED = ("torch", "numpy", "scipy", "tokenizers", "safetensors", "pydantic", "typer", "rich")
OPTIONAL = {
    "altair": "the charts of a report: pip install 'seqloom[report]'",
    "triton": "kernels on a GPU: pip install 'seqloom[kernels]'",
    "submitit": "jobs of a cluster: pip install 'seqloom[cluster]'",
}
"""by module: its purpose, and the command that installs it"""
SIZES = ((1, 1), (1, 32), (8, 32), (8, 1024))
"""(batch, tokens) at which the choice of each op is observed"""


def versions() -> str:
    """seqloom, torch, the device and whether native code runs, a line each."""
    lines = [("seqloom", __version__), ("torch", torch.__version__), ("device", device()), ("native code", native())]
    return "\n".join(f"{name:<12} {value}" for name, value in lines)


def environment() -> str:
    """Versions, device, memory, cache, and every backend with the reason if it is not available here."""
    installed = [("python", platform.python_version()), ("seqloom", __version__)]
    installed += [(name, _version(name) or "not installed") for name in NEEDED]
    installed += [(name, _version(name) or f"not installed ({why})") for name, why in OPTIONAL.items()]
    machine = [
        ("device", device()),
        ("native code", native()),
        ("threads", str(torch.get_num_threads())),
        ("memory available", format_bytes(available_memory())),
        ("cache", str(cache.folder())),
    ]
    rows = []
    with native_code.without_compiling():
        for op, names in sorted(chooser.known_backends().items()):
            lacking = chooser.unavailable(op)
            rows += [(op, name, lacking.get(name, "yes")) for name in names]
    backends_table = table(("op", "backend", "runs here"), rows)
    return "\n\n".join([_section("installed", installed), _section("machine", machine), backends_table])


def device() -> str:
    """The device that `training.device=auto` takes."""
    if torch.cuda.is_available():
        return f"cuda: {torch.cuda.get_device_name()}, {format_bytes(torch.cuda.mem_get_info()[0])} free"
    return f"cpu ({platform.machine()}); no GPU that torch can use"


def native() -> str:
    """`yes` and how much of it is compiled, or why no C source of ours becomes a library here. Compiles nothing."""
    with native_code.without_compiling():
        lacking = [chooser.unavailable(op) for op in chooser.known_backends()]
    reasons = {names["native"] for names in lacking if "native" in names}
    if reasons:
        return f"no: {'; '.join(sorted(reasons))}"
    compiled, sources = native_code.count_compiled()
    return f"yes ({compiled} of {sources} C files compiled, each at its first use)"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _section(title: str, lines: list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in lines)
    return "\n".join([title, *(f"  {name:<{width}}  {value}" for name, value in lines)])


def backends() -> str:
    """A table of every op's backends: whether each is available here, and at which sizes an op chooses it by itself.

    The choice is observed by running each op on this machine's CPU, with gradients, at a few sizes; a size is at two
    backends where it depends on the kind of weights too.
    """
    rows = []
    for name, op in sorted(chooser.ops().items()):
        lacking, chosen = op.unavailable(), _chosen_sizes(op)
        for backend in op.backends:
            rows.append((name, backend, lacking.get(backend, "yes"), ", ".join(chosen.get(backend, [])) or None))
    head = ("op", "backend", "available here", f"chosen at batch x tokens, {CHANNELS} channels")
    return table(head, rows)


def _chosen_sizes(op: Op) -> dict[str, list[str]]:
    """The sizes at which an op chooses each of its backends, by backend."""
    chosen: dict[str, list[str]] = {}
    for B, T in SIZES:
        with chooser.record_backends() as backends_run:
            for example in op.examples:
                example(_zeros, B, T)
        for name in backends_run.get(op.name, []):
            chosen.setdefault(name, []).append(f"{B} x {T}")
    return chosen


def _zeros(*sizes: int) -> torch.Tensor:
    return torch.zeros(sizes, requires_grad=True)
