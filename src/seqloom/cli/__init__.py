"""The command line. An error of the user's is one line and exit code 2; `--debug` shows where it came from.

`--try-anyway` skips the check that the available memory is enough. Ctrl-C ends any command
with exit code 130 and no traceback, whatever it is doing.
"""

import os
import signal
import sys
from contextlib import ExitStack
from functools import cache
from types import FrameType
from typing import Any

from seqloom.cli.over import AGAIN, OVER

__all__ = ["run"]

STOPPED = 130
NO_MEMORY = "there is not enough memory for these sizes: choose smaller ones"
FLAGS = ("--debug", "--try-anyway")


def run() -> None:
    """Runs `seqloom` with the arguments of the process, and ends the process with the command's exit code."""
    signal.signal(signal.SIGINT, _interrupt)
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    flags = {word for word in words[:end] if word in FLAGS}
    arguments = [word for word in words[:end] if word not in FLAGS] + words[end:]
    try:
        code = command(arguments, "--debug" in flags, "--try-anyway" in flags)
    finally:
        signal.signal(signal.SIGINT, _leave)  # everything is saved, and Python's own shutdown takes a while
    sys.exit(code)


def command(arguments: list[str], debug: bool = False, try_anyway: bool = False) -> int:
    """Runs one command and returns its exit code: 0, 2 for bad input, 128 + the signal that stopped it.

    75 where the time of `--minutes` stopped it.
    """
    OVER.clear()
    try:
        with ExitStack() as stack:
            if try_anyway:
                from seqloom.core.available_memory import skip_check

                stack.enter_context(skip_check())
            return _command(arguments, debug)
    except KeyboardInterrupt:
        reason, code = _stop_of()
        print(reason, file=sys.stderr)
        return code


def _command(arguments: list[str], debug: bool) -> int:
    """Runs one command; prints a user's error in one line and returns its exit code, 2."""
    import typer

    usage_error: type[Exception] = typer.BadParameter.__mro__[1]  # its UsageError, which typer keeps private
    try:
        program = _program()
        with program.make_context("seqloom", list(arguments)) as context:
            code = program.invoke(context)
    except typer.Exit as leave:
        return int(leave.exit_code)
    except typer.Abort:  # typer's exception for Ctrl-C
        raise KeyboardInterrupt from None
    except BrokenPipeError:  # the reader of our output closed it, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if isinstance(error, usage_error):
            message = getattr(error, "format_message", error.__str__)()
        else:
            message = _message(error)
        if message is None or debug:
            raise
        if message.strip():  # it is empty after `seqloom` alone, which has shown its help
            from seqloom.core.launch import name_rank, report_failure

            line = f"seqloom: {name_rank(' '.join(message.split()), error)}"
            print(line, file=sys.stderr)
            report_failure(line)
        return 2
    return code if isinstance(code, int) else 0


@cache
def _program() -> Any:
    """The commands and their options, built once; not `app(…)`, which turns Ctrl-C into a bare exit code."""
    import typer.main

    from seqloom.cli.app import app

    return typer.main.get_command(app)


def _message(error: Exception) -> str | None:
    """The message of a user's error in one line; None for a fault of our own."""
    match error:
        case OSError():  # without the error number that the system's messages begin with
            reason = error.strerror or str(error)
            return f"{error.filename}: {reason}" if error.filename else reason
        case ValueError():
            return str(error)
        case OverflowError():
            return f"a number is too large ({error})"
        case RecursionError():
            return "a file is nested too deeply to be read"
    return NO_MEMORY if _of_memory(error) else None


def _of_memory(error: Exception) -> bool:
    """Whether memory ran out: Python's error, torch's of the CPU, or torch's of a GPU."""
    from_torch = "can't allocate memory" in str(error) or type(error).__name__ == "OutOfMemoryError"
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and from_torch)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Handles Ctrl-C: raises an exception, so that the command cleans up; ends the process during an import."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _leave(number, frame)
        frame = frame.f_back
    raise KeyboardInterrupt


def _leave(number: int, frame: FrameType | None) -> None:
    """Handles Ctrl-C during an import and while Python shuts down: ends the process at once."""
    reason, code = _stop_of()
    os.write(2, f"{reason}\n".encode())
    os._exit(code)


def _stop_of() -> tuple[str, int]:
    """What an interrupted command says, and its exit code: the time of `--minutes` interrupts as Ctrl-C does."""
    return ("the minutes are over; the same command continues", AGAIN) if OVER.is_set() else ("stopped", STOPPED)
