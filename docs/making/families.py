"""The families of mixers on the site and in docs/mixers/README.md."""

from collections.abc import Iterable

FAMILIES = {
    "Attention": (
        *("attention", "mla", "fox", "differential", "additive"),
        *("transformer_xl", "compressive", "adaptive_span", "combiner"),
    ),
    "Sparse attention": ("image", "sparse", "blockwise", "etc", "longformer", "bigbird"),
    "Chosen by content": ("reformer", "routing", "sinkhorn", "memorizing"),
    "Extractors": ("she", "he", "we", "me", "he_extraction", "extractor", "modal_extractor"),
    "Linear attention": (
        *("linear", "performer", "rfa", "retention", "gla", "hgrn2"),
        *("delta", "gated_delta", "deltaproduct", "kda", "gated_delta2", "rwkv7"),
    ),
    "Attention without queries": ("aft_full", "aft_local", "aft_conv", "aft_simple", "rwkv"),
    "Recurrent networks": ("rnn", "lstm", "gru", "mlstm", "slstm", "rglru", "both_ways"),
    "State spaces": ("ssm", "lssl", "s4", "s4d", "s5", "gss", "s6", "mamba", "mamba2"),
    "Convolutions": ("lightweight_conv", "dynamic_conv", "hyena", "active_memory"),
    "Two side by side": ("spade",),
    "Fixed": ("identity", "fnet", "linformer", "mlp_mixer", "gmlp"),
}
OTHERS = "Others"
"""the family of mixers that are not listed above; a new mixer need not be"""


def families(kinds: Iterable[str]) -> dict[str, list[str]]:
    """The kinds of each family, in the order above; families without any are left out."""
    left = dict.fromkeys(kinds)
    members_of = {name: [kind for kind in members if kind in left] for name, members in FAMILIES.items()}
    placed = {kind for members in members_of.values() for kind in members}
    members_of[OTHERS] = [kind for kind in left if kind not in placed]
    return {name: members for name, members in members_of.items() if members}
