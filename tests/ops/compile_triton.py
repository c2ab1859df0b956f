"""Compiles every Triton kernel for a GPU that need not be present, and prints each name: compile_triton.py 90 fp32.

The interpreter says nothing of what a kernel needs: types that agree in loops, shared memory, registers.
"""

import sys

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from seqloom.ops.attention import gpu as narrow
from seqloom.ops.attention import gpu_kernels as heads
from seqloom.ops.lag_sum import gpu as lag
from seqloom.ops.lag_sum import gpu_kernels as lags
from seqloom.ops.lag_sum import gpu_slopes as taps
from seqloom.ops.lag_sum import gpu_tiles as toeplitz
from seqloom.ops.lag_sum import tiles
from seqloom.ops.linear_decay import gpu as decay
from seqloom.ops.linear_decay import gpu_kernels as chunks
from seqloom.ops.linear_decay import gpu_slopes as slopes
from seqloom.ops.scan import gpu as scan
from seqloom.ops.scan import gpu_kernels as scans
from seqloom.ops.scan.selective_scan import gpu as selective
from seqloom.ops.scan.selective_scan import gpu_kernels as selectives
from seqloom.ops.wkv_average import gpu as wkv
from seqloom.ops.wkv_average import gpu_kernels as averages

SIZES = {"T", "D", "N", "H", "K", "V", "by_row", "by_head", "by_token"}
SIZES |= {"M", "L", "W", "size", "by_lag", "by_channel", "by_group", "by_in", "by_out"}
SIZES |= {"B", "n"}
SIZES |= {"shared", *(f"{x}_{axis}" for x in "qkv" for axis in ("row", "token", "head"))}
LONG = {"lengths": "*i64"}
SUMS = {averages.backward: {"dw", "du"}, taps.slope_by_channel: {"dw"}, selectives.backward: {"dA", "dbias", "dskip"}}
"""what is kept in double precision"""


def compiled(kernel, architecture, kind, fixed, warps=4, stages=3, wide=(), once=False):
    flags = {parameter.name for parameter in kernel.params if parameter.is_constexpr} - fixed.keys()
    doubles = SUMS.get(kernel, set()) | set(wide)
    assert doubles <= set(kernel.arg_names)
    for given, ones in ((True, False),) if once else ((True, False), (False, True)):
        constants = {**fixed, **dict.fromkeys(flags, given)}
        constants |= {name: 1 for name in kernel.arg_names if ones and name in SIZES}
        signature = {
            name: "constexpr"
            if name in constants
            else "i32"
            if name in SIZES
            else LONG.get(name, "*fp64" if name in doubles else f"*{kind}")
            for name in kernel.arg_names
        }
        made = triton.compile(
            ASTSource(kernel, signature, constants),
            target=GPUTarget("cuda", architecture, 32),
            options={"num_warps": warps, "num_stages": stages},
        )
        assert made.asm["cubin"]
        assert made.metadata.shared < 99 * 1024, (kernel, made.metadata.shared)  # what the smallest GPU has
    print(f"{kernel.__module__}.{kernel.__name__}")


def main(architecture, kind):
    walk = {"BLOCK": wkv.BLOCK, "STAGES": wkv.STAGES}
    for kernel in (averages.forward, averages.backward):
        compiled(kernel, architecture, kind, walk, warps=1)
    for complex_ in (False, True):
        for fixed in (False, True):
            flags = {"COMPLEX": complex_, "FIXED": fixed, "BLOCK": scan.BLOCK, "STAGES": scan.STAGES}
            compiled(scans.forward, architecture, kind, flags, warps=1)
            compiled(scans.backward, architecture, kind, flags, warps=1, wide=("da",) if fixed else ())
    C, wide = (decay.NARROW, decay.NARROW) if kind == "fp64" else (decay.CHUNK, decay.WIDE)
    for precision in ("ieee",) if kind == "fp64" else tuple(decay.PRECISION.values()):
        sizes = {"C": C, "WIDE": wide, "PRECISION": precision}
        once = precision != "ieee"
        compiled(chunks.states, architecture, kind, sizes, once=once)
        compiled(chunks.outputs, architecture, kind, sizes, warps=8, stages=2, once=once)
        compiled(slopes.state_gradients, architecture, kind, sizes, once=once)
        compiled(slopes.input_gradients, architecture, kind, sizes, warps=8, stages=1, once=once)
    for N in (1, 16):
        sizes = {"STATES": N, "BLOCK": selective.BLOCK, "CHUNK": selective.CHUNK, "STAGES": selective.STAGES}
        compiled(selectives.forward, architecture, kind, sizes, warps=1)
        compiled(selectives.backward, architecture, kind, sizes, warps=1)
    few = {"TIMES": lag.TIMES, "BLOCK": lag.BLOCK}
    long, wide = lag.tile(torch.float64 if kind == "fp64" else torch.float32)
    for back in (False, True):
        compiled(lags.sum_by_channel, architecture, kind, {**few, "BACK": back})
        compiled(lags.sum_by_group, architecture, kind, {"TIMES": long, "WIDE": wide, "BACK": back}, warps=8)
    compiled(taps.slope_by_channel, architecture, kind, {"LAGS": lag.TIMES, "BLOCK": lag.BLOCK, "PIECE": lag.PIECE})
    compiled(taps.slope_by_group, architecture, kind, {"TIMES": long, "WIDE": wide})
    compile_narrow_heads(architecture, kind)
    compile_tiles(architecture, kind)


def compile_tiles(architecture, kind):
    rows, times = tiles.sizes(tiles.ROWS, torch.float64 if kind == "fp64" else torch.float32)
    for precision in ("ieee",) if kind == "fp64" else tuple(decay.PRECISION.values()):
        sizes = {"ROWS": rows, "TIMES": times, "PRECISION": precision}
        once = precision != "ieee"
        for back in (False, True):
            compiled(toeplitz.sum_block, architecture, kind, {**sizes, "BACK": back}, warps=tiles.WARPS, once=once)
        compiled(toeplitz.products, architecture, kind, sizes, warps=tiles.WARPS, once=once)
    compiled(toeplitz.diagonals, architecture, kind, {"TIMES": times})


def compile_narrow_heads(architecture, kind):
    dtype = torch.float64 if kind == "fp64" else torch.float32
    sizes = {"SCALE": 0.5, "QUERIES": narrow.queries(dtype), "WIDTH": narrow.WIDEST}
    sizes["WIDE"] = tl.float64 if kind == "fp64" else tl.float32
    others = () if kind == "fp64" else ((narrow.LONGEST, "ieee"), (128, "tf32"))
    for T, precision in ((128, "ieee"), *others):
        for kernel in (heads.forward, heads.backward):
            fixed = {**sizes, "KEYS": T, "PRECISION": precision}
            compiled(kernel, architecture, kind, fixed, warps=narrow.warps(T), once=precision != "ieee")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
