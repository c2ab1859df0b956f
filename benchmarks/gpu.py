"""Times our kernels on a GPU next to our portable backends, and next to other packages' kernels if installed.

    python benchmarks/gpu.py                        # every op
    python benchmarks/gpu.py scans gated_delta      # some ops

Forward and backward, in float32 or, where the name says so, in bfloat16. Every run is compared with the portable
backend's numbers before it is timed. Other packages: flash-linear-attention (fla), mamba_ssm; those that are not
installed are left out. fla tunes each of its kernels at the first call, which takes minutes.
"""

import argparse
import math
import sys
from functools import partial
from importlib.util import find_spec

import torch
from harness import append, compare, gate

from seqloom.ops import gpu
from seqloom.ops.backends import use
from seqloom.ops.delta_rule.gated import gated
from seqloom.ops.lag_sum import lags
from seqloom.ops.linear_decay import decay
from seqloom.ops.scans import scan
from seqloom.ops.selective_scan import selective
from seqloom.ops.wkv_average import empty, wkv

SIZES = ((32, 128, 256), (8, 1024, 1024), (4, 4096, 1024), (1, 16384, 2048))
"""rows, tokens, channels"""
WIDTH, STATES = 64, 16
"""channels of a head, and states of a channel of the selective scan"""
CLOSE = {torch.float32: 2e-3, torch.bfloat16: 3e-2}
"""the most that two may differ, of the largest number"""
KEYS, VALUES = 96, 192
"""channels of a head of keys and of values in the gated delta rule, as in a model 512 wide with 4 heads"""


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


def lag_sums(L, mixed, B, T, D):
    """The lag sum of L taps: vectors, or matrices that mix the channels."""
    by = ours("lag_sum", lags)
    w = draw(L, D, D) / math.sqrt(L * D) if mixed else draw(L, D) / math.sqrt(L)
    return [draw(B, T, D), w], {name: by(name) for name in ("fft", "direct", "triton")}


def gated_deltas(B, T, D):
    """The gated delta rule of a mixer D wide after its convolution, in bfloat16, eager and compiled."""
    given, rule = gated_delta(B, T, D)
    # torch finds a compiled graph by the function's code, so that each backend needs a function of its own
    compiled = {
        "chunked": torch.compile(lambda *of: rule(*of)),  # noqa: PLW0108  # `rule` itself would be shared
        "fla": torch.compile(lambda *of: rule(*of)),  # noqa: PLW0108  # as above
    }
    runs = {}
    for name, backend in {"chunked": "chunked", **({"ours by fla": "fla"} if find_spec("fla") else {})}.items():
        runs[name] = ours("delta_rule", rule)(backend)
        runs[f"{name}, compiled"] = ours("delta_rule", compiled[backend])(backend)
    return given, runs


def overheads(B, T, D):
    """The same by fla's kernels, called directly and by us, without others, which would leave the caches cold."""
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    given, rule = gated_delta(B, T, D)
    H = given[2].shape[2]

    def fla(x, g, beta):
        q, k, v = x.split((H * KEYS, H * KEYS, H * VALUES), -1)
        q, k, v = (part.unflatten(-1, (H, -1)).contiguous() for part in (q, k, v))
        y, _ = chunk_gated_delta_rule(q, k, v, g, beta, output_final_state=True, use_qk_l2norm_in_kernel=True)
        return y.transpose(1, 2)

    return given, {"fla": fla, "ours by fla": ours("delta_rule", rule)("fla")}


def gated_delta(B, T, D):
    """Its inputs, and itself."""
    H = D * 3 // 4 // KEYS
    given = [draw(B, T, H * (2 * KEYS + VALUES)).bfloat16(), -draw(B, T, H).abs() / 16]
    given.append(draw(B, T, H).sigmoid().bfloat16())
    return given, lambda x, g, beta: gated(x, g, beta, None, heads=H, K=KEYS)[0]


def whole(run, given, dy):
    """Forward and backward: the output and the gradients of all that was given."""

    def once():
        y = run(*given)
        return y, *torch.autograd.grad(y, given, dy)

    return once


def agreeing(runs, peer, dtype):
    """The runs that compute the same numbers as the peer; the others are named."""
    wanted = runs[peer]()
    agree = {}
    for name, run in runs.items():
        errors = [
            ((here - there).abs().max() / there.abs().max()).item() for here, there in zip(run(), wanted, strict=True)
        ]
        if all(error < CLOSE.get(dtype, CLOSE[torch.float32]) for error in errors):
            agree[name] = run
        else:
            print(f"{name} is off {peer} by {max(errors):.2g}: not timed", file=sys.stderr)
    return agree


OPS = {
    "linear_decay": (decays, SIZES),
    "scans": (recurrences, SIZES),
    "scans, complex": (complex_recurrences, SIZES),
    "wkv_average": (averages, SIZES),
    "selective_scan": (selections, SIZES),
    "gated_delta": (gated_deltas, ((32, 1024, 512), (1, 16384, 512))),
    **({"gated_delta, fla alone": (overheads, ((32, 1024, 512), (1, 16384, 512)))} if find_spec("fla") else {}),
    **{f"lag_sum, {L} vectors": (partial(lag_sums, L, False), ((32, 1024, 512),)) for L in (4, 16, 64, 256)},
    **{f"lag_sum, {L} matrices": (partial(lag_sums, L, True), ((64, 128, 128), (32, 1024, 512))) for L in (4, 8, 32)},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("ops", nargs="*", default=list(OPS), help=f"of {', '.join(OPS)}")
    chosen = parser.parse_args().ops
    gate("tests/ops/test_triton.py", "tests/ops/test_fla.py")
    if gpu.why() or gpu.INTERPRETED:
        print(f"nothing to time: {gpu.why() or 'TRITON_INTERPRET=1 runs kernels on the CPU'}", file=sys.stderr)
        raise SystemExit(1)
    for op in chosen:
        made, sizes = OPS[op]
        for B, T, D in sizes:
            try:
                given, runs = made(B, T, D)
                given = [each.requires_grad_() for each in given]
                peer = next(iter(runs))
                dy = torch.randn_like(runs[peer](*given))
                timed = agreeing({name: whole(run, given, dy) for name, run in runs.items()}, peer, given[0].dtype)
                row = {"op": op, "B": B, "T": T, "D": D, "dtype": str(given[0].dtype)}
                append("gpu", [{**row, **compare(timed, peer=peer, warm=2)}])
            except torch.cuda.OutOfMemoryError:
                print(f"{op} at {B} x {T} x {D}: no room", file=sys.stderr)


if __name__ == "__main__":
    main()
