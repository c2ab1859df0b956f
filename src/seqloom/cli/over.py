"""Whether the time of `--minutes` is over. Loads little, so that an interrupted import can ask."""

from threading import Event

AGAIN = 75
"""the exit code where the time was over and something is left to do: that of sysexits.h for "try again" """
OVER = Event()
"""set when the command's time is over, and cleared when a command begins"""
