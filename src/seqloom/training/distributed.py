"""Several processes train one model: each reads its rows of every micro-batch, and they add up what they computed.

    g = Σ_r g_r,     g_r = ∂/∂θ Σ_p (n_pr / n) loss_pr        n_pr of the batch's n targets: micro-batch p, rank r

torchrun starts the processes (`torchrun --nproc-per-node 2 -m seqloom train …`). The weights, the batch and the dropout
are functions of (seed, step), so that only sums travel: of gradients, statistics and losses. They travel after the last
micro-batch, in an order that depends on the model alone, so that a run that continues sums as it did before. How
processes that fail end together: `seqloom.training.failures`. How those that are started again find each other:
`seqloom.training.attempt`.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from hashlib import sha256
from typing import Any, Self, final

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from seqloom.core import launch
from seqloom.core.divided import whole
from seqloom.training.attempt import agree_on_attempt
from seqloom.training.config import RunConfig, TrainConfig
from seqloom.training.group import Group
from seqloom.training.mesh import Mesh


@final
class Unwritten:
    """The rows of a run in a process that does not write them."""

    def append(self, row: Mapping[str, Any]) -> None:
        """Nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass


@contextmanager
def join_group(config: TrainConfig) -> Iterator[Group]:
    """The processes that were launched together, as a group inside the block; a single process is a group of one.

    ValueError where they cannot share the rows of a batch evenly, do not find each other, or where one fails.
    """
    size = launch.size()
    require_even(config, size)
    if size == 1:
        yield Group()
        return
    launch.require_address()
    limit = timedelta(seconds=config.timeout)
    device = _device(config.device)
    os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")  # by default a late rank aborts the others silently
    try:
        store, rank, size = next(rendezvous("env://", timeout=limit))
        name = agree_on_attempt(store, rank, size, config.timeout)
        backend = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
        dist.init_process_group(
            backend, store=PrefixStore(f"torch/{name}", store), rank=rank, world_size=size, timeout=limit
        )
    except RuntimeError as error:
        why = str(error).splitlines()[0]
        raise ValueError(f"the {size} processes did not find each other ({why}): start them with torchrun") from None
    mesh = Mesh(rank, size, config.sequence)
    group = Group(PrefixStore(f"seqloom/{name}", store), mesh, config.timeout)
    try:
        with group.answers():
            yield group
        group.meet()  # a process that leaves while another still sends would abort it
    except BaseException as error:
        ending = group.ending(error)
        if ending is error:
            raise
        raise ending from None
    finally:
        dist.destroy_process_group()


def require_even(config: TrainConfig, size: int) -> None:
    """ValueError unless this many processes can share the rows of each micro-batch evenly."""
    if size % config.sequence:
        raise ValueError(
            f"training.sequence={config.sequence} needs a multiple of {config.sequence} processes, not {size}: start "
            "them with --processes or torchrun, or choose another sequence"
        )
    groups, rows = size // config.sequence, config.batch // config.accumulate
    if rows % groups:
        pieces = f" in {config.accumulate} pieces of {rows}" if config.accumulate > 1 else ""
        sharing = f"{groups} groups of {config.sequence}" if config.sequence > 1 else f"{size}"
        raise ValueError(
            f"{sharing} processes cannot share training.batch={config.batch}{pieces} evenly: "
            f"choose a multiple of {groups * config.accumulate}"
        )


def require_one_dropout(config: RunConfig, size: int) -> None:
    """ValueError where the dropout of `size` processes would not be that of one.

    Packed documents are read in rows of their own, whose number and length differ between the processes.
    """
    if size > 1 and config.data.packed and config.layered_model.dropout:
        raise ValueError(
            f"the dropout of packed documents would depend on the number of processes, which is {size}: "
            "choose model.dropout=0, or train in one process"
        )


def digest(module: nn.Module) -> str:
    """sha256 of all parameters and buffers of a module."""
    result = sha256()
    for tensor in module.state_dict().values():
        result.update(whole(tensor).detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return result.hexdigest()


def _device(name: str) -> str:
    """The kind of device that a process trains on; each process of a machine takes a GPU of its own."""
    automatic = "cuda" if torch.cuda.is_available() else "cpu"
    kind = automatic if name == "auto" else name
    if kind == "cuda":
        gpus = torch.cuda.device_count()
        if launch.local_rank() >= gpus:
            raise ValueError(f"there are {gpus} GPUs here for more processes: start at most one for each GPU")
        torch.cuda.set_device(launch.local_rank())
    elif kind != "cpu":
        raise ValueError(f"several processes train on cpu or cuda, not training.device={name}")
    return kind
