"""Which backend of the lag sum is the fastest at which size: what `seqloom.ops.lag_sum.by_size` chooses by."""

import torch
from harness import append, compare, gate

from seqloom.ops.backends import use
from seqloom.ops.lag_sum import lags
from seqloom.training.memory import keep_freed_memory

TRAIN = ((64, 8, 128), (64, 16, 128), (64, 32, 128), (32, 64, 64), (64, 128, 128), (16, 256, 128), (16, 512, 256))
READ = ((1, 32, 128), (4, 32, 128), (1, 128, 128), (2, 128, 128), (4, 128, 128), (16, 128, 128), (1, 1024, 128))


def run(backend, x, w, dy):
    def once():
        with use(lag_sum=backend), torch.set_grad_enabled(dy is not None):
            y = lags(x, w)
        if dy is not None:
            torch.autograd.grad(y, (x, w), dy)

    return once


def main() -> None:
    gate("tests/ops/test_lag_sum.py")
    keep_freed_memory()
    for sizes, training in ((TRAIN, True), (READ, False)):
        for B, T, D in sizes:
            for taps, shape in (("matrices", (T, D, D)), ("vectors", (T, D)), ("numbers", (T,))):
                if taps == "matrices" and T > 128:
                    continue
                x, dy = torch.randn(B, T, D, requires_grad=True), torch.randn(B, T, D) if training else None
                w = (torch.randn(*shape) * 0.1).requires_grad_()
                backends = ["fft", *(["direct"] if T <= 128 else []), *(["toeplitz"] if taps == "numbers" else [])]
                row = {"B": B, "T": T, "D": D, "taps": taps, "what": "forward and backward" if training else "forward"}
                runs = {name: run(name, x, w, dy) for name in backends}
                append("lag_sum", [{**row, **compare(runs, peer="fft")}])


if __name__ == "__main__":
    main()
