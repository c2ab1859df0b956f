"""The command line. An error of the user's is one line and exit code 2; `--debug` shows where it came from."""

import os
import sys

__all__ = ["run"]


def run() -> None:
    """Runs `seqloom` with the arguments of the process, and ends the process with the command's exit code."""
    arguments = sys.argv[1:]
    debug = "--debug" in arguments[: arguments.index("--") if "--" in arguments else None]
    sys.exit(command([word for word in arguments if word != "--debug"] if debug else arguments, debug))


def command(arguments: list[str], debug: bool = False) -> int:
    """Runs one command and returns its exit code: 0, 2 for bad input, 128 + the signal that stopped it."""
    import typer

    from seqloom.cli.app import app

    usage: tuple[type[Exception], ...] = (typer.BadParameter.__mro__[1],)  # its UsageError, which typer keeps private
    try:
        code = app(arguments, prog_name="seqloom", standalone_mode=False)
    except usage as error:
        return _refuse(error, getattr(error, "format_message", error.__str__)(), debug)
    except OSError as error:  # the system's own messages begin with a number that says nothing
        why = error.strerror or str(error)
        return _refuse(error, f"{error.filename}: {why}" if error.filename else why, debug)
    except ValueError as error:
        return _refuse(error, str(error), debug)
    except typer.Exit as leave:
        return int(leave.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        print("stopped", file=sys.stderr)
        return 130
    return code if isinstance(code, int) else 0


def _refuse(error: Exception, why: str, debug: bool) -> int:
    if isinstance(error, BrokenPipeError):  # the reader of our output left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if debug:
        raise error
    if why.strip():  # `seqloom` alone has shown its help, and has nothing to add
        print(f"seqloom: {' '.join(why.split())}", file=sys.stderr)
    return 2
