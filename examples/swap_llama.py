"""Attention replaced in a Llama of transformers: `gated_delta` in every second layer, and the model trained on.

python examples/swap_llama.py [FOLDER]      a folder of a Llama; without one, a tiny Llama with random weights

The new layers begin with the projections of the attention that they replace, and write noise until they are trained.
"""

import sys

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

import seqloom

TINY = LlamaConfig(
    vocab_size=32, hidden_size=32, intermediate_size=64, num_hidden_layers=4, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64,
)  # fmt: skip


def main(folder: str = "", steps: int = 60) -> tuple[float, float]:
    """Trains on rows that count up from a random token; returns the loss before and after."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(folder) if folder else LlamaForCausalLM(TINY)
    layers = range(0, model.config.num_hidden_layers, 2)
    swapped = seqloom.swap(model, dict.fromkeys(layers, "gated_delta"))
    optimizer = torch.optim.AdamW(swapped.parameters(), lr=3e-3)
    losses = []
    for step in range(steps):
        first = torch.randint(swapped.config.vocab_size, (8, 1))
        ids = (first + torch.arange(24)) % swapped.config.vocab_size
        loss = swapped(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
        if step % 20 == 0 or step == steps - 1:
            print(f"step {step:3d}, loss {losses[-1]:.3f}")
    return losses[0], losses[-1]


if __name__ == "__main__":
    main(*sys.argv[1:])
