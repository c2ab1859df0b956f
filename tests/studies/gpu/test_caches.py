"""Compiled kernels come back from a card and are found by the next call on one like it, and on no other."""

from pathlib import Path

import pytest

from seqloom_studies.gpu import caches
from seqloom_studies.gpu.caches import Caches
from seqloom_studies.gpu.card import Card

CARD = Card("cuda", "NVIDIA H100 80GB HBM3", {"torch": "2.11.0+cu130", "triton": "3.7.1"})
NAME = "caches-nvidia-h100-80gb-hbm3-2.11.0+cu130-3.7.1.tar.gz"


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of compiled kernels, with one of Triton's."""
    monkeypatch.setattr(caches, "FOLDER", tmp_path / "caches")
    for variable in caches.VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    path = tmp_path / "caches" / "triton" / "kernel.cubin"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * 1000)
    return path


def test_kernels_travel_to_a_machine_of_the_same_card_and_versions(
    kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    Caches(tmp_path, CARD).pack(tmp_path, said.append)
    assert (tmp_path / NAME).is_file()
    monkeypatch.setattr(caches, "FOLDER", tmp_path / "elsewhere")
    Caches(tmp_path, Card("cuda", "NVIDIA H200", CARD.versions)).unpack(said.append)
    assert not said
    assert not (tmp_path / "elsewhere").exists()
    Caches(tmp_path, CARD).unpack(said.append)
    assert said == [f"compiled kernels of {NAME} are reused"]
    assert (tmp_path / "elsewhere" / "triton" / "kernel.cubin").read_bytes() == kernels.read_bytes()


def test_kernels_that_are_too_large_to_come_back_are_left_out(
    kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caches, "LARGEST", 10)
    said: list[str] = []
    Caches(tmp_path, CARD).pack(tmp_path, said.append)
    assert "at most 10 come back: left out" in said[0]
    assert not (tmp_path / NAME).exists()
