"""Rows that are read in pieces: the loss, gradients and dropout of whole rows, for the memory of one piece."""

import subprocess
import sys

import pytest
import torch
from torch import Tensor

import seqloom
from seqloom.core.model import Model
from seqloom.core.row_draws import Piece, read_piece
from seqloom.mixers import kinds
from seqloom.models.dropout import Dropout, share_rows
from seqloom.ops import backends
from seqloom.training.pieces import InPieces
from seqloom.training.settings import resolve
from tests.training.running import rows, tiny

IDS = torch.randint(0, 17, (2, 12), generator=torch.Generator().manual_seed(0))


CARRIED = ("training.memory=carry", "model.position.kind=none")


def constant(kind: str) -> bool:
    traits = kinds()[kind].traits
    return traits.causal != "never" and traits.streams and traits.state == "constant"


CONSTANT = [kind for kind in kinds() if constant(kind)]


def loss_and_gradients(model: Model, reader: Model | InPieces) -> tuple[Tensor, dict[str, Tensor]]:
    model.zero_grad()
    torch.manual_seed(3)
    loss, extras = reader.loss_with_extras(IDS[:, :-1], IDS[:, 1:])
    total = loss + sum(extras.losses.values())
    total.backward()
    return total.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("kind", CONSTANT)
def test_the_same_gradients_for_every_constant_state(kind: str) -> None:
    settings = {"kind": kind, **kinds()[kind].examples[0]}
    model = seqloom.decoder([settings], vocab=17, dim=16, depth=2, context=12, position="none", dropout=0.1).double()
    loss, plain = loss_and_gradients(model, model)
    after_plain = torch.rand(1)
    for pieces in (3, 11, 50):
        again, in_pieces = loss_and_gradients(model, InPieces(model, pieces))
        assert torch.equal(torch.rand(1), after_plain), "as many random numbers are drawn"
        torch.testing.assert_close(again, loss, rtol=1e-12, atol=1e-12)
        assert in_pieces.keys() == plain.keys()
        for name, gradient in plain.items():
            torch.testing.assert_close(in_pieces[name], gradient, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", ["sequential", "doubling"])
def test_the_same_gradients_without_native_code(backend: str) -> None:
    with backends.use(selective_scan=backend):
        test_the_same_gradients_for_every_constant_state("s6")


def test_learned_positions() -> None:
    model = seqloom.decoder("gru", vocab=17, dim=16, depth=2, context=12, position="learned", dropout=0.1).double()
    loss, plain = loss_and_gradients(model, model)
    again, in_pieces = loss_and_gradients(model, InPieces(model, 4))
    torch.testing.assert_close(again, loss, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(in_pieces, plain, rtol=1e-12, atol=1e-12)


def test_dropout_of_a_piece_is_that_of_the_row() -> None:
    layer = Dropout(0.5)
    x = torch.ones(2, 7, 3)
    for rank in (0, 1):
        with share_rows(layer, rank, 2):
            torch.manual_seed(1)
            whole = layer(x)
            torch.manual_seed(1)
            parts = []
            for first, last in ((0, 3), (3, 4), (4, 7)):
                with read_piece(layer, Piece(first, 7), begins=first == 0):
                    parts.append(layer(x[:, first:last]))
        assert torch.equal(torch.cat(parts, 1), whole)
    assert layer.piece is None


def test_a_run_ends_with_the_same_losses(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    changes = ("model.mixer.kind=gated_delta", "training.precision=float64", "training.batches=3")
    tiny(folder / "plain", *changes)
    tiny(folder / "pieces", *changes, "training.pieces=3")
    losses = [[row["loss"] for row in rows(folder / name) if "loss" in row] for name in ("plain", "pieces")]
    assert losses[0]
    torch.testing.assert_close(torch.tensor(losses[1]), torch.tensor(losses[0]), rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["model.mixer.kind=he"], "the state of model.mixer.kind=he is as long as its window"),
        (["model.mixer.kind=attention"], "would take more memory, not less: the state of .* choose training.recompute"),
        (
            ["model.mixer.kind=gru", "training.memory=carry", "model.position.kind=none"],
            "without training.memory=carry: choose one",
        ),
        (["model.mixer.kind=gru", "data.packed=true"], "without data.packed: choose one"),
        (["model.mixer.kind=gru", "training.recompute=layer"], "without training.recompute=layer, which computes"),
        (["model.mixer.kind=gru", "training.compile=true"], "without training.compile: choose one"),
        (["model.mixer.kind=fnet", "model.kind=encoder", "training.objective.kind=masked_token"], "masked_token"),
    ],
)
def test_it_is_refused(changes: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve("tiny", [*changes, "training.pieces=4"])


def test_a_run_keeps_its_identity() -> None:
    assert "pieces" not in resolve("tiny", []).model_dump(mode="json")["training"]


MEMORY = """
import resource, sys
import torch, seqloom
from seqloom.ops import backends
from seqloom.training.pieces import InPieces
model = seqloom.decoder("gated_delta", vocab=512, dim=64, depth=2, context=65536, position="none", dropout=0.0)
ids = torch.zeros(1, 65537, dtype=torch.int64)
def used():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model.loss_with_extras(ids[:, :64], ids[:, 1:65])[0].backward()
before = used()
reader = model if sys.argv[1] == "1" else InPieces(model, int(sys.argv[1]))
reader.loss_with_extras(ids[:, :-1], ids[:, 1:])[0].backward()
print(used() - before)
"""


@pytest.mark.slow
def test_eight_pieces_take_less_than_0_4_of_the_memory() -> None:
    sizes = [
        int(subprocess.run([sys.executable, "-c", MEMORY, pieces], capture_output=True, text=True, check=True).stdout)
        for pieces in ("1", "8")
    ]
    assert sizes[1] <= 0.4 * sizes[0], sizes


def test_it_counts_no_parameter_twice() -> None:
    from seqloom.training.objectives.next_token import NextToken
    from seqloom.training.step import Learner

    model = seqloom.decoder("gru", vocab=17, dim=16, depth=1, context=12)
    learner = Learner(model, NextToken(None, 12, 2))
    learner.read_by(InPieces(model, 2))
    assert len(learner.state_dict()) == len(model.state_dict())
