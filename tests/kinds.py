"""The registered mixers by their traits."""

import pytest

from seqloom.mixers import kinds

CAUSAL = [kind for kind, config in kinds().items() if config.traits.causal != "never"]
"""those that a decoder can have"""

FORMS = [
    pytest.param(kind, causal, id=kind if causal else f"{kind}-bidirectional")
    for kind, config in kinds().items()
    for causal, absent in ((True, "never"), (False, "always"))
    if config.traits.causal != absent
]
"""every kind in each of its forms: (kind, whether it is causal)"""
