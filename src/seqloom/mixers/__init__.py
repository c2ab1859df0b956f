"""One equation per file, in folders by family. A new mixer is one file and one name below.

A mixer's file is imported, and registers its kind, when the kind is asked for; a list of all kinds has them in the
order below. Those of other installed packages are registered after them (`plugins`).
"""

from seqloom.core import mixer_config as registry
from seqloom.core.mixer_config import MixerConfig, find, mixer_config
from seqloom.mixers.plugins import load_plugins

__all__ = ["FAMILIES", "find", "kinds", "mixer_config"]

FAMILIES = {
    "attention": (
        "attention",
        "image",
        "sparse",
        "blockwise",
        "etc",
        "longformer",
        "bigbird",
        "mla",
        "fox",
        "memorizing",
        "differential",
        "reformer",
        "additive",
        "routing",
        "sinkhorn",
        "transformer_xl",
        "compressive",
        "adaptive_span",
        "combiner",
    ),
    "extractors": ("extractors", "modal_extractor"),
    "linear": (
        *("linear", "performer", "rfa", "retention", "gla", "hgrn2"),
        *("delta", "gated_delta", "deltaproduct", "kda", "gated_delta2", "rwkv7"),
    ),
    "aft": ("aft_full", "aft_local", "aft_conv", "aft_simple", "rwkv"),
    "recurrent": ("elman", "lstm", "gru", "mlstm", "rglru", "both_ways", "slstm"),
    "state_space": ("ssm", "lssl", "s4", "s4d", "s5", "gss", "s6", "mamba", "mamba2", "spade"),
    "convolution": ("lightweight_conv", "dynamic_conv", "hyena", "active_memory"),
    "fixed": ("identity", "fnet", "linformer", "mlp_mixer", "gmlp"),
}
"""the files of each family"""

KINDS = {"extractors": ("she", "he", "we", "me", "he_extraction", "extractor"), "elman": ("rnn",)}
"""the kinds that a file registers, where these are others than its name"""

registry.declare(
    {
        kind: f"{__name__}.{family}.{file}"
        for family, files in FAMILIES.items()
        for file in files
        for kind in KINDS.get(file, (file,))
    }
)
registry.search_by(load_plugins)


def find_layer(name: str) -> type[MixerConfig]:
    """The settings of a layer by its name, `module:Layer`. ValueError, in one line, where there is none."""
    from seqloom.mixers.layer_kind import layer_kind  # which imports all ops for prices, and our mixers need none

    return layer_kind(name)


registry.find_objects_by(find_layer)


def kinds() -> dict[str, type[MixerConfig]]:
    """Every kind of mixer by name: ours in the order above, then those of installed packages."""
    load_plugins()
    return registry.kinds()
