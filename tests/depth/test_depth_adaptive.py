"""Depth-Adaptive's classifiers: probabilities and losses by hand, their inputs, and texts generated with them."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import seqloom
from seqloom.core.config import read
from seqloom.core.progress import show_nothing
from seqloom.data.tokens import Tokens
from seqloom.depth.classifier import Classifier, LayerPredictions, layer_predictions
from seqloom.depth.geometric import Geometric, GeometricConfig
from seqloom.depth.kinds import KINDS, classifier_config
from seqloom.depth.multinomial import Multinomial, MultinomialConfig
from seqloom.depth.oracles import sequence_oracle, token_oracle
from seqloom.depth.sequence import Sequence, SequenceConfig
from seqloom.depth.store import open_exits, save_exits
from seqloom.generation.exits import Exiting, Exits, compare, confidence
from seqloom.training.exit_fitting import fit_exits
from tests.depth.test_learned import VOCAB, model, text

TAUGHT = ("sequence", "multinomial", "geometric")


def drawn(config: Any) -> Any:
    """A classifier with random weights, in float64."""
    built = config.build().double()
    for parameter in built.parameters():
        torch.nn.init.normal_(parameter)
    return built


def windows(B: int = 2, T: int = 4, L: int = 3, D: int = 2) -> LayerPredictions:
    generator = torch.Generator().manual_seed(5)
    streams = [torch.randn(B, T, D, dtype=torch.float64, generator=generator) for _ in range(L)]
    likelihood = -torch.rand(B, T, L, dtype=torch.float64, generator=generator) * 3
    right = torch.rand(B, T, L, generator=generator) < 0.5
    return LayerPredictions(streams, right, right, likelihood)


def softmax(z: list[float]) -> list[float]:
    total = sum(math.exp(each) for each in z)
    return [math.exp(each) / total for each in z]


def affine(classifier: Any, x: Tensor) -> list[float]:
    """W x + b, number by number."""
    weight, biases = classifier.weight.tolist(), classifier.bias.tolist()
    return [
        bias + sum(w * each for w, each in zip(row, x.tolist(), strict=True))
        for row, bias in zip(weight, biases, strict=True)
    ]


def test_the_geometric_distribution_is_a_stick_breaking_product() -> None:
    """q by hand at χ = 0.3, 0.6: 0.3, 0.7 · 0.6, 0.7 · 0.4; and of random weights it adds up to 1."""
    geometric = GeometricConfig(depth=3, dim=1).build().double()
    with torch.no_grad():
        geometric.weight.fill_(1.0)
    x = [torch.tensor([[[math.log(chi / (1 - chi))]]], dtype=torch.float64) for chi in (0.3, 0.6, 0.5)]
    expected = torch.tensor([[[0.3, 0.42, 0.28]]], dtype=torch.float64)
    torch.testing.assert_close(geometric.log_law(x).exp(), expected, rtol=0, atol=1e-15)
    read = windows(T=5, L=6, D=3)
    law = drawn(GeometricConfig(depth=6, dim=3)).log_law(read.streams).exp()
    torch.testing.assert_close(law.sum(-1), torch.ones(2, 5, dtype=torch.float64), rtol=0, atol=1e-14)


@pytest.mark.parametrize("oracle", ["likelihood", "correctness"])
def test_the_loss_of_geometric_by_hand(oracle: Any) -> None:
    geometric, read = drawn(GeometricConfig(depth=3, dim=2, oracle=oracle, penalty=0.2, width=1.5)), windows()
    worth = read.likelihood if oracle == "likelihood" else read.right.double()
    expected, layers = [], token_oracle(worth, 0.2, 1.5)
    for row in range(2):
        for t in range(4):
            chi = [1 / (1 + math.exp(-affine(geometric, read.streams[n][row, t])[n])) for n in range(2)]
            law = [chi[0], (1 - chi[0]) * chi[1], (1 - chi[0]) * (1 - chi[1])]
            expected.append(-math.log(law[int(layers[row, t]) - 1]))
    assert len(set(layers.flatten().tolist())) > 1
    assert float(geometric.loss(read).detach()) == pytest.approx(sum(expected) / 8, abs=1e-13)
    assert torch.equal(geometric.target(read), layers)
    assert torch.autograd.gradcheck(lambda *_: geometric.loss(read), tuple(geometric.parameters()))


def test_the_loss_of_multinomial_by_hand() -> None:
    """It reads the stream after the first layer alone."""
    multinomial, read = drawn(MultinomialConfig(depth=3, dim=2, penalty=0.2, width=1.5)), windows()
    layers = token_oracle(read.likelihood, 0.2, 1.5)
    expected = [
        -math.log(softmax(affine(multinomial, read.streams[0][row, t]))[int(layers[row, t]) - 1])
        for row in range(2)
        for t in range(4)
    ]
    assert float(multinomial.loss(read).detach()) == pytest.approx(sum(expected) / 8, abs=1e-13)
    z = affine(multinomial, read.streams[0][1, 2])
    assert int(multinomial.depths(read.streams)[1, 2]) == z.index(max(z)) + 1
    assert torch.autograd.gradcheck(lambda *_: multinomial.loss(read), tuple(multinomial.parameters()))


def test_the_loss_of_sequence_by_hand() -> None:
    """It reads the mean of the first half after the last layer, and its oracle judges the second half."""
    sequence, read = drawn(SequenceConfig(depth=3, dim=2, penalty=0.5)), windows(T=5)
    expected = []
    for row in range(2):
        mean = sum(read.streams[2][row, t] for t in range(3)) / 3
        sums = [float(read.likelihood[row, 3, n] + read.likelihood[row, 4, n]) - 0.5 * (n + 1) for n in range(3)]
        assert sums.index(max(sums)) + 1 == int(sequence_oracle(read.likelihood[:, 3:], 0.5)[row])
        z = affine(sequence, mean)
        expected.append(-math.log(softmax(z)[sums.index(max(sums))]))
        assert sequence.depths(read.streams)[row].tolist() == [z.index(max(z)) + 1] * 5
    assert float(sequence.loss(read).detach()) == pytest.approx(sum(expected) / 2, abs=1e-13)
    assert torch.autograd.gradcheck(lambda *_: sequence.loss(read), tuple(sequence.parameters()))


@pytest.mark.slow
def test_predictions_of_each_layer() -> None:
    deep = model().double()
    ids = torch.from_numpy(text(26).ids.astype(np.int64)).view(2, 13)
    read = layer_predictions(deep, ids)
    for layer, x in enumerate(read.streams):
        log_p = deep.exit_logits(x, layer + 1).log_softmax(-1)
        for t in range(12):
            torch.testing.assert_close(read.likelihood[0, t, layer], log_p[0, t, ids[0, t + 1]].detach())
            assert bool(read.right[0, t, layer]) == (int(log_p[0, t].argmax()) == int(ids[0, t + 1]))


def counting(count: int = 2000) -> Tokens:
    """0, 1, …, 10, 0, …: which layer of a model is best at a token follows from the token."""
    ids = (np.arange(count) % VOCAB).astype("<u2")
    return Tokens(ids, np.zeros(1, np.int64), np.array([count], np.int64))


@pytest.mark.slow
@pytest.mark.parametrize("oracle", ["likelihood", "correctness"])
@pytest.mark.parametrize("kind", TAUGHT)
def test_they_learn(kind: str, oracle: str) -> None:
    """The loss falls, and a costly layer makes them choose early ones; a free one, late ones."""
    asked: dict[str, Any] = {"batches": 100, "batch": 8, "rate": 0.03, "show": show_nothing, "oracle": oracle}
    layers = []
    for penalty in (0.0, 50.0):
        fitted = fit_exits(model(std=0.7), counting(), kind, penalty=penalty, **asked)
        assert fitted.after < fitted.before
        rows = {row.by: row for row in fitted.judged}
        assert {"all layers", "the oracle"} <= rows.keys()
        layers.append(rows["--exit 0.5" if kind == "geometric" else "the classifier"].layers)
        if penalty:
            assert rows["the oracle"].layers == 1.0
    assert layers[1] == 1.0
    assert layers[0] > 1.0


def always(kind: str, layer: int, depth: int = 3) -> Classifier:
    """One that chooses a layer whatever it reads."""
    built: Any = classifier_config({"kind": kind, "depth": depth, "dim": 8}).build()
    with torch.no_grad():
        if kind == "geometric":
            built.bias.copy_(torch.tensor([40.0 if n >= layer else -40.0 for n in range(1, depth)]))
        else:
            built.bias[layer - 1] = 40.0
    return built


@pytest.mark.slow
@pytest.mark.parametrize("layer", [1, 2, 3])
@pytest.mark.parametrize("mode", ["slide", "stream"])
@pytest.mark.parametrize("kind", TAUGHT)
def test_a_text_by_a_classifier(kind: str, mode: Any, layer: int) -> None:
    deep = model(position="none")
    how: Any = {"max_tokens": 6, "mode": mode, "temperature": 0.0}
    early = seqloom.generate(deep, [1, 2], Exits(by=always(kind, layer), most=6), **how)
    written = list(early)
    assert isinstance(early.counts, Exiting)
    assert (early.counts.depth, early.counts.tokens) == (float(layer), 5)
    late = seqloom.generate(deep, [1, 2], Exits(by=always(kind, layer), most=6, first=3), **how)
    plain = list(seqloom.generate(deep, [1, 2], **how))
    assert list(late) == plain
    assert isinstance(late.counts, Exiting)
    assert late.counts.depth == 3.0
    assert layer < 3 or written == plain


@pytest.mark.slow
def test_a_prompt_chooses_the_layer_of_its_text() -> None:
    """Two prompts on either side of a classifier's border."""
    deep = model(position="none")
    means = [deep.features(torch.tensor([prompt])).mean(1)[0].detach() for prompt in ([1, 2, 3], [7, 7, 4])]
    sequence = SequenceConfig(depth=3, dim=8).build()
    with torch.no_grad():
        difference = means[0] - means[1]
        sequence.weight[0], sequence.bias[0] = difference, -difference @ (means[0] + means[1]) / 2
    for prompt, layers in (([1, 2, 3], 1.0), ([7, 7, 4], 2.0)):
        sequence.bias.data[1:] = torch.tensor([0.0, -50.0])
        text = seqloom.generate(deep, prompt, Exits(by=sequence), max_tokens=4)
        assert len(list(text)) == 4
        assert isinstance(text.counts, Exiting)
        assert text.counts.depth == layers


@pytest.mark.slow
def test_a_text_that_is_compared() -> None:
    class Letters:
        eos = 0

        def encode(self, words: str) -> list[int]:
            return [ord(letter) - ord("a") for letter in words]

    deep = model(position="none")
    deep.tokenizer = Letters()
    written = seqloom.generate(deep, [1, 2], Exits(by=always("sequence", 2)), max_tokens=9)
    list(written)
    assert isinstance(written.counts, Exiting)
    assert compare(written.counts, "bc", "defghij").startswith("2.00 of 3 layers on average over 8 tokens; ")


@pytest.mark.parametrize("kind", TAUGHT)
def test_they_are_saved_and_opened(kind: str, tmp_path: Path) -> None:
    deep, trained = model(), always(kind, 2)
    save_exits(trained, deep, "text", tmp_path / "exits")
    again = open_exits(tmp_path / "exits", deep)
    assert (type(again), again.config) == (type(trained), trained.config)
    assert all(torch.equal(again.state_dict()[name], value) for name, value in trained.state_dict().items())


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        ("learned", {"penalty": 0.1}, "^penalty is for kind sequence, multinomial or geometric, not learned"),
        ("sequence", {"width": 1.0}, "^width is for kind multinomial or geometric, not sequence: leave it out$"),
        ("sequence", {"witdh": 1.0}, "unknown setting 'witdh'"),
        ("geometric", {"width": 0.0}, "width"),
        ("geometric", {"oracle": "luck"}, "oracle"),
        ("multinomial", {"penalty": -0.1}, "penalty"),
        ("multinomial", {"penalty": math.nan}, "penalty"),
        ("multinomal", {}, "did you mean 'multinomial'"),
    ],
)
def test_impossible_settings_of_depth_adaptive(kind: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        fit_exits(model(), text(), kind, batches=1, batch=1, show=show_nothing, **settings)
    assert "\n" not in str(caught.value)


def test_the_judging_is_shown() -> None:
    """What is judged before and after the training takes time too."""
    done: list[tuple[str, float, list[float]]] = []

    @contextmanager
    def listening(label: str, total: float, unit: str) -> Iterator[Any]:
        steps: list[float] = []
        yield lambda amount=1, note="": steps.append(amount)
        done.append((label, total, steps))

    fit_exits(model(), text(), batches=2, batch=1, show=listening)
    assert [label for label, _, _ in done] == ["judging", "training", "judging"]
    assert all(sum(steps) == total for _, total, steps in done)


def test_a_window_of_one_token_has_no_prompt() -> None:
    with pytest.raises(ValueError, match="windows of one token have no prompt"):
        fit_exits(model(context=1), text(), "sequence", batches=1, batch=1, show=show_nothing)


@pytest.mark.parametrize(
    ("exits", "words"),
    [
        ({"threshold": 0.5, "by": always("multinomial", 1)}, "chooses the layer itself: leave the threshold out"),
        ({}, "exits by softmax need a threshold from 0 to 1"),
        ({"threshold": 0.5, "first": 4}, "exits after layer 4 and later lie beyond the model's depth of 3"),
        ({"threshold": 0.5, "first": 0}, "first: input should be greater than or equal to 1"),
    ],
)
def test_impossible_exits(exits: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        seqloom.generate(model(), [1], read(Exits, exits))


@pytest.mark.parametrize("kind", ["learned", "geometric"])
def test_without_a_threshold_a_classifier_exits_where_it_is_more_probable(kind: str) -> None:
    classifier = classifier_config({"kind": kind, "depth": 3, "dim": 8}).build()
    ids = {}
    for bias in (-1e-3, 1e-3):
        with torch.no_grad():
            classifier.bias.fill_(bias)  # the weights are 0
        text = seqloom.generate(model(), [1], Exits(by=classifier), max_tokens=5, mode="stream")
        ids[bias] = list(text)
        assert isinstance(text.counts, Exiting)
        assert text.counts.depth == (1 if bias > 0 else 3)
    assert len(ids[1e-3]) == len(ids[-1e-3]) == 5


@pytest.mark.slow
def test_what_is_asked_of_the_wrong_kind() -> None:
    x = torch.zeros(1, 8)
    with pytest.raises(ValueError, match="chooses the layer itself and has no confidence"):
        confidence(model(), 1, x, x, always("multinomial", 1))
    deep = model()
    with pytest.raises(ValueError, match=r"call begin\(prompts\) first"):
        Exiting(deep, Exits(by=always("sequence", 1))).step(torch.tensor([1]), deep.start(1))


def test_every_kind_is_here() -> None:
    assert set(KINDS) == {"learned", *TAUGHT}
    assert {Geometric, Multinomial, Sequence} == {type(always(kind, 1)) for kind in TAUGHT}
