"""The processes that train one model, and what they send each other: sums, and rank 0's decisions.

Tensors travel by torch's collectives (gloo, NCCL), plain JSON by the launcher's store. Each wait is a loop that notices
a process which died, failed or stalled (`seqloom.training.failures`).
"""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stderr, suppress
from io import StringIO
from typing import Any, TypeVar, final

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import Store, Work

from seqloom.core import launch
from seqloom.core.objective import Batch
from seqloom.training.attempt import POLL
from seqloom.training.failures import Lost, Reports, lost_by
from seqloom.training.mesh import Mesh
from seqloom.training.signals import Stop

T = TypeVar("T")
BEAT = 1.0
"""seconds between the signs of life of a process that others wait for"""
SIGNALLED = 15.0
"""seconds that a process waits for the others after it was asked to stop: a launcher kills after 30"""


@final
class Group:
    """The processes that train one model. Alone, nothing is sent and every sum is what was given."""

    def __init__(self, store: Store | None = None, mesh: Mesh | None = None, timeout: float = 0.0) -> None:
        self.mesh = mesh or Mesh()
        self.rank = self.mesh.rank
        self.size = self.mesh.size
        self.timeout = timeout
        """seconds that a process waits for the others"""
        self._store = store
        self._messages = 0
        self._reports = None if store is None else Reports(store, self.rank, self.size)
        self._stop: Stop | None = None

    @property
    def main(self) -> bool:
        """Whether this process writes the run: rank 0."""
        return self.rank == 0

    def rows(self, part: Batch) -> Batch:
        """This process's rows of a micro-batch."""
        if self.mesh.rows == 1:
            return part
        return {name: tensor.chunk(self.mesh.rows)[self.mesh.row] for name, tensor in part.items()}

    def gather(self, values: list[float]) -> list[list[float]]:
        """The numbers of each rank, in their order; equally many in each."""
        if self.size == 1:
            return [values]
        own = torch.tensor(values, dtype=torch.float64)
        by_rank = [torch.empty_like(own) for _ in range(self.size)]
        self.wait(dist.all_gather(by_rank, own, async_op=True))
        return [row.tolist() for row in by_rank]

    def sum(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The sums over all ranks; each rank has the same names."""
        if self.size == 1:
            return dict(values)
        sums = {name: value.clone() for name, value in values.items()}
        for value in sums.values():
            self.wait(dist.all_reduce(value, async_op=True))
        return sums

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Gives each parameter the sum of its gradients; none where no rank has one."""
        if self.size == 1:
            return
        by_dtype: dict[torch.dtype, list[nn.Parameter]] = {}
        for parameter in parameters:
            by_dtype.setdefault(parameter.dtype, []).append(parameter)
        for parameters_of_dtype in by_dtype.values():
            self._sum_flat(parameters_of_dtype)

    def _sum_flat(self, parameters: list[nn.Parameter]) -> None:
        """Sums the gradients of parameters of one dtype over all ranks, in one tensor, with flags of those present."""
        present = parameters[0].new_tensor([parameter.grad is not None for parameter in parameters])
        gradients = [
            torch.zeros_like(parameter) if parameter.grad is None else parameter.grad for parameter in parameters
        ]
        flat = torch.cat([*(gradient.flatten() for gradient in gradients), present])
        self.wait(dist.all_reduce(flat, async_op=True))
        *sums, counts = flat.split([*(parameter.numel() for parameter in parameters), len(parameters)])
        for parameter, total, count in zip(parameters, sums, counts.tolist(), strict=True):
            parameter.grad = total.view_as(parameter) if count else None

    def agree_to_stop(self, stop: Stop) -> bool:
        """Whether any rank was asked to stop; then `stop` is set in each, after the same step."""
        if self.size == 1:
            return stop.asked is not None
        self._stop = stop
        number = max(int(signal) for (signal,) in self.gather([float(stop.asked or 0)]))
        if number:
            stop.ask(number)
        return bool(number)

    def of_main(self, compute: Callable[[], T]) -> T:
        """What rank 0 computes, as plain JSON; the others wait for it."""
        if self._store is None:
            return compute()
        key = self._key()
        if self.main:
            value = compute()
            self._store.set(f"{key}/0", json.dumps(value))
            return value
        return json.loads(self._read(f"{key}/0"))

    def of_each(self, value: T) -> list[T]:
        """The values, as plain JSON, of all ranks in their order."""
        if self._store is None:
            return [value]
        key = self._key()
        self._store.set(f"{key}/{self.rank}", json.dumps(value))
        return [json.loads(self._read(f"{key}/{rank}")) for rank in range(self.size)]

    @contextmanager
    def main_first(self) -> Iterator[None]:
        """The block runs in rank 0, then in the first process of each other machine, then in all others.

        It may take as long as it does: those who wait see the beats of the one that is in it. Only rank 0 reports what
        it does there.
        """
        if self._store is None:
            yield
            return
        key = self._key()
        first_here = self.rank - launch.local_rank()
        for earlier in sorted({0, first_here} - {self.rank}):
            self._read(f"{key}/{earlier}", f"{key}/{earlier}/beats")
        with (
            nullcontext() if self.main else redirect_stderr(StringIO()),
            _beats(self._store, f"{key}/{self.rank}/beats"),
        ):
            yield
        self._store.set(f"{key}/{self.rank}", json.dumps(None))

    def require_same(self, facts: Mapping[str, Any]) -> None:
        """Raises ValueError, the same in each rank, where one has other facts than rank 0."""
        if self._store is None:
            return
        first, *others = self.of_each(_flat(facts))
        for rank, other in enumerate(others, 1):
            names = [name for name in {**first, **other} if first.get(name) != other.get(name)]
            if names:
                shown = ", ".join(f"{name} is {first.get(name)} there and {other.get(name)} here" for name in names[:3])
                more = f", and {len(names) - 3} more" if len(names) > 3 else ""
                raise ValueError(
                    f"rank {rank} differs from rank 0: {shown}{more}; start all with one command, data and torch"
                )

    def meet(self) -> None:
        """Waits until every rank is here."""
        if self.size > 1:
            self._stop = None  # a stop request does not end this wait: rank 0 may still be saving
            self.wait(dist.barrier(async_op=True))

    def answers(self) -> AbstractContextManager[None]:
        """Inside, this process answers others that ask after a failure whether it lives."""
        return nullcontext() if self._reports is None else self._reports.answers()

    def ending(self, error: BaseException) -> BaseException:
        """What this rank raises instead of an error, when all have reported theirs: see `Reports.ending`."""
        return error if self._reports is None else self._reports.ending(lost_by(error, self.timeout) or error)

    def wait(self, work: Work | None) -> None:
        """Waits for all ranks that a message is for to take part. Raises Lost where one does not."""
        assert work is not None
        assert self._reports is not None
        began = last_check = time.monotonic()
        while not work.is_completed():
            now = time.monotonic()
            waited = now - began
            stopping = self._stop is not None and self._stop.asked is not None
            if waited > self.timeout or (stopping and waited > SIGNALLED):
                raise Lost(waited)
            if now - last_check > 1:
                last_check = now
                self._reports.require_none()
            time.sleep(min(waited / 4, 0.001))
        try:
            work.wait()
        except RuntimeError as error:
            raise lost_by(error, self.timeout) or Lost() from error

    def _read(self, key: str, beats: str | None = None) -> bytes:
        """The value that a rank puts into the store under a key, once it is there. Raises Lost where it never comes.

        It is waited for while the count under `beats` grows.
        """
        assert self._store is not None
        assert self._reports is not None
        count, deadline = 0, time.monotonic() + self.timeout
        while not self._store.check([key]):
            self._reports.require_none()
            beat = 0 if beats is None else self._store.add(beats, 0)
            if beat > count:
                count, deadline = beat, time.monotonic() + self.timeout
            if time.monotonic() > deadline:
                raise Lost(self.timeout)
            time.sleep(POLL)
        return self._store.get(key)

    def _key(self) -> str:
        """The store's key for the next message: its number, the same in each rank."""
        self._messages += 1
        return str(self._messages)


@contextmanager
def _beats(store: Store, key: str) -> Iterator[None]:
    """Counts up under a key, once a second, while the block runs."""
    ended = threading.Event()

    def beat() -> None:
        with suppress(RuntimeError):  # whoever held the store has ended; the block meets it too
            while not ended.wait(BEAT):
                store.add(key, 1)

    thread = threading.Thread(target=beat, name="beats", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted name."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat
