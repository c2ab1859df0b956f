"""Functions are marked for graph capture as torch marks them."""

import torch

from seqloom.core.graphs import constant


def test_the_mark_is_torchs() -> None:
    marked, as_torch_does = constant(lambda: 1), torch.compiler.assume_constant_result(lambda: 1)
    assert vars(marked) == vars(as_torch_does) != {}
