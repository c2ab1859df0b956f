"""Runs every Triton kernel under Triton's interpreter, on examples of its op, and prints the name of each that ran.

Outputs and gradients are compared with the reference in double precision. It needs TRITON_INTERPRET=1.
"""

import torch
from triton.runtime.jit import KernelInterface

from seqloom.ops import backends
from tests.ops.test_registry import computed, computed_if_able

launched: set[str] = set()


def launch(kernel, grid):
    """What `kernel[grid]` is, which notes its name."""
    launched.add(f"{kernel.fn.__module__}.{kernel.fn.__name__}")
    return lambda *given, **options: kernel.run(*given, grid=grid, warmup=False, **options)


def main():
    KernelInterface.__getitem__ = launch
    for name, op in backends.ops().items():
        for backend in {"triton", "tiles"} & op.backends.keys():
            for example in op.examples:
                actual = computed_if_able(op, backend, example, 9, torch.float64)
                if actual is None:
                    continue
                expected = computed(example, {name: "reference"}, 9, torch.float64)
                for a, b in zip(actual, expected, strict=True):
                    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
    print("\n".join(sorted(launched)))


if __name__ == "__main__":
    main()
