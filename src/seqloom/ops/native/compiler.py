"""The C compiler of the system: how it is found and called, and the key of the libraries that it makes."""

import hashlib
import os
import shlex
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from seqloom.ops.native.openmp import runtime

SHARED = Path(__file__).parent
"""headers for the C of every op"""
LIMIT = 60.0
"""seconds that a compilation may take"""
FLAGS = ("-O3", "-march=native", "-fopenmp", "-fPIC", "-fno-math-errno", "-fno-trapping-math")
"""the last two allow vector code; they give up `errno` and the CPU's exception flags, but not NaN or infinity"""

_CPU_FIELDS = {"vendor_id", "cpu family", "model", "model name", "stepping", "flags", "features", "isa"}


class Unavailable(Exception):
    """There is no native code; the message is the reason, in a few words."""


def find() -> list[str]:
    """The command of the compiler: the environment's CC, else gcc, cc or clang. Unavailable where there is none."""
    variable = os.environ.get("CC", "")
    try:
        from_environment = shlex.split(variable)
    except ValueError as error:
        raise Unavailable(f"the environment's CC is no command: {variable!r} ({str(error).lower()})") from None
    for words in [from_environment] if from_environment else [["gcc"], ["cc"], ["clang"]]:
        if path := shutil.which(words[0]):
            return [path, *words[1:]]
    if from_environment:
        raise Unavailable(f"no C compiler {from_environment[0]!r} (the environment's CC)")
    raise Unavailable("no C compiler")


def key(source: Path, compiler: list[str]) -> str:
    """The key of a library: a hash of everything that it depends on."""
    version = _run([*compiler, "--version"])
    headers = [path for folder in (source.parent, SHARED) for path in sorted(folder.glob("*.h"))]
    code = [path.read_bytes() for path in (source, *headers)]
    command = " ".join([*compiler, *FLAGS, str(_runtime())])
    parts = [*code, *(text.encode() for text in (version, command, _cpu()))]
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def compile_to(out: Path, source: Path, compiler: list[str]) -> None:
    """Compiles the source to a library. Raises Unavailable where that fails.

    It is linked with the OpenMP library that torch has loaded. Linking does not use -fopenmp, which would add the
    compiler's own OpenMP, and `-z defs` makes an undefined symbol an error.
    """
    objects = out.with_name(f"{out.name}.o")
    try:
        _run([*compiler, *FLAGS, "-I", str(SHARED), "-c", "-o", str(objects), str(source)])
        _run([*compiler, "-shared", "-o", str(out), str(objects), str(_runtime()), "-lm", "-Wl,-z,defs"])
    finally:
        objects.unlink(missing_ok=True)


def _runtime() -> Path:
    """The OpenMP library that torch has loaded. Unavailable where it is not found."""
    path = runtime()
    if path is None:
        raise Unavailable("torch's OpenMP is not found")
    return path


def _cpu() -> str:
    """The model and the features of this machine's CPU, as the system names them. Unavailable where it does not."""
    try:
        first_core = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    except OSError as error:
        raise Unavailable("the CPU's model is not known") from error
    fields = (line.partition(":") for line in first_core.splitlines())
    return "\n".join(
        value for name, _, value in fields if name.strip().lower() in _CPU_FIELDS or name.startswith("CPU ")
    )


def _run(command: list[str]) -> str:
    """What the command prints. Unavailable, with the first error line, where it fails or takes too long."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # so that the compiler's own children end with it
        )
    except OSError as error:
        raise Unavailable(f"{command[0]} does not run ({error.strerror})") from error
    try:
        output, errors = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{command[0]} took longer than {LIMIT:.0f} s") from error
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode:
        lines = [line.strip() for line in errors.splitlines() if line.strip()]
        error_lines = [line for line in lines if "error" in line or "undefined" in line]
        reason = (error_lines or lines or ["no message"])[0]
        raise Unavailable(f"{command[0]} failed ({reason})")
    return output
