"""Times our Triton kernels on a GPU next to our portable backends, and next to other packages' kernels if installed.

Forward and backward in float32, as models run the ops. Every run is compared with the portable backend's numbers before
it is timed. Other packages: flash-linear-attention (fla), mamba_ssm; those that are not installed are left out.
"""

import math
import sys
from importlib.util import find_spec

import torch
from harness import append, compare, gate

from seqloom.ops import gpu
from seqloom.ops.backends import use
from seqloom.ops.linear_decay import decay
from seqloom.ops.scans import scan
from seqloom.ops.selective_scan import selective
from seqloom.ops.wkv_average import empty, wkv

SIZES = ((32, 128, 256), (8, 1024, 1024), (4, 4096, 1024), (1, 16384, 2048))
"""rows, tokens, channels"""
WIDTH, STATES = 64, 16
"""channels of a head, and states of a channel of the selective scan"""
CLOSE = 2e-3
"""the most that two may differ, of the largest number"""


def draw(*shape):
    return torch.randn(*shape, device="cuda")


def ours(op, run):
    def by(backend):
        def once(*given):
            with use(**{op: backend}):
                return run(*given)

        return once

    return by


def decays(B, T, D):
    """The decaying sum of heads, a gate for each head and token."""
    H = D // WIDTH
    given = [draw(B, H, T, WIDTH) / 8, draw(B, H, T, WIDTH), draw(B, H, T, WIDTH), -draw(B, H, T).abs() / 16]
    by = ours("linear_decay", lambda *of: decay(*of)[0])
    runs = {"chunked": by("chunked"), "triton": by("triton")}
    if find_spec("fla"):
        from fla.ops.simple_gla import chunk_simple_gla

        def fla(*of):
            q, k, v, g = (x.transpose(1, 2).contiguous() for x in of)
            return chunk_simple_gla(q, k, v, g=g, scale=1.0)[0].transpose(1, 2)

        runs["fla"] = fla
    return given, runs


def recurrences(B, T, D):
    """The recurrence of real channels."""
    by = ours("scans", lambda a, b: scan(a, b)[0])
    return [draw(B, T, D).sigmoid(), draw(B, T, D)], {"doubling": by("doubling"), "triton": by("triton")}


def complex_recurrences(B, T, D):
    """The recurrence of complex channels, the same at each token, as in S5."""
    a = torch.polar(1 - 0.1 * draw(D).sigmoid(), math.pi * draw(D).sigmoid())
    by = ours("scans", lambda a, b: scan(a, b)[0])
    return [a, torch.complex(draw(B, T, D), draw(B, T, D))], {"doubling": by("doubling"), "triton": by("triton")}


def averages(B, T, D):
    """RWKV's running average."""
    by = ours("wkv_average", lambda *of: wkv(*of)[0])
    runs = {"doubling": by("doubling"), "triton": by("triton")}
    if find_spec("fla"):
        from fla.ops.rwkv4 import fused_recurrent_rwkv4

        state = empty(B, D, torch.float32, torch.device("cuda"))[:, :, None]
        runs["fla"] = lambda k, v, rate, bonus: fused_recurrent_rwkv4(rate, bonus, k, v, state)[0]
    return [draw(B, T, D), draw(B, T, D), draw(D), draw(D)], runs


def selections(B, T, D):
    """Mamba's scan with all that stands around it."""
    given = [draw(B, T, D), draw(B, T, D), draw(D, STATES), draw(B, T, STATES), draw(B, T, STATES)]
    given += [draw(D), draw(D), draw(B, T, D)]

    def run(u, delta, log_rate, b, c, bias, skip, gate):
        return selective(u, delta, log_rate, b, c, bias=bias, skip=skip, gate=gate)[0]

    by = ours("selective_scan", run)
    runs = {"doubling": by("doubling"), "triton": by("triton")}
    if find_spec("mamba_ssm"):
        from mamba_ssm.ops.selective_scan_interface import selective_scan_fn

        def mamba(u, delta, log_rate, b, c, bias, skip, gate):
            u, delta, b, c, gate = (x.transpose(1, 2).contiguous() for x in (u, delta, b, c, gate))
            y = selective_scan_fn(u, delta, -log_rate.exp(), b, c, skip, gate, bias, delta_softplus=True)
            return y.transpose(1, 2)

        runs["mamba_ssm"] = mamba
    return given, runs


def whole(run, given, dy):
    """Forward and backward: the output and the gradients of all that was given."""

    def once():
        y = run(*given)
        return y, *torch.autograd.grad(y, given, dy)

    return once


def hold(runs, peer):
    """Ends with exit code 1 if a run computes other numbers than the peer."""
    wanted = runs[peer]()
    for name, run in runs.items():
        for place, (here, there) in enumerate(zip(run(), wanted, strict=True)):
            off = ((here - there).abs().max() / there.abs().max()).item()
            if not off < CLOSE:
                print(f"{name} is off {peer} by {off:.2g} in result {place}: no time", file=sys.stderr)
                raise SystemExit(1)


OPS = {
    "linear_decay": decays,
    "scans": recurrences,
    "scans, complex": complex_recurrences,
    "wkv_average": averages,
    "selective_scan": selections,
}


def main() -> None:
    gate("tests/ops/test_triton.py")
    if gpu.why() or gpu.INTERPRETED:
        print(f"nothing to time: {gpu.why() or 'TRITON_INTERPRET=1 runs kernels on the CPU'}", file=sys.stderr)
        raise SystemExit(1)
    for op, made in OPS.items():
        for B, T, D in SIZES:
            try:
                given, runs = made(B, T, D)
                given = [each.requires_grad_() for each in given]
                peer = next(iter(runs))
                dy = torch.randn_like(runs[peer](*given))
                timed = {name: whole(run, given, dy) for name, run in runs.items()}
                hold(timed, peer)
                row = {"op": op, "B": B, "T": T, "D": D, "gpu": torch.cuda.get_device_name()}
                append("gpu", [{**row, **compare(timed, peer=peer, warm=2)}])
            except torch.cuda.OutOfMemoryError:
                print(f"{op} at {B} x {T} x {D}: no room", file=sys.stderr)


if __name__ == "__main__":
    main()
