"""A text read whole, in pieces and token by token gives the same outputs; prints the bytes of each state.

python examples/streaming.py [MIXER …]
"""

import sys

import torch

import seqloom
from seqloom.core.state import nbytes


def main(*kinds: str, dim: int = 64, tokens: int = 200) -> dict[str, float]:
    """Prints one line per mixer; returns the largest difference between the three ways, by mixer."""
    differences = {}
    for kind in kinds or ("attention", "he", "rwkv", "mamba"):
        torch.manual_seed(0)
        mixer = seqloom.mixer(kind, dim=dim, context=tokens).eval()
        x = torch.randn(2, tokens, dim)
        with torch.no_grad():
            whole = mixer(x)
            first, state = mixer.extend(x[:, :150], mixer.start(batch=2))  # a prompt
            parts = [first]
            for t in range(150, tokens):  # then one token at a time
                y, state = mixer.step(x[:, t], state, reuse=True)
                parts.append(y[:, None])
        differences[kind] = float((torch.cat(parts, 1) - whole).abs().max())
        print(f"{kind}: streamed as whole up to {differences[kind]:.1e}; its state takes {nbytes(state):,} bytes")
    return differences


if __name__ == "__main__":
    main(*sys.argv[1:])
