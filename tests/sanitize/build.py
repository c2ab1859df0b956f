"""How the C is compiled under the sanitizers; a plugin of pytest, which must be loaded before anything is compiled."""

import os
import subprocess
import sys
from pathlib import Path

from seqloom.ops.native import compiler

SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined"
ROOT = Path(__file__).parents[2]
CACHE = ROOT / "build" / "sanitize"
LOG = CACHE / "report"
"""the beginning of the files that the address sanitizer writes, one for each process; the other writes to stderr"""
SECONDS = 600.0
"""that a compilation may take: the sanitizers multiply its time"""

if os.environ.get("SEQLOOM_SANITIZE") == "1":
    compiler.FLAGS = ("-O1", "-g", "-fno-omit-frame-pointer", *compiler.FLAGS[1:])
    compiler.LIMIT = SECONDS


def environment() -> dict[str, str]:
    """Of a process that loads sanitized C: the runtimes must come before all other libraries."""
    runtimes = [_file_of("libasan.so"), _file_of("libstdc++.so")]
    return {
        **os.environ,
        "ASAN_OPTIONS": f"detect_leaks=0:log_path={LOG}:handle_segv=1:allocator_may_return_null=1",
        "CC": f"gcc {SANITIZERS}",
        "LD_PRELOAD": " ".join(runtimes),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "SEQLOOM_CACHE": str(CACHE),
        "SEQLOOM_SANITIZE": "1",
        "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={LOG}",
    }


def reports() -> str:
    """What the sanitizers have written since the last call."""
    found = []
    for each in sorted(CACHE.glob(f"{LOG.name}.*")):
        found.append(each.read_text(errors="replace"))
        each.unlink()
    return "\n".join(found)


def _file_of(library: str) -> str:
    found = subprocess.run(["gcc", f"-print-file-name={library}"], capture_output=True, text=True, check=True)
    path = found.stdout.strip()
    if not Path(path).is_absolute():
        sys.exit(f"make sanitize needs gcc with {library}")
    return path
