"""One equation a file: everything that lets one token read another. A new mixer is one file and one name below.

Whoever asks for mixers by name asks here, so that they are registered by then.
"""

from seqloom.core.mixer import kinds, mixer_config
from seqloom.mixers import attention, extractors

__all__ = ["attention", "extractors", "kinds", "mixer_config"]
