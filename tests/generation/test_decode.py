"""`generate`: from text and from ids, where it ends, and that model and random state do not change."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from seqloom.generation.decode import generate, generate_ids
from seqloom.generation.sample import Sampling
from seqloom.models.decoder import Decoder

Build = Callable[..., Decoder]


@pytest.fixture
def model(decoder: Build, letters: Any) -> Decoder:
    built = decoder("he")
    built.tokenizer = letters
    return built


def longest(model: Decoder, **settings: Any) -> str:
    return "".join(generate(model, "ab c", max_tokens=60, ignore_eos=True, **settings))


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{}, {"hop": 3}, {"mode": "stream"}, {"temperature": 0}, {"top_k": 3, "top_p": 0.9}]
)
def test_text_is_the_text_of_the_ids(model: Decoder, letters: Any, settings: dict[str, Any]) -> None:
    ids = list(generate(model, letters.encode("ab c"), max_tokens=40, ignore_eos=True, seed=3, **settings))
    result = list(generate(model, "ab c", max_tokens=40, ignore_eos=True, seed=3, **settings))
    assert len(ids) == 40
    assert "".join(result) == letters.decode(ids)
    assert all(result)


@pytest.mark.slow
def test_greedy_is_the_argmax(model: Decoder) -> None:
    text = [1, 2, 3]
    for id in generate(model, text, max_tokens=12, mode="slide", temperature=0, ignore_eos=True):
        assert id == int(model(torch.tensor([text[-6:]]))[0, -1].argmax())
        text.append(id)
    assert len(text) == 15


@pytest.mark.slow
def test_a_seed_is_a_text(model: Decoder) -> None:
    assert longest(model, seed=1) == longest(model, seed=1) != longest(model, seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("start", [3, 10, 20])
def test_a_stop_string_cuts_the_text(model: Decoder, start: int) -> None:
    whole = longest(model)
    stop = whole[start : start + 3]
    assert len(stop) == 3
    assert longest(model, stop=["@", stop]) == whole[: whole.index(stop)]


@pytest.mark.slow
def test_eos_ends_the_text_unless_ignored(model: Decoder) -> None:
    ids = list(generate(model, [1, 2], max_tokens=80, ignore_eos=True, seed=2))
    assert 0 < ids.index(0) < 79
    assert list(generate(model, [1, 2], max_tokens=80, seed=2)) == ids[: ids.index(0)]
    model.tokenizer = None
    assert list(generate(model, [1, 2], max_tokens=80, seed=2)) == ids  # without a tokenizer no id is special


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["slide", "stream"])
def test_rows_of_a_batch_end_independently(model: Decoder, mode: Any) -> None:
    prompts = torch.tensor([[1, 2], [3, 4], [5, 6]])
    whole = generate_ids(model, prompts, max_tokens=30, mode=mode, sampling=Sampling(seed=1))
    assert [len(row) for row in whole] == [30] * 3
    ended = generate_ids(model, prompts, max_tokens=30, mode=mode, sampling=Sampling(seed=1), eos=0)
    assert ended == [row[: row.index(0)] if 0 in row else row for row in whole]
    assert len({len(row) for row in ended}) > 1


@pytest.mark.slow
def test_greedy_rows_do_not_depend_on_each_other(model: Decoder) -> None:
    prompts, greedy = torch.tensor([[1, 2], [3, 4]]), Sampling(temperature=0)
    both = generate_ids(model, prompts, max_tokens=15, sampling=greedy)
    assert both == [generate_ids(model, row[None], max_tokens=15, sampling=greedy)[0] for row in prompts]
    assert both[0] == list(generate(model, [1, 2], max_tokens=15, temperature=0, ignore_eos=True))


@pytest.mark.slow
def test_the_model_is_left_as_it_was(decoder: Build) -> None:
    model = decoder("she", dropout=0.5)
    calm = list(generate(model.eval(), [1, 2], max_tokens=8))
    model.train()
    model.layers[0].eval()  # a part that was frozen stays so
    flags = [module.training for module in model.modules()]
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    world = torch.get_rng_state()
    words, other = generate(model, [1, 2], max_tokens=8), generate(model, [1, 2], max_tokens=8)
    drawn = []
    for _ in range(8):  # two at once, and the caller's turn is the caller's
        drawn.append(next(words))
        assert next(other) == drawn[-1]
        assert [module.training for module in model.modules()] == flags
        assert torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()
    assert drawn == calm  # no dropout
    assert next(words, None) is None
    other.close()
    assert torch.equal(torch.get_rng_state(), world)
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    model(torch.tensor([drawn[:6]])).sum().backward()  # and can be trained on


def test_an_error_while_reading_leaves_training_mode(model: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("out of memory")

    words = generate(model.train(), [1, 2], max_tokens=8, ignore_eos=True)
    next(words)
    monkeypatch.setattr(model, "step", broken)
    with pytest.raises(RuntimeError, match="out of memory"):
        next(words)
    assert all(module.training for module in model.modules())


def test_an_early_close_leaves_training_mode(model: Decoder) -> None:
    text = generate(model.train(), "ab", max_tokens=50, ignore_eos=True)
    next(text)
    text.close()
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize("prompt", [(1, 2), torch.tensor([1, 2]), range(1, 3)])
def test_ids_of_any_sequence(model: Decoder, prompt: Any) -> None:
    assert list(generate(model, prompt, max_tokens=5)) == list(generate(model, [1, 2], max_tokens=5))


def test_a_long_prompt_counts_by_its_last_tokens(model: Decoder) -> None:
    prompt = [n % 10 + 1 for n in range(40)]
    last = prompt[-6:]
    slides = {"max_tokens": 5, "mode": "slide"}
    assert list(generate(model, prompt, **slides)) == list(generate(model, last, **slides))


@pytest.mark.parametrize(
    ("prompt", "settings", "message"),
    [
        ("", {}, "the prompt is empty: give at least one character"),
        ([], {}, "the prompt is empty: give at least one token"),
        ([1, 11], {}, "token id 11 of the prompt lies outside the model's vocabulary, 0 … 10"),
        ([1, -1], {}, "token id -1 of the prompt lies outside the model's vocabulary, 0 … 10"),
        ("a", {"stop": ["x", ""]}, "stop holds an empty string, which every text begins with: leave it out"),
        ("a", {"stop": "END"}, r"stop is a list of strings: write \['END'\]"),
        ([1], {"stop": ["x"]}, "stop is for a text prompt: token ids have no text to look for it in"),
        ("a", {"max_tokens": 0}, "max_tokens must be at least 1, not 0"),
        ("a", {"mode": "streem"}, r"unknown mode 'streem'; did you mean 'stream'\?"),
        ("a", {"hop": 9}, "hop must lie in .* not 9"),
        ("a", {"temperature": -1}, "temperature: .* not -1"),
        ("a", {"top_k": 0}, "top_k: .* not 0"),
        ("a", {"top_p": float("nan")}, "top_p: .* not nan"),
        ("a", {"seed": -1}, r"a seed must be a whole number of 0 … 4294967295 \(2\^32 - 1\), not -1"),
    ],
)
def test_errors_come_at_the_call_and_in_one_line(
    model: Decoder, prompt: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        generate(model, prompt, **settings)


def test_text_needs_a_tokenizer_and_batches_need_rows(decoder: Build) -> None:
    with pytest.raises(ValueError, match=r"^the model has no tokenizer .* or give token ids$"):
        generate(decoder(), "a")
    with pytest.raises(ValueError, match=r"^prompts are token ids \(B, T\) of at least one row, not \(3,\)$"):
        generate_ids(decoder(), torch.tensor([1, 2, 3]))
