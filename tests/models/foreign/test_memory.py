"""Loading takes little more memory than the model, since each tensor is mapped, copied and unmapped."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import seqloom
from seqloom.models.foreign.save import save

MOST = 1.3
"""the most that loading may take, in sizes of the model"""
SMALL, LARGE = {"dim": 16, "depth": 1, "vocab": 32}, {"dim": 512, "depth": 6, "vocab": 16000}
PROGRAM = """
import re, sys
from pathlib import Path
from seqloom.models.foreign.load import load
def kilobytes(name):
    return int(re.search(name + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
load(Path(sys.argv[1]))  # what is imported when it is first called
before = kilobytes("VmRSS")
model = load(Path(sys.argv[2]))
print((kilobytes("VmHWM") - before) * 1024 / sum(p.nbytes for p in model.parameters()))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_is_loaded_within_its_size(dtype: torch.dtype, tmp_path: Path) -> None:
    folders = []
    for number, sizes in enumerate((SMALL, LARGE)):
        model = seqloom.decoder(
            "attention",
            **sizes,  # type: ignore[arg-type]  # sizes are named
            context=256,
            heads=8,
            kv_heads=4,
            position="rotary",
            norm="rms",
            ffn={"width": 3 * sizes["dim"], "activation": "silu", "gated": True, "bias": False},
            embed_scale=False,
            head_bias=False,
        )
        folder = tmp_path / str(number)
        folder.mkdir()
        save(model.to(dtype), folder, "llama")
        folders.append(str(folder))
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM, *folders], capture_output=True, text=True, check=True, timeout=300
    )
    (share,) = re.findall(r"[\d.]+", answer.stdout)
    assert 0.9 <= float(share) <= MOST
