"""One equation a file: everything that lets one token read another. A new mixer is one file and one name below.

Whoever asks for mixers by name asks here, so that they are registered by then, in the order in which they are listed.
"""

from seqloom.core.mixer import kinds, mixer_config

# isort: off
from seqloom.mixers import attention, extractors, modal_extractor
from seqloom.mixers import linear, performer, rfa, retention
from seqloom.mixers import aft_full, aft_local, aft_conv, aft_simple, rwkv
from seqloom.mixers import elman, lstm, gru
from seqloom.mixers import ssm, lssl, s4, s4d, s5, gss, s6, mamba
from seqloom.mixers import lightweight_conv, dynamic_conv, hyena
from seqloom.mixers import spade
# isort: on

__all__ = [
    "aft_conv",
    "aft_full",
    "aft_local",
    "aft_simple",
    "attention",
    "dynamic_conv",
    "elman",
    "extractors",
    "gru",
    "gss",
    "hyena",
    "kinds",
    "lightweight_conv",
    "linear",
    "lssl",
    "lstm",
    "mamba",
    "mixer_config",
    "modal_extractor",
    "performer",
    "retention",
    "rfa",
    "rwkv",
    "s4",
    "s4d",
    "s5",
    "s6",
    "spade",
    "ssm",
]
