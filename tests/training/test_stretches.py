"""Processes that share the tokens of each row: losses and weights of one process, and how long they wait."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.core import launch
from seqloom.core.model_config import weightless
from seqloom.models.decoder import Decoder
from seqloom.training.distributed import join_group, require_even
from seqloom.training.group import Group
from seqloom.training.memory import activations
from seqloom.training.mesh import Mesh
from seqloom.training.objectives.next_token import NextToken, PackedNextToken
from seqloom.training.relay import Relay, receive, send
from seqloom.training.settings import resolve
from seqloom.training.step import Learner, Step
from seqloom.training.stretches import InStretches, require_stretches
from tests.training.balancing import BalancedConfig
from tests.training.running import digests, mixer, tiny
from tests.training.stepping import CONTEXT, decoder, descent, noise
from tests.training.test_distributed import DOUBLE, balanced
from tests.training.test_packed import documents
from tests.training.test_sharding import STREAMS, assert_close, setting_of
from tests.training.together import run, steps, three_steps, together

BASE = ("training.precision=float64", "model.dropout=0.1", "training.batches=3", "training.clip=0.5")
SHORT = (*BASE, "training.accumulate=2", "model.depth=2", "model.context=17")
PACKED = (*SHORT, "model.dropout=0.0", "data.packed=true")
UNIVERSAL = ("model.kind=universal", "model.depth=3", mixer("attention"), *BASE)
RUNS = {
    "constant": (mixer("gated_delta"), *SHORT),
    "packed": (mixer("attention"), *PACKED),
    "packed, dropout": (mixer("gated_delta"), *SHORT, "data.packed=true"),
    "universal": UNIVERSAL,
    "learned": (mixer("he"), *SHORT, "model.position=learned"),
    "rotary": (mixer("attention"), *SHORT, "model.position=rotary"),
    "second state": (mixer("rwkv"), *SHORT, "model.ffn.kind=channel_mix"),
    "gates": (mixer("gru"), *SHORT, "model.residual=gru"),
    "norms": (mixer("gru"), *SHORT, "model.norm_place=both"),
    "tied": (mixer("mamba2"), *SHORT, "model.tie=true"),
}
QUICK = ("constant", "packed")
"""those in one pair of processes"""


WITHOUT_LOSS = {"compressive": ("model.mixer={kind: compressive, heads: 4, memory: 6, rate: 3, loss: none}",)}
"""its own loss is of what is read in one piece, so that it is refused"""


def sequence(ranks: int) -> str:
    return f"training.sequence={ranks}"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every quick job that takes two processes, in one pair of them."""
    folder = tmp_path_factory.mktemp("together")
    jobs = [run(folder / name, *RUNS[name], sequence(2)) for name in QUICK]
    jobs += [partial(unused, folder / "unused")]
    jobs += [steps(folder / f"{model.__name__}.pt", model, DOUBLE, sequence(2)) for model in (balanced, frozen)]
    jobs += [partial(trace, folder / f"{kind} {context}", kind, context) for kind in SENT for context in (24, 48)]
    jobs += [run(folder / "apart", *RUNS["constant"], only={1: (sequence(2),)})]
    messages = together(jobs, folder / "messages")
    assert messages[:-1] == [["", ""]] * (len(jobs) - 1)
    assert "training.sequence is 1 there and 2 here" in messages[-1][0] + messages[-1][1]
    return folder


@pytest.mark.parametrize("name", QUICK)
def test_losses_and_weights_are_those_of_one_process(trained: Path, tmp_path: Path, name: str) -> None:
    tiny(tmp_path, *RUNS[name], say=lambda line: None)
    assert_close(trained / name, tmp_path)


@pytest.mark.slow
def test_a_run_goes_on_bit_for_bit_and_with_whole_rows(trained: Path, tmp_path: Path) -> None:
    jobs = [run(tmp_path / name, *RUNS["constant"], "training.batches=2", sequence(2)) for name in ("cut", "loose")]
    jobs += [run(tmp_path / "cut", *RUNS["constant"], sequence(2))]
    assert together(jobs, tmp_path / "messages") == [["", ""]] * 3
    assert digests(tmp_path / "cut") == digests(trained / "constant")
    tiny(tmp_path / "loose", *RUNS["constant"], say=lambda line: None)
    assert_close(tmp_path / "loose", trained / "constant")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in RUNS if name not in QUICK])
def test_of_other_models(tmp_path: Path, name: str) -> None:
    assert together([run(tmp_path / "three", *RUNS[name], sequence(3))], tmp_path / "messages", 3) == [[""] * 3]
    tiny(tmp_path / "one", *RUNS[name], say=lambda line: None)
    assert_close(tmp_path / "three", tmp_path / "one")


@pytest.mark.slow
def test_rows_and_stretches(tmp_path: Path) -> None:
    """Four processes: two share the rows, and of each row two share the tokens."""
    assert together([run(tmp_path / "four", *RUNS["constant"], sequence(2))], tmp_path / "messages", 4) == [[""] * 4]
    tiny(tmp_path / "one", *RUNS["constant"], say=lambda line: None)
    assert_close(tmp_path / "four", tmp_path / "one")


@pytest.mark.slow
@pytest.mark.sample(16)
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("number", range(22))
def test_every_mixer_that_streams(tmp_path: Path, number: int, ranks: int) -> None:
    few = STREAMS[number::22]
    settings = {kind: (*WITHOUT_LOSS.get(kind, (f"model.mixer={setting_of(kind)}",)), *SHORT) for kind in few}
    jobs = [run(tmp_path / kind, *changes, sequence(ranks)) for kind, changes in settings.items()]
    messages = dict(zip(few, together(jobs, tmp_path / "messages", ranks), strict=True))
    assert messages == {kind: [""] * ranks for kind in few}
    for kind, changes in settings.items():
        tiny(tmp_path / f"{kind} alone", *changes, say=lambda line: None)
        assert_close(tmp_path / kind, tmp_path / f"{kind} alone")


def frozen() -> Decoder:
    """A model of which a layer in the middle alone learns."""
    model = decoder("gated_delta", depth=3, dropout=0.0).double().requires_grad_(False)
    model.layers[1].requires_grad_(True)
    return model


@pytest.mark.parametrize("model", [balanced, frozen])
def test_extras_and_parameters_without_gradients(trained: Path, tmp_path: Path, model: Callable[[], Decoder]) -> None:
    three_steps(tmp_path / "one", model, DOUBLE)
    actual, expected = torch.load(trained / f"{model.__name__}.pt"), torch.load(tmp_path / "one")
    assert actual["losses"] == pytest.approx(expected["losses"], abs=1e-12)
    for name, value in expected["weights"].items():
        torch.testing.assert_close(actual["weights"][name], value, rtol=0, atol=1e-11)
    learned = sum(not torch.equal(value, model().state_dict()[name]) for name, value in actual["weights"].items())
    assert learned > 2


def unused(path: Path) -> None:
    """Rank 1 computes nothing from what it receives; rank 0 gets gradients of 0 and does not wait for ever."""
    with join_group(resolve("tiny", [sequence(2), "training.timeout=20"]).training) as group:
        relay = Relay(group, torch.device("cpu"))
        x = torch.ones(2, 3)
        state = torch.ones(4, dtype=torch.float64, requires_grad=True)
        read = torch.arange(3)
        if group.main:
            x = send(relay, x, [read, state])
        else:
            x, (read, _) = receive(relay, x, [torch.empty_like(read), torch.empty_like(state)])
            assert read.tolist() == [0, 1, 2]
        x.sum().backward()
        if group.main:
            torch.save(state.grad, path)


def test_a_rank_that_does_not_use_what_it_received_answers(trained: Path) -> None:
    assert torch.equal(torch.load(trained / "unused"), torch.zeros(4, dtype=torch.float64))


SENT = ("gated_delta", "attention")
DEPTH, PARTS = 2, 4
FORWARD, BACKWARD = 1.0, 2.0


def trace(path: Path, kind: str, context: int = CONTEXT) -> None:
    """Saves what this process does in a step, in order, and the bytes that it sends."""
    changes = [f"training.accumulate={PARTS}", "training.batch=8", "training.timeout=60"]
    config = resolve("tiny", [*changes, sequence(launch.size())]).training
    model = decoder(kind, depth=DEPTH, context=context, position={"kind": "none"})
    with join_group(config) as group:
        learner = Learner(model, NextToken(noise(), context, config.batch))
        reader = InStretches(model, group)
        learner.read_by(reader)
        events: list[str] = []
        for name in ("give", "take", "give_back", "take_back"):
            setattr(reader.relay, name, recorded(events, name, getattr(reader.relay, name)))
        for block in model.blocks:
            block.register_forward_hook(lambda *_: events.append("forward"))
            block.register_full_backward_hook(lambda *_: events.append("backward"))
        batch = learner.objective.batch(0, 0, model)
        parts = [{"ids": ids} for ids in batch["ids"].chunk(PARTS)]
        Step(learner, descent(model, 0.1), config, group)(parts, [PARTS] * PARTS, lambda losses: None)
        torch.save({"events": events, "bytes": reader.relay.bytes}, path.with_name(f"{path.name}-{group.rank}"))


def recorded(events: list[str], name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def recorded_call(tensors: Any) -> Any:
        events.append(name)
        return call(tensors)

    return recorded_call


@pytest.mark.parametrize("kind", SENT)
def test_what_is_sent_does_not_grow_with_the_text(trained: Path, kind: str) -> None:
    sizes = [[torch.load(trained / f"{kind} {context}-{rank}")["bytes"] for rank in (0, 1)] for context in (24, 48)]
    assert all(sent > 0 for sent in sizes[0])
    grows = kind == "attention"
    assert (sizes[1] == sizes[0]) is not grows
    if grows:
        assert sizes[1] == [2 * sent for sent in sizes[0]], "its keys and values"


def waiting(traces: list[list[str]]) -> float:
    """The largest share of the time in which a process waits, if a layer's forward takes 1 and its backward 2.

    A message arrives at once, and each process does what its trace says, in this order.
    """
    costs = {"forward": FORWARD, "backward": BACKWARD}
    sources = {"take": -1, "take_back": 1}
    ranks = len(traces)
    clocks, places = [0.0] * ranks, [0] * ranks
    sent: dict[tuple[int, str], list[float]] = {}
    taken: dict[tuple[int, str], int] = {}
    while any(place < len(events) for place, events in zip(places, traces, strict=True)):
        before = list(places)
        for rank, events in enumerate(traces):
            while places[rank] < len(events):
                event = events[places[rank]]
                if event in sources:
                    queue = sent.get((rank + sources[event], "give" + event.removeprefix("take")), [])
                    number = taken.get((rank, event), 0)
                    if number == len(queue):
                        break
                    clocks[rank] = max(clocks[rank], queue[number])
                    taken[rank, event] = number + 1
                elif event in costs:
                    clocks[rank] += costs[event]
                else:
                    sent.setdefault((rank, event), []).append(clocks[rank])
                places[rank] += 1
        assert places != before, "the processes wait for each other"
    work = [sum(costs.get(event, 0.0) for event in events) for events in traces]
    return max(1 - each / max(clocks) for each in work)


def assert_busy(folder: Path, name: str, ranks: int) -> None:
    traces = [torch.load(folder / f"{name}-{rank}")["events"] for rank in range(ranks)]
    for events in traces:
        assert events.count("forward") == events.count("backward") == DEPTH * PARTS
    steps = DEPTH * PARTS
    assert 0 < waiting(traces) <= 1 - steps / (steps + ranks - 1) + 0.1


def test_two_processes_wait_little(trained: Path) -> None:
    assert_busy(trained, "gated_delta 24", 2)


@pytest.mark.slow
def test_three_processes_wait_little(tmp_path: Path) -> None:
    assert together([partial(trace, tmp_path / "gru", "gru", 24)], tmp_path / "messages", 3) == [[""] * 3]
    assert_busy(tmp_path, "gru", 3)


def test_a_schedule_of_one_micro_batch_after_the_other_waits_longer() -> None:
    """So that the bound can be missed."""
    first = ["forward", "give"] * DEPTH + ["take_back", "backward"] * DEPTH
    last = ["take", "forward"] * DEPTH + ["backward", "give_back"] * DEPTH
    steps = DEPTH * PARTS
    assert waiting([first * PARTS, last * PARTS]) > 1 - steps / (steps + 1) + 0.1


class Alone:
    """What a process of some stretches sends, kept for the next one, as if each ran after the other."""

    def __init__(self, messages: list[list[Tensor]]) -> None:
        self.messages = messages

    def give(self, tensors: list[Tensor]) -> None:
        self.messages.append([tensor.detach().clone() for tensor in tensors])

    def take(self, like: list[Tensor]) -> list[Tensor]:
        taken = self.messages.pop(0)
        assert [(each.shape, each.dtype) for each in taken] == [(each.shape, each.dtype) for each in like]
        return taken


def in_turns(model: Decoder, ranks: int, read: Callable[[InStretches], Any]) -> list[Any]:
    """What each process of one row of them reads, forward alone."""
    messages: list[list[Tensor]] = []
    results = []
    for rank in range(ranks):
        group = Group(mesh=Mesh(rank, ranks, ranks))
        reader = InStretches.__new__(InStretches)
        reader.model, reader.relay, reader._mesh = model, Alone(messages), group.mesh  # type: ignore[assignment]
        results.append(read(reader))
    assert not messages
    return results


def test_extras_of_documents_that_are_shorter_than_there_are_processes() -> None:
    model = decoder("gru", depth=1, dropout=0.0, mixer=BalancedConfig(weight=0.5)).double()
    objective = PackedNextToken(documents(), CONTEXT, rows=4)
    batch = objective.batch(0, 0, model)
    expected = objective.losses(model, batch, {})
    passes = in_turns(model, 5, lambda reader: objective.losses(reader, batch, {}))
    for name in ("losses", "statistics"):
        wanted = getattr(expected.extras, name)
        for key, value in wanted.items():
            torch.testing.assert_close(sum(getattr(each.extras, name)[key] for each in passes), value)
    torch.testing.assert_close(sum(each.losses["loss"] for each in passes), expected.losses["loss"])


@pytest.mark.parametrize(("tokens", "lengths"), [(7, [3, 2, 2]), (6, [2, 2, 2]), (2, [1, 1, 0])])
def test_stretches_cover_a_row(tokens: int, lengths: list[int]) -> None:
    stretches = [Mesh(rank, 6, 3).stretch(tokens) for rank in range(3, 6)]
    assert [last - first for first, last in stretches] == lengths
    assert [first for first, _ in stretches] == [0, *(last for _, last in stretches[:-1])]


def test_processes_of_a_row_are_neighbors() -> None:
    assert [(mesh.row, mesh.place) for mesh in (Mesh(rank, 6, 3) for rank in range(6))] == [
        *((0, 0), (0, 1), (0, 2)),
        *((1, 0), (1, 1), (1, 2)),
    ]
    batch = {"ids": torch.arange(8).view(4, 2)}
    assert Group(mesh=Mesh(4, 6, 3)).rows(batch)["ids"].tolist() == [[4, 5], [6, 7]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["training.shard=fsdp"], "without training.shard: choose one"),
        (["training.pieces=2"], "without training.pieces: choose one"),
        (["training.graph=capture"], "without training.graph=capture"),
        (["training.compile=true"], "without training.compile"),
        (["training.recompute=layer"], "without training.recompute=layer"),
        (["training.memory=carry", "model.position.kind=none"], "without training.memory=carry"),
        (["model.sublayers=reversible"], "without model.sublayers=reversible"),
        (["model.kind=universal", "model.halt=true"], "model.halt=true ends each token by itself"),
        (["model.kind=encoder", "training.objective.kind=masked_token"], "masked_token"),
        (["model.mixer={kind: sinkhorn, noise: true}"], "model.mixer.noise of sinkhorn would depend on"),
        (["model.mixer.kind=compressive"], "model.mixer.loss of compressive would depend on training.sequence"),
        (
            ["model.mixer={kind: routing, choice: text}"],
            "cannot be trained with training.sequence: no state in",
        ),
        (["model.context=1"], "training.sequence=2 processes cannot share rows of 1 tokens"),
    ],
)
def test_it_is_refused(changes: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve("tiny", [mixer("gru"), *changes, sequence(2)])


@pytest.mark.parametrize(
    ("changes", "size", "message"),
    [
        ([], 1, "training.sequence=2 needs a multiple of 2 processes, not 1: start them with --processes or torchrun"),
        ([], 3, "training.sequence=2 needs a multiple of 2 processes, not 3"),
        (["training.accumulate=2"], 8, "4 groups of 2 processes cannot share training.batch=4 in 2 pieces of 2 evenly"),
    ],
)
def test_numbers_of_processes_that_do_not_fit(changes: list[str], size: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        require_even(resolve("tiny", [mixer("gru"), *changes, sequence(2)]).training, size)


def test_one_process_alone_does_not_ignore_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs a multiple of 2 processes, not 1"):
        tiny(tmp_path, mixer("gru"), sequence(2))
    assert not list(tmp_path.iterdir())


def test_a_model_of_another_kind_is_refused() -> None:
    config = resolve("tiny", [mixer("gru"), "model.kind=spalm"]).model
    with pytest.raises(ValueError, match=r"model\.kind=spalm is not read in stretches"):
        require_stretches(weightless(config))


def test_they_hold_a_stretch_of_all_micro_batches() -> None:
    def needed(*changes: str) -> int:
        config = resolve("tiny", [mixer("gru"), "model.context=64", "training.batch=8", *changes])
        return activations(config.model, config.training)

    apart = needed("training.accumulate=4")
    assert needed("training.accumulate=4", sequence(4)) == apart
    assert needed(sequence(4)) == apart
    assert needed("training.accumulate=4", "training.pieces=2") < apart < needed()


def test_a_run_keeps_its_identity() -> None:
    plain, shared = resolve("tiny", [mixer("gru")]), resolve("tiny", [mixer("gru"), sequence(2)])
    assert "sequence" not in plain.model_dump(mode="json")["training"]
    assert plain.identity("") == shared.identity("")
