"""A model whose weights, gradients and optimizer state are divided among the processes that train it (FSDP2).

    each layer, and what is around the layers, is a unit: its weights are gathered before it runs and freed after it;
    g = Σ_r g_r is summed and divided among the ranks as the backward leaves a unit; each rank updates its part

With `hybrid` the weights are divided among the processes of one machine, and the machines hold the same parts. What
uses the model outside of a training step does so in `Learner.call`, where the weights around the layers are gathered.

Source: Zhao et al., arXiv:2304.11277, by torch's `fully_shard`. torch divides gradients by the number of ranks; here
they are summed, since each rank's loss is its share of the batch's already.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
    register_fsdp_forward_method,
)

from seqloom.core import launch
from seqloom.core.device import choose_device
from seqloom.data.prepare import Corpus
from seqloom.models.block import Block
from seqloom.models.reversible import ReversibleBlock
from seqloom.retrieval.lookup import attach
from seqloom.training.config import RunConfig, TrainConfig
from seqloom.training.group import Group
from seqloom.training.preparation import build, learner_of
from seqloom.training.step import Learner


def mesh_of(config: TrainConfig, device: str, size: int) -> DeviceMesh:
    """The processes, in one row, or a row for each machine. ValueError where machines have not equally many."""
    if config.shard == "fsdp":
        return init_device_mesh(device, (size,))
    here = launch.local_size()
    if size % here:
        raise ValueError(f"training.shard=hybrid needs as many processes on each machine, not {size} by {here}")
    return init_device_mesh(device, (size // here, here), mesh_dim_names=("machines", "processes"))


def divide(learner: Learner, config: TrainConfig, mesh: DeviceMesh) -> None:
    """Divides the weights of a model and its objective among the processes of a mesh."""
    settings: dict[str, Any] = {
        "mesh": mesh,
        "reshard_after_forward": config.reshard,
        "offload_policy": CPUOffloadPolicy(pin_memory=False) if config.offload else OffloadPolicy(),
        "mp_policy": MixedPrecisionPolicy(),
    }
    if config.policy == "weights":
        settings["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in layers(learner):
        fully_shard(layer, **settings)
    fully_shard(learner, **settings)
    register_fsdp_forward_method(learner, "call")
    for unit in learner.modules():
        if isinstance(unit, FSDPModule):
            unit.set_gradient_divide_factor(1.0)
            unit.set_force_sum_reduction_for_comms(True)  # gloo has no scaled sum


def layers(learner: nn.Module) -> Iterator[Block]:
    """The layers of a model, each once; a layer inside of another is a part of it."""
    inside: set[int] = set()
    for module in learner.modules():
        if isinstance(module, Block) and id(module) not in inside:
            assert not isinstance(module, ReversibleBlock)
            inside |= {id(part) for part in module.modules()}
            yield module


def divided_learner(config: RunConfig, corpus: Corpus | None, group: Group) -> Learner:
    """The learner of a run, divided among the processes of a group: rank 0 builds it, and the others have their part.

    No rank but 0 holds all weights, and that one until each has its part.
    """
    source = learner_of(config, corpus) if group.main else None
    with torch.device("meta"):
        learner = build(config, corpus).to(config.training.dtype)
    device = choose_device(config.training.device)
    divide(learner, config.training, mesh_of(config.training, device.type, group.size))
    learner.to_empty(device=torch.device("cpu") if config.training.offload else device)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True, strict=True)
    set_model_state_dict(learner, {} if source is None else source.state_dict(), options=options)
    if config.model.looks_up:
        attach(learner.model)
    return learner
