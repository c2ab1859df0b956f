"""One equation per file, in folders by family. A new mixer is one file and one name below.

Who asks for mixers by name imports this package, so that they are registered by then, in the order of this list.
"""

from importlib import import_module

from seqloom.core.mixer import kinds, mixer_config

__all__ = ["FAMILIES", "kinds", "mixer_config"]

FAMILIES = {
    "attention": ("attention",),
    "extractors": ("extractors", "modal_extractor"),
    "linear": ("linear", "performer", "rfa", "retention"),
    "aft": ("aft_full", "aft_local", "aft_conv", "aft_simple", "rwkv"),
    "recurrent": ("elman", "lstm", "gru"),
    "state_space": ("ssm", "lssl", "s4", "s4d", "s5", "gss", "s6", "mamba", "spade"),
    "convolution": ("lightweight_conv", "dynamic_conv", "hyena"),
}
"""the files of each family"""

for _family, _files in FAMILIES.items():
    for _file in _files:
        import_module(f"{__name__}.{_family}.{_file}")
