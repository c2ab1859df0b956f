"""`python -m seqloom.hf.serve`: the server of transformers finds the class that an exported folder names."""

import json
from pathlib import Path

import pytest

pytest.importorskip("transformers")

import seqloom
import seqloom.hf
from seqloom.hf.serve import expose_classes


def test_the_server_finds_the_class(tmp_path: Path) -> None:
    from transformers.cli.serving import model_manager  # what `transformers serve` loads models with

    folder = seqloom.hf.export(seqloom.decoder("gru", vocab=31, dim=8, depth=1, context=8), tmp_path / "folder")
    (name,) = json.loads((folder / "config.json").read_text())["architectures"]
    expose_classes()
    assert getattr(model_manager.transformers, name) is seqloom.hf.SeqloomForCausalLM
