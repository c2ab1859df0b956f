"""Memory: whether a model has room at all, and freed memory kept for the next step instead of handed back.

By default glibc maps each tensor above a threshold anew and unmaps it when it is freed, and the page faults of a
training step cost a good part of it (docs/log.md has the figures). The setting holds for the process and changes no
result; SEQLOOM_KEEP_MEMORY=0 in the environment goes without.
"""

import ctypes
import os
import platform
from collections.abc import Callable

import torch

from seqloom.models.decoder import Decoder, DecoderConfig

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # names of mallopt(3)
_said = False


def keep_freed_memory(say: Callable[[str], object] | None = None) -> bool:
    """Asks glibc to keep what is freed; True where that was possible (Linux with glibc), else nothing changes.

    Nothing does with SEQLOOM_KEEP_MEMORY=0 either. `say` is told in a line, once a process.
    """
    global _said  # noqa: PLW0603  # as the setting, it is of the process
    if os.environ.get("SEQLOOM_KEEP_MEMORY") == "0" or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    wanted = {_MMAP_MAX: 0, _TRIM_THRESHOLD: 2**31 - 1, _TOP_PAD: 64 << 20}
    accepted = [mallopt(name, value) == 1 for name, value in wanted.items()]
    if say is not None and all(accepted) and not _said:
        _said = True
        say("freed memory is kept for the next step, which is faster; SEQLOOM_KEEP_MEMORY=0 hands it back")
    return all(accepted)


def require_room(config: DecoderConfig, device: torch.device) -> None:
    """Raises ValueError where weights, gradients and the optimizer's two averages would not fit into the memory."""
    with torch.device("meta"):
        numbers = sum(parameter.numel() for parameter in Decoder(config).parameters())
    if device.type == "cuda":
        room = torch.cuda.get_device_properties(device).total_memory
    else:
        room = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if 16 * numbers > room:
        need, have = 16 * numbers / 2**30, room / 2**30
        raise ValueError(
            f"a model of {numbers:,} parameters needs {need:,.0f} GiB to be trained; {device.type} has {have:,.0f}: "
            "choose smaller model.dim, model.depth, model.context or data.vocab"
        )
