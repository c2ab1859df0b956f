"""transformers' own tests of a model, ModelTesterMixin, on a decoder of seqloom.

pip download --no-deps --no-binary transformers transformers==VERSION; tar xzf transformers-*.tar.gz
python -m tests.hf.model_tester transformers-VERSION [MIXER]        minutes; needs `parameterized`

The source distribution has no tests of `generate` nor of its exporters: their mixins are left empty.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

import seqloom
from seqloom.hf import SeqloomConfig
from tests.hf.streaming import CONTEXT, settings_of

PACKAGE = "transformers_tests"
ABSENT = {"exporters/test_export": "ExportTesterMixin", "generation/test_utils": "GenerationTesterMixin"}
"""files that the source distribution leaves out, and the classes that are imported from them"""
CASE = """
import copy
import unittest

from seqloom.hf import SeqloomForCausalLM
from tests.hf.model_tester import Tester
from transformers_tests.test_modeling_common import ModelTesterMixin


class SeqloomTest(ModelTesterMixin, unittest.TestCase):
    all_model_classes = (SeqloomForCausalLM,)
    has_attentions = False
    test_resize_embeddings = False                      # refused: the vocabulary is fixed

    def setUp(self):
        self.model_tester = Tester()

    def _prepare_for_class(self, inputs, model_class, return_labels=False):
        inputs = copy.deepcopy(inputs)
        return {**inputs, "labels": inputs["input_ids"]} if return_labels else inputs


del ModelTesterMixin
"""


class Tester:
    """What the tests ask for: a small model's settings, and inputs."""

    batch_size, seq_length, is_training = 2, 7, True
    vocab_size, hidden_size, num_hidden_layers = 31, 16, 2

    def get_config(self) -> SeqloomConfig:
        """Of a decoder without dropout."""
        sizes = {"vocab": self.vocab_size, "dim": self.hidden_size, "depth": self.num_hidden_layers}
        mixer = settings_of(os.environ.get("SEQLOOM_TESTED", "gated_delta"))
        model = seqloom.decoder([mixer], context=CONTEXT, position="none", dropout=0.0, **sizes)
        return SeqloomConfig(model.config.model_dump(mode="json"), pad_token_id=0, bos_token_id=1, eos_token_id=2)

    def prepare_config_and_inputs_for_common(self) -> tuple[SeqloomConfig, dict[str, Any]]:
        """The settings, and ids without padding."""
        ids = torch.randint(3, self.vocab_size, (self.batch_size, self.seq_length))
        return self.get_config(), {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def main(source: Path, mixer: str = "gated_delta") -> int:
    """Runs the tests of the unpacked source distribution; returns pytest's exit code."""
    os.environ["SEQLOOM_TESTED"] = mixer
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, PACKAGE)
        shutil.copytree(source / "tests", package)
        for name, absent in ABSENT.items():
            file = package / f"{name}.py"
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"class {absent}: pass\n")
        for inner in (package, *(path for path in package.iterdir() if path.is_dir())):
            (inner / "__init__.py").touch()
        Path(folder, "test_seqloom.py").write_text(CASE)
        sys.path.insert(0, folder)
        options = ["-q", "-rsf", "--tb=line", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", folder]
        return int(pytest.main([*options, f"{folder}/test_seqloom.py"]))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:3]))
