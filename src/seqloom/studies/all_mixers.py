"""Every mixer of the registry as a contender, and which of them fit the size of a comparison.

    everyone(["mamba:state_dim=4"])         all kinds with their defaults, attention with 32 heads, and the named ones
    fitting(contenders, "paper/small", [])  the contenders that can be built, and for each other one the reason

Nothing is trained here: mixers are built on the meta device, where weights have sizes but take no memory.
"""

from collections.abc import Sequence

from seqloom.core.device import choose_device
from seqloom.core.error_text import reason
from seqloom.mixers import kinds
from seqloom.studies.candidates import Candidate, parse_candidate
from seqloom.training.config import RunConfig
from seqloom.training.memory import require_room
from seqloom.training.settings import resolve

HEADS = 32
"""heads of the attention that the Extractor paper compares with"""


def all_mixers(named: Sequence[str] = ()) -> list[Candidate]:
    """A contender for each causal kind, for attention with `HEADS` heads, and for each MIXER in `named`.

    A kind has the defaults of its class, not those of a preset.
    """
    causal = [kind for kind, config in kinds().items() if config.traits.causal != "never"]
    contenders = {kind: Candidate(kind, (f"model.mixer={{kind: {kind}}}",)) for kind in causal}
    heads = kinds()["attention"].model_fields["heads"].default
    for text in [*([f"attention:heads={HEADS}"] if heads != HEADS else []), *named]:
        contenders.setdefault(parse_candidate(text).name, parse_candidate(text))
    return list(contenders.values())


def fitting(
    contenders: Sequence[Candidate],
    preset: str,
    changes: Sequence[str],
    source: str | None = None,
    named: Sequence[str] = (),
) -> tuple[list[Candidate], dict[str, str]]:
    """The contenders whose models can be built and trained at this size, and by name why the others cannot.

    ValueError where none can, or where one of the `named` (the MIXERs that the user asked for) cannot.
    """
    required = {parse_candidate(text).name for text in named}
    foreign = {kind for kind, config in kinds().items() if not config.__module__.startswith("seqloom.")}
    fit = []
    left_out = {}
    for candidate in contenders:
        try:
            config: RunConfig = resolve(preset, [*changes, *candidate.changes], source)
            require_room(config.model, choose_device(config.training.device), config.training)
        except ValueError as error:
            if candidate.name in required:
                raise
            left_out[candidate.name] = str(error)
        except (Exception, SystemExit) as error:
            if candidate.name in required or candidate.name not in foreign:
                raise
            left_out[candidate.name] = reason(error)  # of the mixer's own code
        else:
            fit.append(candidate)
    if not fit:
        raise ValueError(next(iter(left_out.values()), "there is no contender"))
    return fit, left_out
