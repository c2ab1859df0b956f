"""`make sanitize`: the C under the address and undefined-behaviour sanitizers.

    python -m tests.sanitize [--cases 2000] [--first 0] [--skip-tests]

First the native tests of tests/ops, then random calls of every op with native code and of every mixer, and
wrong ones, which must end in a clear error. Each batch of
cases has a process of its own, forked; where one ends badly, each of its cases gets one, so that a crash has its case.
Ends with 1 if a test or a case failed, or a sanitizer wrote anything.
"""

import argparse
import faulthandler
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.sanitize import build

BATCH = 25
TESTS = [
    f"tests/ops/test_{name}.py"
    for name in (
        "wkv_average_native",
        "lag_sum_native",
        "lag_sum_spectral",
        "lag_sum_online",
        "scans_native",
        "selective_scan_native",
        "native_entry",
        "delta_rule",
        "linear_decay",
        "attention_cached",
        "patterns",
        "slstm_native",
        "short_convolution",
        "gated_norm",
        "one_pass",
    )
]
SECONDS = 120
"""that a batch may take"""
BAD = 3


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sanitize", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first case")
    parser.add_argument("--skip-tests", action="store_true")
    asked = parser.parse_args()
    if os.environ.get("SEQLOOM_SANITIZE") != "1":
        return _under_sanitizers(asked.skip_tests)
    return _cases(range(asked.first, asked.first + asked.cases))


def _under_sanitizers(skip_tests: bool) -> int:
    """Runs the tests, and this module again, in the environment of the sanitizers."""
    if not shutil.which("gcc"):
        sys.exit("make sanitize needs gcc")
    build.CACHE.mkdir(parents=True, exist_ok=True)
    build.reports()
    environment, status = build.environment(), 0
    if not skip_tests:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "tests.sanitize.build",
            "-q",
            "-x",
            "-m",
            "not slow and not graph",
        ]
        status = subprocess.run([*command, *TESTS], env=environment, cwd=build.ROOT, check=False).returncode
        if status:
            print(f"the native tests ended with {status}\n{build.reports()}")
    cases = subprocess.run([sys.executable, "-m", "tests.sanitize", *sys.argv[1:]], env=environment, check=False)
    return int(bool(status or cases.returncode))


def _cases(seeds: Iterable[int]) -> int:
    import torch

    import seqloom.ops
    from seqloom.ops import native
    from tests.sanitize import call_cases, mixer_cases, op_cases

    torch.set_num_threads(1)
    for source in sorted(Path(seqloom.ops.__file__).parent.rglob("*.c")):
        if reason := native.why(source):
            sys.exit(f"{source.name} does not compile under the sanitizers: {reason}")
    began, failed = time.monotonic(), 0

    def check(seed: int) -> str:
        if seed % 4 == 2:
            return call_cases.check(seed // 4)
        return op_cases.check(seed) if seed % 2 else mixer_cases.check(seed // 4)

    whole = list(seeds)
    for first in range(0, len(whole), BATCH):
        batch = whole[first : first + BATCH]
        if not _forked(check, batch, quiet=True):
            continue
        failed += sum(bool(_forked(check, [seed], quiet=False)) for seed in batch)
    print(f"{len(whole)} cases under the sanitizers, {failed} failed, {time.monotonic() - began:.0f} s")
    return int(failed > 0)


def _forked(check: Callable[[int], str], seeds: list[int], quiet: bool) -> int:
    """Runs cases in a child: 0 if all of them ended well. Says what happened unless `quiet`."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        status = BAD
        try:
            found = {seed: said for seed in seeds if (said := check(seed))}
            if not quiet:
                for seed, said in found.items():
                    print(f"case {seed}: {said}", flush=True)
            status = BAD if found else 0
        except BaseException as error:
            if not quiet:
                print(f"case {seeds}: the case itself fails: {type(error).__name__}: {error}", flush=True)
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    written = build.reports()
    if not quiet and (written or status not in (0, BAD)):
        print(f"case {seeds[0]}: the process ended with {status}\n{written}", flush=True)
    return int(bool(status or written))


if __name__ == "__main__":
    sys.exit(main())
