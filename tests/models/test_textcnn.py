"""TextCNN: its equations against loops in float64, padding, the norm of its output weights, training, refusals."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.cli import command
from seqloom.counting.count import count
from seqloom.models.kinds import model_config
from seqloom.models.textcnn import TextCNN
from seqloom.runs import model as stored
from seqloom.training.settings import resolve
from seqloom.training.train import train

V, D, M, T = 11, 6, 4, 9
GOOD, BAD = ("good", "nice", "happy"), ("bad", "sad", "awful")
TINY = (
    *("model.dim=16", "model.maps=8", "model.context=32", "training.batches=60", "training.batch=16"),
    *("training.device=cpu", "training.lr=0.01", "training.evaluate_every=0"),
)


def built(**changes: Any) -> TextCNN:
    torch.manual_seed(0)
    sizes = {"vocab": V, "dim": D, "maps": M, "context": 32, "labels": ["a", "b", "c"]}
    model = model_config({"kind": "textcnn", **sizes, **changes}).build()
    assert isinstance(model, TextCNN)
    if model.static is not None:
        model.static.normal_()  # not the vectors that are trained
    return model.double().eval()


def by_loops(model: TextCNN, ids: list[int]) -> Tensor:
    """Kim's Eq. 2 to 4 for one text, number by number."""
    tables = [table for table in (model.token and model.token.weight, model.static) if table is not None]
    words = [torch.cat([table[id] for table in tables]) for id in ids]
    z = []
    for h, layer in zip(model.config.widths, model.filters, strict=True):
        words += [torch.zeros_like(words[0])] * (h - len(words))
        for m in range(M):
            values = []
            for i in range(len(words) - h + 1):
                if i and i + h > len(ids):
                    continue
                c = layer.bias[m]
                for j in range(h):
                    c = c + (layer.weight[m, :, j] * words[i + j]).sum()
                values.append(max(float(c.detach()), 0.0))
            z.append(max(values))
    return model.head.weight @ torch.tensor(z, dtype=torch.float64) + model.head.bias


@pytest.mark.parametrize("channels", ["both", "tuned", "static"])
@pytest.mark.parametrize("size", [1, 2, 4, 5, T])
def test_textcnn_is_its_equations(channels: str, size: int) -> None:
    model = built(channels=channels)
    ids = torch.randint(V, (1, size))
    torch.testing.assert_close(model(ids)[0], by_loops(model, ids[0].tolist()), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_padding_and_dropped_tokens_change_nothing() -> None:
    model = built()
    ids, keep = torch.randint(V, (40, T)), torch.rand(40, T) > 0.4
    keep[:, 0] = True
    whole = model(ids, keep)
    for row in range(40):
        alone = by_loops(model, ids[row][keep[row]].tolist())
        torch.testing.assert_close(whole[row], alone, rtol=1e-12, atol=1e-12)


def test_the_gradient_is_of_one_window_for_each_map() -> None:
    model = built(widths=[3], maps=1, channels="tuned")
    x = model.vectors(torch.arange(T)[None]).detach().requires_grad_()
    torch.nn.init.constant_(model.filters[0].bias, 9.0)  # above 0 everywhere
    (d_x,) = torch.autograd.grad(model.pool(x, torch.tensor([T])).sum(), x)
    assert (d_x[0].abs().sum(1) > 0).sum() == 3


def test_dropout_is_of_the_maxima() -> None:
    model = built(dropout=0.5, maps=1000, widths=[3]).train()
    torch.nn.init.constant_(model.filters[0].bias, 9.0)
    dropped: list[Tensor] = []
    model.dropout.register_forward_hook(lambda module, given, z: dropped.append(z / given[0]))
    model(torch.arange(T)[None])
    assert set(dropped[0].flatten().round(decimals=9).tolist()) == {0.0, 2.0}
    assert 400 < int((dropped[0] == 0).sum()) < 600


@pytest.mark.parametrize("changes", [{}, {"channels": "tuned"}, {"channels": "static"}, {"widths": [2], "maps": 7}])
@pytest.mark.parametrize("length", [1, T])
def test_its_price(changes: dict[str, Any], length: int) -> None:
    model = built(**changes)
    price = model.cost(length)
    assert price.params == sum(parameter.numel() for parameter in model.parameters())
    if length == T:
        with torch.no_grad():
            executed = count(lambda: model(torch.zeros(1, T, dtype=torch.int64)))
        assert price.mul == executed.mul


def test_the_norm_of_each_label_is_at_most_three_after_an_update() -> None:
    model = built(most=3)
    with torch.no_grad():
        model.head.weight.copy_(torch.tensor([4.0, 2.0, 0.0])[:, None] * torch.ones(3, 3 * M) / (3 * M) ** 0.5)
    model.after_update(1, {})
    torch.testing.assert_close(model.head.weight.norm(dim=1), torch.tensor([3.0, 2.0, 0.0]).double())


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("textcnn")
    words = [("up", word) for word in GOOD] + [("down", word) for word in BAD]
    lines = [f"{label}\tthe {word} {n} cat" for n in range(30) for label, word in words]
    (folder / "labels.tsv").write_text("\n".join(lines))
    (folder / "two.tsv").write_text("\n".join(f"{line}\tand a dog" for line in lines))
    (folder / "test.tsv").write_text("up\tthe nice 31 cat\ndown\tthe awful cat\nup\tthe happy 3 cat\n")
    return folder


def trained(labels: Path, out: str, *changes: str) -> TextCNN:
    config = resolve("classifier/textcnn", [*TINY, *changes], str(labels / "labels.tsv"))
    train(config, labels / out, say=lambda line: None)
    model = stored.load(labels / out)[0]
    assert isinstance(model, TextCNN)
    return model


@pytest.mark.slow
def test_it_learns_and_its_static_vectors_stay(labels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = trained(labels, "run")
    config = model.config
    torch.manual_seed(0)
    first = config.build()
    assert isinstance(first, TextCNN)
    assert model.static is not None
    assert torch.equal(model.static, first.static)
    assert model.token is not None
    assert not torch.equal(model.token.weight, model.static)
    assert config.labels == ("down", "up")
    assert command(["evaluate", str(labels / "run"), "--data", str(labels / "test.tsv"), "--json"]) == 0
    assert '"accuracy": 1.0, "examples": 3' in capsys.readouterr().out


@pytest.mark.slow
def test_training_keeps_the_norm(labels: Path) -> None:
    norms = trained(labels, "free", "model.most=null").head.weight.norm(dim=1)
    assert norms.min() > 0.6
    norms = trained(labels, "held", "model.most=0.5").head.weight.norm(dim=1)
    torch.testing.assert_close(norms, torch.full((2,), 0.5))


@pytest.mark.slow
def test_textcnn_goes_on_bit_for_bit(labels: Path) -> None:
    trained(labels, "halves", "training.batches=9")
    halves, whole = trained(labels, "halves", "training.batches=14"), trained(labels, "whole", "training.batches=14")
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, halves.state_dict()[name]), name


REFUSED: list[tuple[list[str], str]] = [
    (["--data", "two.tsv"], "a textcnn reads one text, and the examples have two: choose model.kind=classifier"),
    (["--set", "model.widths=[3,3]"], "widths [3, 3] are different numbers of words, each at least 1"),
    (["--set", "model.widths=[0]"], "widths [0] are different numbers of words, each at least 1"),
    (["--set", "model.context=4"], "a filter of width 5 is wider than context=4"),
    (["--set", "model.channels=two"], "model.channels: input should be 'both', 'tuned' or 'static'"),
    (["--set", "model.mixer.kind=she"], "mixer"),
    (["--set", "training.objective.kind=next_token"], "choose training.objective.kind=labels"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED, ids=str)
def test_errors_of_textcnn_in_one_line(
    labels: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(labels / word) if word.endswith(".tsv") else word for word in words]
    assert command(["train", "classifier/textcnn", *given, "--out", str(labels / "none")]) == 2
    printed = capsys.readouterr().err.strip().splitlines()
    assert message in printed[-1]
    assert len([line for line in printed if line.startswith("seqloom:")]) == 1


def test_wrong_calls() -> None:
    ids = torch.tensor([[0, 3, 0]])
    with pytest.raises(ValueError, match="a textcnn reads one text per row: leave second out"):
        built()(ids, None, ids * 0)
    with pytest.raises(ValueError, match="it has no price of a token"):
        built().cost(T, "token")
    with pytest.raises(ValueError, match=r"token ids must lie in 0 … 10"):
        built()(ids + 9)


@pytest.mark.slow
def test_it_is_compared_with_a_classifier_of_mixers(labels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sets = ["training.batches=3", "training.batch=4", "training.schedule.kind=constant", "training.device=cpu"]
    changes = [part for change in sets for part in ("--set", change)]
    words = ["compare", "classifier/small", "classifier/textcnn", "--data", str(labels / "labels.tsv"), *changes]
    assert command([*words, "--out", str(labels / "compared")]) == 0
    assert "race failed" not in capsys.readouterr().err
