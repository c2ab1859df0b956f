"""Freed memory kept for the next step instead of handed back to the system.

By default glibc maps each tensor above a threshold anew and unmaps it when it is freed, and the page faults of a
training
step cost a good part of it (docs/log.md has the figures). The setting holds for the process and changes no result.
"""

import ctypes
import platform

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # names of mallopt(3)


def keep_freed_memory() -> bool:
    """Asks glibc to keep what is freed; True where that was possible (Linux with glibc), else nothing changes."""
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    wanted = {_MMAP_MAX: 0, _TRIM_THRESHOLD: 2**31 - 1, _TOP_PAD: 64 << 20}
    accepted = [mallopt(name, value) == 1 for name, value in wanted.items()]
    return all(accepted)
