"""docs/systems.md: each system of the source texts, what it is here, and a command that shows it."""

import re
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[1] / "systems.md"
PLACE = re.compile(r"(?<=<!-- systems -->\n).*?(?=<!-- end -->)", re.S)


class System(NamedTuple):
    """A system that the texts describe."""

    name: str
    texts: str
    """the source texts, by their last digit"""
    command: str
    """what a user types to see it work"""


def mixer(name: str, texts: str, kind: str) -> System:
    """A system that is a mixer: its promises are checked."""
    return System(name, texts, f"seqloom verify {kind}")


def train(name: str, texts: str, words: str) -> System:
    """A system that is trained."""
    return System(name, texts, f"seqloom train {words}")


GROUPS: dict[str, tuple[System, ...]] = {
    "The Extractor paper": (
        mixer("SHE", "0, 3", "she"),
        mixer("HE", "0, 3", "he"),
        mixer("WE", "0, 3", "we"),
        mixer("ME", "0, 3", "me"),
        mixer("extraction alone", "0", "he_extraction"),
        mixer("1/√t before the adjustment", "0", "extractor --set scale=rsqrt_position"),
        train("pre-norm decoder", "0, 3", "paper/small"),
        System("operations and critical path", "0, 3", "seqloom cost paper/table1"),
        train("Markov chains of variable order", "0, 3", "ngram/context_tree"),
        System("top-k and top-p sampling", "0, 3", "seqloom generate RUN --top-k 40 --top-p 0.9"),
    ),
    "Transformer and positions": (
        mixer("scaled dot-product attention", "1, 2, 4", "attention --set heads=1"),
        mixer("several heads", "0, 2, 4", "attention --set heads=4"),
        mixer("additive attention", "0, 4", "additive"),
        train("encoder-decoder", "2, 4", "seq2seq/vaswani"),
        train("encoder alone, masked tokens", "2", "bert/small"),
        train("sinusoidal positions", "2, 4", "tiny --set model.position=sinusoidal"),
        train("learned positions, also of each layer", "0, 2", "tiny --set model.position=learned_each_layer"),
        train(
            "relative positions of Shaw et al.", "2", "tiny --set model.mixer.kind=attention --set model.position=shaw"
        ),
        train(
            "Transformer-XL's relative attention",
            "2",
            "tiny --set model.mixer.kind=attention --set model.position=transformer_xl",
        ),
        train("rotary positions", "2", "tiny --set model.mixer.kind=attention --set model.position=rotary"),
        train("xPos", "1", "tiny --set model.mixer.kind=attention --set model.position=xpos"),
        train("biases of T5", "2", "tiny --set model.mixer.kind=attention --set model.position=t5"),
        train("ALiBi", "2", "tiny --set model.mixer.kind=attention --set model.position=alibi"),
        train("DA-Transformer", "2", "tiny --set model.mixer.kind=attention --set model.position=da"),
    ),
    "Memory, adaptive computation, actions": (
        train("Transformer-XL's memory", "2", "transformer_xl/small"),
        train("Compressive Transformer", "2", "compressive/small"),
        System("kNN-LM", "2", "seqloom knn build RUN --data TEXT --out STORE"),
        train("SPALM", "2", "spalm/small"),
        mixer("Memorizing Transformer", "2", "memorizing"),
        train("Universal Transformer", "2", "universal/small"),
        train("adaptive computation time", "2", "universal/small --set model.halt=true"),
        mixer("adaptive span", "2", "adaptive_span"),
        System("Depth-Adaptive Transformer", "2", "seqloom study exits RUN --data TEXT"),
        System("CALM", "2", "seqloom study calibrate RUN --data TEXT --delta 0.1"),
        train("GTrXL", "2", "decision/maze --set model.residual=gru"),
        train("Decision Transformer", "2", "decision/cartpole"),
    ),
    "Sparse, by content, of low rank, by kernels": (
        train("Image Transformer", "2", "pictures/small --set model.mixer.kind=image"),
        System("Sparse Transformer", "2", "seqloom study pictures sparse:length=16 longformer:window=32"),
        mixer("Blockwise attention", "2", "blockwise"),
        mixer("ETC", "2", "etc"),
        mixer("Longformer", "2", "longformer"),
        mixer("BigBird", "2", "bigbird"),
        mixer("Reformer", "2, 4", "reformer"),
        train("reversible layers, chunks of the feed-forward network", "2, 4", "tiny --set model.sublayers=reversible"),
        mixer("Routing Transformer", "2", "routing"),
        train("Linformer", "2", "pictures/patches --set 'model.mixer={kind: linformer, k: 4}'"),
        mixer("random feature attention", "2", "rfa"),
        mixer("Performer", "1, 2, 4", "performer"),
        mixer("linear Transformer", "1", "linear"),
        mixer("Sinkhorn attention", "2", "sinkhorn"),
        mixer("Combiner", "0", "combiner"),
        train("FNet", "0", "pictures/patches --set model.mixer.kind=fnet"),
        train("MLP-Mixer", "0", "pictures/patches --set model.mixer.kind=mlp_mixer"),
        mixer("gMLP", "0", "gmlp"),
        mixer("lightweight and dynamic convolutions", "0", "dynamic_conv"),
        mixer("Hyena", "0", "hyena"),
        train("SPADE", "0", "paper/spade"),
        mixer("GSS", "0", "gss"),
        System("drafts of a small model (Big-Little)", "0", "seqloom generate RUN --draft SMALL"),
        mixer("active memory", "0", "active_memory"),
    ),
    "AFT, RWKV, RetNet": (
        mixer("AFT-full", "1, 4", "aft_full"),
        mixer("AFT-local", "1", "aft_local"),
        mixer("AFT-simple", "1", "aft_simple"),
        mixer("AFT-conv", "1", "aft_conv"),
        mixer("time mixing of RWKV-4", "1, 4", "rwkv"),
        train("channel mixing and token shift of RWKV-4", "4", "rwkv4/small"),
        train("RetNet", "1", "retnet/small"),
    ),
    "Recurrent networks, convolutions, state spaces": (
        mixer("Elman's network", "4", "rnn"),
        mixer("LSTM", "4", "lstm"),
        mixer("GRU", "2, 4", "gru"),
        train("TextCNN", "4", "classifier/textcnn --data labels.tsv"),
        System("word2vec and GloVe", "4", "seqloom data vectors TEXT --out vectors.bin"),
        mixer("continuous state space, HiPPO, discretization", "4", "ssm"),
        System("Kalman filter", "4", "seqloom study numbers --source numbers:linear:4"),
        mixer("LSSL", "4", "lssl"),
        mixer("S4", "4", "s4"),
        mixer("S4D", "4", "s4d"),
        train("S5, and numbers in place of tokens", "4", "regressor/small"),
        mixer("S6", "4", "s6"),
        train("Mamba", "4", "mamba/small"),
        System("the question before or after the text", "4", "seqloom study question"),
    ),
}
OUTSIDE = {
    "location-based, general (Luong) attention": "2 names them by a reference; additive and scaled ones are here",
    "non-local means": "2 names it by a reference; it is attention whose queries are keys",
    "ELIZA, SHRDLU": "4 mentions them as history",
}
"""what the texts name and seqloom leaves out, and why"""


def table() -> str:
    """The tables of the groups, and what is left out."""
    parts = []
    for title, systems in GROUPS.items():
        rows = [f"| {system.name} | {system.texts} | `{system.command}` |" for system in systems]
        parts.append("\n".join([f"### {title}", "", "| system | texts | command |", "|---|---|---|", *rows]))
    left_out = [f"| {name} | {reason} |" for name, reason in OUTSIDE.items()]
    parts.append("\n".join(["### Left out", "", "| system | reason |", "|---|---|", *left_out]))
    return "\n\n".join(parts) + "\n"


def page() -> str:
    """The page with its tables."""
    return PLACE.sub(lambda _: table(), PAGE.read_text(encoding="utf-8"))


def write() -> None:
    """Writes the page."""
    PAGE.write_text(page(), encoding="utf-8")
