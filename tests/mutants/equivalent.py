"""Faults that change nothing, each with its proof: `path: line: before → after` as the runner prints them."""

SPAN = "src/seqloom/ops/selective_scan/doubling.py: SPAN = 256: 256 → "
SPANS = "a scan cut into spans is the whole scan wherever it is cut: `SPAN` bounds the memory that one span takes"

PROVED: dict[str, str] = {f"{SPAN}257": SPANS, f"{SPAN}255": SPANS}
