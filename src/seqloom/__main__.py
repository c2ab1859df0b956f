"""`python -m seqloom`, and what torchrun starts: `torchrun --nproc-per-node 2 -m seqloom train …`."""

from seqloom.cli import run

if __name__ == "__main__":
    run()
