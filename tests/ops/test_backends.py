"""Which backend runs: forced, restored, recorded; a misspelled name is an error that suggests the nearest."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from seqloom.ops import backends
from seqloom.ops.attention import attend
from seqloom.ops.fused.projection import project
from seqloom.ops.lag_sum import lags
from seqloom.ops.recurrence import elman, looped


def run() -> None:
    lags(torch.ones(1, 3, 2), torch.ones(2, 2))


def test_the_record_of_a_block() -> None:
    with backends.record_backends() as ran:
        assert ran == {}
        run()
        by_size = ran["lag_sum"]
        assert len(by_size) == 1
        with backends.use(lag_sum="reference"):
            run()
        with backends.use(lag_sum="fft"):
            run()
        attend(*torch.ones(3, 1, 1, 2, 2))
        assert ran == {"attention": ["formed"], "lag_sum": sorted({*by_size, "reference", "fft"})}
    before = {op: [*names] for op, names in ran.items()}
    with backends.use(lag_sum="direct"):
        run()
    assert ran == before


def test_records_nest() -> None:
    with backends.record_backends() as outer:
        with backends.use(lag_sum="fft"), backends.record_backends() as inner:
            run()
        with backends.use(lag_sum="reference"):
            run()
    assert inner == {"lag_sum": ["fft"]}
    assert outer == {"lag_sum": ["fft", "reference"]}


def test_blocks_nest_and_end() -> None:
    with backends.use(lag_sum="fft"):
        with backends.use(lag_sum="reference", attention="reference"), backends.record_backends() as ran:
            run()
            attend(*torch.ones(3, 1, 1, 2, 2))
        assert ran == {"attention": ["reference"], "lag_sum": ["reference"]}
        with backends.record_backends() as ran:
            run()
            attend(*torch.ones(3, 1, 1, 2, 2))
        assert ran == {"attention": ["formed"], "lag_sum": ["fft"]}


def test_an_error_inside_ends_the_block() -> None:
    with pytest.raises(KeyError), backends.use(lag_sum="fft"):
        raise KeyError
    assert backends.forced_backend("lag_sum") is None


def in_a_thread(call: Callable[[], object]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(call).result()


def test_threads_do_not_see_each_others_backends() -> None:
    both = Barrier(2, timeout=10)

    def use(name: str) -> dict[str, list[str]]:
        with backends.use(lag_sum=name), backends.record_backends() as ran:
            both.wait()
            run()
            both.wait()
        return ran

    with backends.use(lag_sum="reference"), backends.record_backends() as here, ThreadPoolExecutor(2) as pool:
        result = list(pool.map(use, ("fft", "direct")))
    assert result == [{"lag_sum": ["fft"]}, {"lag_sum": ["direct"]}]
    assert here == {}


def test_a_backward_in_another_thread_runs_the_backends_of_the_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recurrence's backward projects."""
    result = []

    def watched(*given: Tensor) -> Tensor:
        result.append(backends.forced_backend("projection"))
        return project(*given)

    monkeypatch.setattr(looped, "project", watched)
    x, w, weights = torch.ones(2, 3, 4), torch.ones(4, requires_grad=True), torch.ones(4, 4)
    with backends.use(projection="torch", recurrence="looped"):
        y, _ = elman(x, weights, w, weights, x[:, 0])

    def backward() -> None:
        with backends.use(projection="reference"):
            y.sum().backward()
            result.append(backends.forced_backend("projection"))

    in_a_thread(backward)
    assert result == ["torch", "torch", "reference"]
    assert w.grad is not None


def test_recomputation_in_another_thread_runs_the_backends_of_the_forward() -> None:
    x, w = torch.ones(1, 3, 2, requires_grad=True), torch.ones(2, 2)
    ran = []

    def forward(x: Tensor) -> Tensor:
        with backends.record_backends() as chosen:
            y = lags(x, w)
        ran.append((chosen, backends.forced_backend("attention")))
        return y.exp()

    with backends.use(lag_sum="fft"):
        y = checkpoint(forward, x, use_reentrant=False, context_fn=backends.checkpoint_contexts)

    def backward() -> None:
        with backends.use(lag_sum="direct", attention="reference"):
            y.sum().backward()

    in_a_thread(backward)
    assert ran == [({"lag_sum": ["fft"]}, None)] * 2


@pytest.mark.slow
@pytest.mark.graph
def test_a_graph_keeps_the_backend_that_it_was_captured_with() -> None:
    torch.compiler.reset()
    result = []

    def made(graph: torch.fx.GraphModule, _: object) -> Callable[..., object]:
        result.append("fft" in graph.code)
        return graph

    compiled = torch.compile(lambda x, w: lags(x, w), fullgraph=True, backend=made)
    x, w = torch.ones(1, 3, 2), torch.ones(2, 2)
    with torch.no_grad():
        for name in ("fft", "direct"):
            with backends.use(lag_sum=name):
                compiled(x, w)
        assert result == [True]
        torch.compiler.reset()
        with backends.use(lag_sum="direct"):
            compiled(x, w)
        assert result == [True, False]


@pytest.mark.parametrize(
    ("forced", "says"),
    [
        ({"lag_sums": "fft"}, "unknown op 'lag_sums'; did you mean 'lag_sum'"),
        ({"lag_sum": "ftt"}, "no backend 'ftt'; did you mean 'fft'"),
        ({"attention": "zzz"}, "no backend 'zzz'; there is by_distance, formed, kernel, reference"),
    ],
)
def test_a_typo_is_an_error(forced: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        backends.check(forced)
    with pytest.raises(ValueError, match=says), backends.use(**forced):
        pass
    run()  # and nothing is forced


def test_a_backend_that_cannot_do_the_call_is_an_error() -> None:
    with backends.use(lag_sum="toeplitz"), pytest.raises(ValueError, match="'toeplitz' of lag_sum cannot do this"):
        run()


def test_every_op_names_its_backends_once() -> None:
    for names in backends.known_backends().values():
        assert "reference" in names
        assert len(set(names)) == len(names)
