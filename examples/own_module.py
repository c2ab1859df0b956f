"""A mixer of seqloom inside your own nn.Module: replace self-attention in one line, and train.

python examples/own_module.py [MIXER]          default: he; `seqloom list` has the names
"""

import sys

import torch
from torch import Tensor, nn

import seqloom


class Block(nn.Module):
    """A pre-norm Transformer layer of your own; `keep` (B, T) is False for padding."""

    def __init__(self, kind: str, dim: int, context: int) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(dim)
        self.norm_2 = nn.LayerNorm(dim)
        self.mixer = seqloom.mixer(kind, dim=dim, context=context)  # in place of nn.MultiheadAttention
        self.ffn = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        x = x + self.mixer(self.norm_1(x), keep)
        return x + self.ffn(self.norm_2(x))


def main(kind: str = "he", steps: int = 100) -> float:
    """Learns to write out the tokens of the row one step late; returns the last loss in nats per token."""
    torch.manual_seed(0)
    vocab, dim, context = 16, 32, 24
    model = nn.ModuleList([nn.Embedding(vocab, dim), Block(kind, dim, context), nn.Linear(dim, vocab)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    embed, block, head = model
    for step in range(steps):
        ids = torch.randint(vocab, (16, context))
        logits = head(block(embed(ids)))
        loss = nn.functional.cross_entropy(logits[:, 1:].flatten(0, 1), ids[:, :-1].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0 or step == steps - 1:
            print(f"{kind}: step {step:3d}, loss {float(loss.detach()):.3f}")
    return float(loss.detach())


if __name__ == "__main__":
    main(*sys.argv[1:])
