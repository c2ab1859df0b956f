"""Which backend runs: forced, restored, remembered; a typo is an error that says what was near."""

import pytest
import torch

from seqloom.ops import backends
from seqloom.ops.attention import attend
from seqloom.ops.lag_sum import lags


def run() -> None:
    lags(torch.ones(1, 3, 2), torch.ones(2, 2))


def test_what_ran_is_remembered_until_it_is_forgotten() -> None:
    backends.forget()
    assert backends.used() == {}
    run()
    by_size = backends.used()["lag_sum"]
    assert len(by_size) == 1
    with backends.use(lag_sum="reference"):
        run()
    with backends.use(lag_sum="fft"):
        run()
    attend(*torch.ones(3, 1, 1, 2, 2))
    assert backends.used() == {"attention": ["formed"], "lag_sum": sorted({*by_size, "reference", "fft"})}
    backends.forget()
    assert backends.used() == {}


def test_blocks_nest_and_end() -> None:
    backends.forget()
    with backends.use(lag_sum="fft"):
        with backends.use(lag_sum="reference", attention="reference"):
            run()
            attend(*torch.ones(3, 1, 1, 2, 2))
        assert backends.used() == {"attention": ["reference"], "lag_sum": ["reference"]}
        backends.forget()
        run()
        attend(*torch.ones(3, 1, 1, 2, 2))
        assert backends.used() == {"attention": ["formed"], "lag_sum": ["fft"]}


def test_an_error_inside_ends_the_block() -> None:
    with pytest.raises(KeyError), backends.use(lag_sum="fft"):
        raise KeyError
    backends.forget()
    run()
    assert backends.used()["lag_sum"] != ["fft"]


@pytest.mark.parametrize(
    ("forced", "says"),
    [
        ({"lag_sums": "fft"}, "unknown op 'lag_sums'; did you mean 'lag_sum'"),
        ({"lag_sum": "ftt"}, "no backend 'ftt'; did you mean 'fft'"),
        ({"attention": "zzz"}, "no backend 'zzz'; there is formed, kernel, reference"),
    ],
)
def test_a_typo_is_an_error(forced: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        backends.check(forced)
    with pytest.raises(ValueError, match=says), backends.use(**forced):
        pass
    run()  # and nothing is forced


def test_a_backend_that_cannot_do_the_call_is_refused() -> None:
    with backends.use(lag_sum="toeplitz"), pytest.raises(ValueError, match="'toeplitz' of lag_sum cannot do this"):
        run()


def test_every_op_names_its_backends_once() -> None:
    for names in backends.known().values():
        assert "reference" in names
        assert len(set(names)) == len(names)
