"""Probes: small synthetic tasks that test one ability each, with a difficulty from 1 to 15 and a known optimum.

probe("mqar", 3).questions(seed=0, step=0, rows=64)          deterministic: the same rows on every machine
"""

from seqloom.core.config import read, suggestion
from seqloom.data.probes.compression import Compression
from seqloom.data.probes.copying import Copying
from seqloom.data.probes.induction import Induction
from seqloom.data.probes.lookup import Lookup
from seqloom.data.probes.mqar import MQAR
from seqloom.data.probes.needle import Needle
from seqloom.data.probes.parity import Parity
from seqloom.data.probes.permutations import Permutations, Swaps
from seqloom.data.probes.probe import HELD_OUT, Probe, Questions
from seqloom.data.probes.selective_copying import SelectiveCopying

__all__ = ["HARDEST", "HELD_OUT", "PROBES", "Probe", "Questions", "probe"]

PROBES: dict[str, type[Probe]] = {
    kind.name: kind
    for kind in (MQAR, Induction, Copying, SelectiveCopying, Parity, Permutations, Swaps, Compression, Needle, Lookup)
}
HARDEST = 15
"""the highest difficulty; beyond it rows would be too long to train on"""


def probe(text: str, difficulty: int = 1) -> Probe:
    """The probe `NAME` or `NAME:SETTING=NUMBER,…` (such as `mqar:pairs=8`); `difficulty` sets all other settings.

    ValueError, in one line, for unknown names, a difficulty outside 1 … HARDEST, and settings that do not fit.
    """
    name, _, settings_text = text.partition(":")
    if name not in PROBES:
        raise ValueError(f"unknown probe {name!r}; {suggestion(name, PROBES)}")
    if not 1 <= difficulty <= HARDEST:
        raise ValueError(f"the difficulty of a probe is 1 … {HARDEST}, not {difficulty}")
    settings: dict[str, int] = PROBES[name].at(difficulty)
    for change in settings_text.split(",") if settings_text else ():
        setting, sign, number = change.partition("=")
        if not sign or not number.isdecimal():
            raise ValueError(f"a probe is NAME or NAME:SETTING=NUMBER,…, as mqar:pairs=8, not {text!r}")
        settings[setting] = int(number)
    try:
        result: Probe = read(PROBES[name], settings)
    except ValueError as error:
        raise ValueError(f"probe {text} at difficulty {difficulty}: {error}") from None
    return result
