"""Native code is compiled once, checked, and shared safely; where it is not available there is a reason."""

import ctypes
import os
import shutil
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from seqloom.ops import native
from seqloom.ops.native import compiler, loaded, openmp, store
from seqloom.ops.native.compiler import Unavailable
from seqloom.ops.native.entry import NativeFunction
from seqloom.ops.native.signature import Argument

SUM = """
#include <omp.h>
long sum(int threads, long n, int *asked) {
    long total = 0;
#pragma omp parallel for num_threads(threads) reduction(+ : total)
    for (long i = 0; i < n; i++) { total += i; *asked = omp_get_num_threads(); }
    return total;
}
"""
needs_compiler = pytest.mark.skipif(
    sys.platform != "linux" or not any(map(shutil.which, ("gcc", "cc"))), reason="no C compiler on Linux"
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SEQLOOM_NATIVE", raising=False)
    monkeypatch.delenv("CC", raising=False)
    native.forget()
    yield
    native.forget()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "sum.c"
    path.write_text(SUM)
    return path


def libraries(tmp_path: Path) -> list[Path]:
    """All that is in the cache: nothing half-written is left there."""
    folder = tmp_path / "cache" / "native"
    assert all(each.suffix == ".so" for each in folder.iterdir())
    return sorted(folder.iterdir())


def summed(library: ctypes.CDLL | None, threads: int = 1, n: int = 1000) -> tuple[int, int]:
    assert library is not None
    library.sum.restype, library.sum.argtypes = ctypes.c_long, (ctypes.c_int, ctypes.c_long, ctypes.c_void_p)
    asked = ctypes.c_int()
    return library.sum(threads, n, ctypes.byref(asked)), asked.value


@pytest.mark.slow
@needs_compiler
def test_compiled_once_and_reported_once(source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert summed(native.library(source)) == (499_500, 1)
    output = capfd.readouterr().err
    assert output.startswith("seqloom: compiled sum.c for this CPU in ")
    assert output.endswith("SEQLOOM_NATIVE=0 turns native code off\n")
    assert output.count("\n") == 1
    assert native.library(source) is native.library(source)
    assert native.why(source) == ""
    (before,) = libraries(tmp_path)
    kept_at = before.stat().st_mtime_ns
    native.forget()  # as another process would
    assert summed(native.library(source)) == (499_500, 1)
    assert capfd.readouterr().err == ""
    assert [library.stat().st_mtime_ns for library in libraries(tmp_path)] == [kept_at]


@pytest.mark.slow
@needs_compiler
def test_as_many_at_once_as_there_are_cores(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    others = [tmp_path / name for name in ("bad.c", "good.c", "late.c")]
    for other in others:
        other.write_text("int" if other.name == "bad.c" else SUM)
    monkeypatch.setattr(loaded, "OPS", tmp_path)
    monkeypatch.setattr(loaded, "_needed", {each: set() for each in (source, *others)})
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2})
    assert summed(native.library(source)) == (499_500, 1)
    assert capfd.readouterr().err.startswith("seqloom: compiled sum.c, good.c for this CPU in ")
    assert [path.stem.partition("-")[0] for path in libraries(tmp_path)] == ["good", "sum"]
    assert "error" in native.why(others[0])


def openmp_runtimes() -> set[str]:
    """Those that are loaded in this process; packages may bring one of their own."""
    mapped = [Path(line.split()[-1]) for line in Path("/proc/self/maps").read_text().splitlines()]
    return {str(path) for path in mapped if path.name.startswith(("libgomp", "libomp"))}


@pytest.mark.slow
@needs_compiler
def test_torchs_own_openmp_and_its_threads(source: Path) -> None:
    before = openmp_runtimes()
    assert summed(native.library(source), threads=2)[1] == 2
    assert summed(native.library(source), threads=1)[1] == 1
    runtime = str(openmp.runtime())
    assert runtime in openmp_runtimes()
    assert openmp_runtimes() - before <= {runtime}


def test_threads_as_torch_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.get_num_threads", lambda: 4)
    assert [native.threads(n) for n in (0, 40_000, 70_000, 10**9)] == [1, 1, 2, 4]


def without_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


def turned_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SEQLOOM_NATIVE", "0")


def named_compiler_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", "no-such-cc -m64")


def broken_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "sum.c").write_text("long sum(void) { return nothing; }")


def missing_function(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "sum.c").write_text("long other(void); long sum(void) { return other(); }")


def cache_is_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")


def cache_is_nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", "/proc/nowhere")


def slow_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "slow-cc"
    script.write_text("#!/bin/sh\nsleep 60\n")
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    monkeypatch.setattr(compiler, "LIMIT", 0.2)


def no_runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(compiler, "runtime", lambda: None)


def no_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def homeless(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", homeless)


def open_quote(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", "gcc '")


def scripted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lines: str) -> None:
    script = tmp_path / "odd-cc"
    script.write_text(f"#!/bin/sh\n{lines}\n")
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))


def no_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scripted(monkeypatch, tmp_path, "exit 0")


REASONS = [
    (no_library, "the compiler made no library"),
    (without_compiler, "no C compiler"),
    (turned_off, "SEQLOOM_NATIVE=0"),
    (named_compiler_is_missing, "no C compiler 'no-such-cc' (the environment's CC)"),
    (broken_source, "error: 'nothing' undeclared"),
    (missing_function, "undefined reference to `other'"),
    (cache_is_a_file, "cache/native is not writable (Not a directory)"),
    (cache_is_nowhere, "the cache /proc/nowhere/native is not writable"),
    (no_home, "there is no home folder for the cache"),
    (open_quote, """CC is no command: "gcc '" (no closing quotation)"""),
    (slow_compiler, "slow-cc took longer than"),
    (no_runtime, "torch's OpenMP is not found"),
]


@needs_compiler
@pytest.mark.parametrize(("spoil", "message"), REASONS, ids=[spoil.__name__ for spoil, _ in REASONS])
def test_without_a_compiler_there_is_a_reason(
    spoil,
    message: str,
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    spoil(monkeypatch, tmp_path)
    assert native.library(source) is None
    assert message in native.why(source)
    assert "\n" not in native.why(source)
    err = capfd.readouterr().err
    if message == "SEQLOOM_NATIVE=0":
        assert err == "", "it was asked for"
    else:
        assert err.startswith("seqloom: the portable code runs, as there is no native code: ")
        assert message in err
        assert err.count("\n") == 1
    if (tmp_path / "cache" / "native").is_dir():
        assert libraries(tmp_path) == []


@pytest.mark.slow
@needs_compiler
def test_what_a_library_is_made_of_is_in_its_name(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = compiler.find()
    keys = {compiler.key(source, command), compiler.key(source, [*command, "-g"])}
    monkeypatch.setattr(compiler, "_cpu", lambda: "another CPU")
    keys.add(compiler.key(source, command))
    monkeypatch.setattr(compiler, "_run", lambda _: "another version")
    keys.add(compiler.key(source, command))
    monkeypatch.setattr(compiler, "FLAGS", ("-O0",))
    keys.add(compiler.key(source, command))
    source.write_text(SUM + "\n")
    keys.add(compiler.key(source, command))
    assert len(keys) == 6


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"SEQLOOM_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a/native"),
        ({"SEQLOOM_CACHE": "", "XDG_CACHE_HOME": "/b"}, "/b/seqloom/native"),
        ({"SEQLOOM_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "/c"}, "/c/.cache/seqloom/native"),
    ],
)
def test_where_the_cache_is(variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert store.folder() == Path(expected)


@pytest.mark.slow
@needs_compiler
def test_a_changed_source_is_compiled_again(source: Path, tmp_path: Path) -> None:
    native.library(source)
    source.write_text(SUM.replace("total += i", "total += 2 * i"))
    native.forget()
    assert summed(native.library(source))[0] == 999_000
    assert len(libraries(tmp_path)) == 2


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def emptied(data: bytes) -> bytes:
    return b""


def changed(data: bytes) -> bytes:
    return data[:5000] + bytes([data[5000] ^ 1]) + data[5001:]


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("spoil", [cut, emptied, changed])
def test_a_corrupt_library_is_built_again(spoil, source: Path, tmp_path: Path) -> None:
    compiled = compiler.find()
    path = store.folder() / f"sum-{compiler.key(source, compiled)[:32]}.so"
    store.save(path, lambda part: compiler.compile_to(part, source, compiled))
    sound = path.read_bytes()
    path.unlink()  # the file that is loaded must not change under the loader
    path.write_bytes(spoil(sound))
    assert summed(native.library(source)) == (499_500, 1)
    assert libraries(tmp_path) == [path]
    assert store.load(path) is not None


@pytest.mark.slow
@needs_compiler
def test_a_library_that_others_may_change_is_not_loaded(source: Path, tmp_path: Path) -> None:
    native.library(source)
    (path,) = libraries(tmp_path)
    path.chmod(0o722)
    assert store.load(path) is None


@pytest.mark.slow
@needs_compiler
def test_a_library_without_the_functions_that_are_called(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, tmp_path, 'exec gcc -Dsum=other "$@"')
    assert native.library(source) is not None
    with pytest.raises(ValueError, match="the backend native of total is not available here: its library lacks sum"):
        native.size("total", source, "sum", 1)
    NativeFunction("total", source, "sum", "n", Argument("y", "n", torch.int64))
    native.forget()
    assert native.library(source) is None
    assert native.why(source) == f"{tmp_path / 'odd-cc'} made a library of sum.c that lacks sum"


@needs_compiler
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777 | stat.S_ISVTX])
def test_a_folder_that_others_may_change_is_neither_read_nor_written(mode: int, source: Path, tmp_path: Path) -> None:
    native.library(source)
    (path,) = libraries(tmp_path)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    path.parent.chmod(mode)
    native.forget()
    assert native.library(source) is None
    assert native.why(source) == (
        f"other users can write into the cache {path.parent}: chmod 700 it, or SEQLOOM_CACHE may name another"
    )
    with pytest.raises(Unavailable, match="other users can write into the cache"):
        store.save(path.with_name("new.so"), lambda part: part.write_bytes(b"code") and None)
    assert libraries(tmp_path) == [path]


@needs_compiler
def test_a_folder_of_another_user_is_not_used(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    native.library(source)
    native.forget()
    monkeypatch.setattr(store, "_TRUSTED", (0xBEEF,))
    assert native.library(source) is None
    assert "/cache/native belongs to another user: SEQLOOM_CACHE may name another" in native.why(source)


@needs_compiler
def test_a_folder_that_is_a_link_is_not_used(source: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/native").symlink_to(tmp_path / "mine")
    assert native.library(source) is None
    assert "/cache/native is a link" in native.why(source)
    assert list((tmp_path / "mine").iterdir()) == []


@needs_compiler
@pytest.mark.parametrize("odd", ["link", "fifo"])
def test_a_library_that_is_no_file_is_built_again(odd: str, source: Path, tmp_path: Path) -> None:
    native.library(source)
    (path,) = libraries(tmp_path)
    path.rename(tmp_path / "moved.so")
    if odd == "link":
        path.symlink_to(tmp_path / "moved.so")
    else:
        os.mkfifo(path)
    assert store.load(path) is None
    native.forget()
    assert summed(native.library(source)) == (499_500, 1)
    assert not path.is_symlink()


@pytest.mark.slow
@needs_compiler
def test_a_folder_that_is_exchanged_after_the_check_is_not_read(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    native.library(source)
    (path,) = libraries(tmp_path)
    other = tmp_path / "other.c"
    other.write_text(SUM.replace("total += i", "total -= i"))
    store.save(tmp_path / "hostile/native" / path.name, lambda part: compiler.compile_to(part, other, compiler.find()))
    read = store._content

    def exchanged(name: str, folder: int) -> bytes | None:
        content = read(name, folder)
        (tmp_path / "cache").rename(tmp_path / "away")
        (tmp_path / "hostile").rename(tmp_path / "cache")
        return content

    monkeypatch.setattr(store, "_content", exchanged)
    assert summed(store.load(path)) == (499_500, 1)


@pytest.mark.slow
@needs_compiler
def test_threads_of_one_process_share_one_library(source: Path, capfd: pytest.CaptureFixture[str]) -> None:
    result: list[ctypes.CDLL | None] = []
    together = [threading.Thread(target=lambda: result.append(native.library(source))) for _ in range(4)]
    for each in together:
        each.start()
    for each in together:
        each.join()
    assert len({id(each) for each in result}) == 1
    assert capfd.readouterr().err.count("compiled") == 1


def forked(work: Callable[[], bool]) -> int:
    """Starts a child that ends with 0 if `work` is true, and is ended if it hangs."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(60)
            status = 0 if work() else 2
        finally:
            os._exit(status)
    return child


@pytest.mark.slow
@needs_compiler
def test_two_processes_at_once(source: Path, tmp_path: Path) -> None:
    read, write = os.pipe()

    def work() -> bool:
        os.read(read, 1)
        return summed(native.library(source)) == (499_500, 1)

    children = [forked(work) for _ in range(2)]
    os.write(write, b"gogo")
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    os.close(read)
    os.close(write)
    assert len(libraries(tmp_path)) == 1


@pytest.mark.slow
@needs_compiler
def test_a_forked_process_neither_hangs_nor_waits_for_a_lock(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    assert summed(native.library(source), native.threads(10**9))[1] == 2  # GNU's pool of threads is there now
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with loaded._lock:
            held.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(60)

    def work() -> bool:
        native.forget()
        return summed(native.library(source), native.threads(10**9)) == (499_500, 1)

    child = forked(work)
    done.set()
    holder.join()
    assert os.waitpid(child, 0)[1] == 0
    assert native.threads(10**9) == 2
