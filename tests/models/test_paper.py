"""The decoder against the paper's equations written a second time, and against the paper's sizes."""

import pytest
import torch

from seqloom.models.decoder import Decoder
from seqloom.training.settings import resolve
from tests.models.drawing import CONTEXT, KINDS, VOCAB, decoder, ids
from tests.models.paper import transformer

TABLE_1 = {"attention": 4_861_320, "she": 42_020_232, "he": 4_861_320, "we": 4_566_408, "me": 3_683_976}
SUBLAYERS = {"attention": 65_536, "she": 2_129_920, "he": 65_536, "we": 49_152, "me": 128}  # the paper's Table 7


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("T", [1, 2, CONTEXT])
def test_paper_is_its_equations(kind: str, T: int) -> None:
    heads = 4 if kind == "attention" else None
    model = decoder({"kind": kind, "heads": heads} if heads else kind, depth=3)
    s = ids(3, T)
    with torch.no_grad():
        actual = model(s)
    expected = torch.stack([transformer(row, dict(model.state_dict()), heads) for row in s])
    assert actual.shape == (3, T, VOCAB)
    assert float((actual - expected).abs().max()) <= 1e-10 * float(expected.abs().max())


@pytest.mark.parametrize("name", ["position.table.weight", "layers.1.norm_2.bias", "norm.weight", "head.bias"])
def test_the_comparison_can_fail(name: str) -> None:
    model = decoder("she")
    weights = dict(model.state_dict())
    weights[name] = weights[name] * 1.001
    gap = (model(ids(1, 4))[0] - transformer(ids(1, 4)[0], weights, None)).detach().abs().max()
    assert float(gap) > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), TABLE_1.items())
def test_parameters_at_table_1(kind: str, count: int) -> None:
    with torch.device("meta"):
        model = Decoder(resolve("paper/table1", [f"model.mixer.kind={kind}"]).model)
    assert sum(parameter.numel() for parameter in model.parameters()) == count
    for block in model.blocks:
        assert sum(parameter.numel() for parameter in block.mixer.parameters()) == SUBLAYERS[kind]
    assert not list(model.buffers())


def test_the_output_is_not_tied_to_the_embedding() -> None:
    model = decoder("we")
    assert model.head.weight.data_ptr() != model.token.weight.data_ptr()
    assert model.head.bias is not None
