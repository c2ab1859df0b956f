"""A saved state continues as the one in memory does, and only with the model that made it."""

from pathlib import Path

import pytest
import torch

from seqloom.core.state import flat, nbytes
from seqloom.mixers.linear.linear import LinearConfig
from seqloom.models.decoder import Decoder, DecoderConfig
from seqloom.runs.checkpoint import Damaged
from seqloom.runs.state import load_state, model_hash, save_state
from tests.kinds import CAUSAL


def decoder(kind: str, seed: int = 0) -> Decoder:
    torch.manual_seed(seed)
    values = {"vocab": 11, "dim": 8, "depth": 2, "context": 6, "ffn": 16, "std": 0.5, "position": "none"}
    return Decoder(DecoderConfig.model_validate({**values, "mixer": {"kind": kind}})).eval()


@pytest.mark.slow
@pytest.mark.parametrize("kind", CAUSAL)
def test_a_saved_state_goes_on(kind: str, tmp_path: Path) -> None:
    model = decoder(kind)
    ids = torch.randint(11, (3, 9))[:, : model.longest or 9]
    cut = ids.shape[1] // 2 + 1
    with torch.no_grad():
        _, state = model.extend(ids[:, :cut], model.start(3, capacity=50), torch.rand(3, cut) > 0.3)
        again = load_state(model, save_state(model, state, tmp_path))
        assert all(tensor.is_contiguous() for tensor in flat(again).values())
        assert nbytes(again) <= nbytes(state)
        torch.testing.assert_close(model.extend(ids[:, cut:], again)[0], model.extend(ids[:, cut:], state)[0])
        for token in ids[:, cut:].T:
            out, state = model.step(token, state)
            loaded, again = model.step(token, again, reuse=True)
            torch.testing.assert_close(loaded, out)


def test_a_state_of_another_model_is_an_error(tmp_path: Path) -> None:
    model = decoder("he")
    path = save_state(model, model.extend(torch.ones(1, 4, dtype=torch.long), model.start(1))[1], tmp_path)
    for other in (decoder("he", seed=1), decoder("we")):
        assert model_hash(other) != model_hash(model)
        with pytest.raises(ValueError, match="of another model or of other weights"):
            load_state(other, path)


def test_a_state_of_other_code_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = decoder("linear")
    path = save_state(model, model.extend(torch.ones(1, 4, dtype=torch.long), model.start(1))[1], tmp_path)
    monkeypatch.setattr(LinearConfig, "equation_version", 2)
    with pytest.raises(ValueError, match="of another model or of other weights"):
        load_state(model, path)


def test_a_state_of_another_layout_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = decoder("he")
    path = save_state(model, model.start(1), tmp_path)
    monkeypatch.setattr("seqloom.runs.state.FORMAT", -1)
    with pytest.raises(ValueError, match="another version of seqloom"):
        load_state(model, path)


def test_a_damaged_state_is_an_error(tmp_path: Path) -> None:
    model = decoder("me")
    path = save_state(model, model.start(1), tmp_path)
    (path / "state.safetensors").write_bytes(b"broken")
    with pytest.raises(Damaged, match=r"state\.safetensors"):
        load_state(model, path)
