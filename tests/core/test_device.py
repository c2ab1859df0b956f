"""Devices by name: what `auto` is, and what is said of a GPU that cannot be used."""

import warnings
from collections.abc import Iterator

import pytest
import torch

from seqloom.core import device
from seqloom.core.device import choose_device
from seqloom.ops import gpu
from seqloom.ops.attention import flex

OLD = "CUDA initialization: The NVIDIA driver on your system is too old (found version 11040).\n(Triggered internally)"


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    device._has_gpu.cache_clear()
    yield
    device._has_gpu.cache_clear()


def test_auto_is_a_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for available, expected in ((True, "cuda"), (False, "cpu")):
        device._has_gpu.cache_clear()
        monkeypatch.setattr(torch.cuda, "is_available", lambda available=available: available)
        assert choose_device("auto").type == expected


def test_an_old_driver_is_said_once_and_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def is_available() -> bool:
        warnings.warn(OLD, stacklevel=2)
        return False

    monkeypatch.setattr(torch.cuda, "is_available", is_available)
    assert [choose_device("auto").type for _ in range(2)] == ["cpu", "cpu"]
    line = "no GPU is used: The NVIDIA driver on your system is too old (found version 11040).\n"
    assert capsys.readouterr().err == line


def test_a_device_that_torch_cannot_use_is_one_line() -> None:
    for name in ("meta", "no such", *(() if torch.cuda.is_available() else ("cuda",))):
        with pytest.raises(ValueError, match=rf"^no device '{name}' here \(.*\): use cpu or auto$") as error:
            choose_device(name)
        assert "\n" not in str(error.value)


def test_flex_attention_needs_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(gpu, "why", lambda: "Triton is not installed: pip install 'seqloom[kernels]'")
    assert flex.unavailable() == {"flex": "Triton is not installed: pip install 'seqloom[kernels]'"}
    monkeypatch.setattr(gpu, "why", lambda: "")
    assert not flex.unavailable()


@pytest.mark.parametrize("name", ["meta", "no-such-device", "cuda:99"])
def test_a_device_that_cannot_compute(name: str) -> None:
    with pytest.raises(ValueError, match="use cpu or auto"):
        choose_device(name)
