"""A folder of transformers as a model of ours: its config.json and safetensors, without transformers.

    load("…/SmolLM2-135M")        one of `families`, or what `seqloom export hf` wrote

The model has the dtype of the file. It is built without memory, and each parameter is filled from the file on its own,
so that little more memory is needed than the model has. No code in the folder runs; `auto_map` is ignored.
"""

import re
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import nn

from seqloom.core.available_memory import require_memory
from seqloom.core.files import read_json
from seqloom.core.mixer import rebuild_buffers
from seqloom.core.model import Model
from seqloom.models.foreign import OF_STATE_SPACES, PTH
from seqloom.models.foreign.families import FAMILIES, NOT_BUILT
from seqloom.models.foreign.family import Foreign
from seqloom.models.foreign.folder import Tensors, open_tensors
from seqloom.models.foreign.pickled import PickledTensors
from seqloom.models.foreign.rwkv import settings_of
from seqloom.models.foreign.values import Values
from seqloom.models.kinds import model_config

CONFIG = "config.json"
LARGEST = 16 << 20
"""the most bytes of a config.json"""
AnyTensors: TypeAlias = Tensors | PickledTensors


def read_settings(folder: Path) -> Foreign:
    """What the folder's config.json describes. ValueError for a family or a setting that is not built."""
    path = folder / CONFIG
    content = read_config(folder)
    kind = content.get("model_type")
    if isinstance(kind, str) and kind in NOT_BUILT:
        raise ValueError(f"{path}: {kind}: {NOT_BUILT[kind]}")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise ValueError(f"{path}: models of type {kind!r} are not read; {', '.join(FAMILIES)} are")
    if "quantization_config" in content:
        raise ValueError(f"{path}: quantized weights are not read: choose the folder of the model as it was trained")
    values = Values(content, str(path))
    try:
        foreign = FAMILIES[kind].read(values)
    except (ValueError, TypeError) as error:
        raise ValueError(str(error) if str(error).startswith(str(path)) else f"{path}: {error}") from None
    values.finish()
    return foreign


def read_config(folder: Path) -> dict[str, Any]:
    """The content of the folder's config.json, or what takes its place: settings that follow from shapes.

    ValueError where there is neither.
    """
    path = folder / CONFIG
    if not path.is_file():
        with open_tensors(folder, PTH) as tensors:
            try:
                return settings_of({name: tensors.shape(name) for name in tensors.names})
            except ValueError as error:
                raise ValueError(f"{folder}: {error}") from None
    content = read_json(path, LARGEST, infinite=True)
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds no settings (a JSON object)")
    if "model_type" not in content and content.keys() >= OF_STATE_SPACES:
        return {"model_type": "state_spaces", **content}
    return content


def load(folder: Path, device: torch.device | str = "cpu") -> Model:
    """The model, ready to read and generate.

    FileNotFoundError where files are missing; ValueError, in one line, for what is not built, damaged or does not fit.
    """
    foreign = read_settings(folder)
    config = model_config(foreign.settings)
    pickled = FAMILIES[read_config(folder)["model_type"]].pickled
    with open_tensors(folder, pickled) as tensors:
        names = _names(foreign, tensors, folder)
        dtypes = {tensors.dtype(name) for name in names.values()}
        dtype = max(dtypes, key=lambda candidate: (torch.finfo(candidate).bits, candidate == torch.bfloat16))
        expected = config.tensors()
        size = sum(tensor.numel() for tensor in expected.values()) * dtype.itemsize
        require_memory(f"loading the model in {folder}", int(1.1 * size), "use a machine with more memory")
        with torch.device("meta"):
            model = config.build().to(dtype)
        _fill(model, foreign, tensors, names, folder, torch.device(device))
    rebuild_buffers(model)
    return model.eval()


def _names(foreign: Foreign, tensors: AnyTensors, folder: Path) -> dict[str, str]:
    """The name in the file of each tensor of the table: a file of a model's body lacks the prefix.

    ValueError where one is missing, or one is there that the table does not have.
    """
    present = {name for name in tensors.names if not re.fullmatch(foreign.without_weights, name)}
    wanted = [name for part in foreign.parts for name in part.theirs]
    names = {name: name for name in wanted}
    if foreign.prefix and not any(name.startswith(foreign.prefix) for name in present):
        names = {name: name.removeprefix(foreign.prefix) for name in wanted}
    for end, old_end in foreign.older.items():
        older = {ours: name.removesuffix(end) + old_end for ours, name in names.items() if name.endswith(end)}
        names |= {ours: name for ours, name in older.items() if name in present}
    missing = sorted(set(names.values()) - present)
    if missing:
        raise ValueError(f"{folder}: the weights lack {missing[0]} ({len(missing):,} are missing)")
    unknown = sorted(present - set(names.values()))
    if unknown:
        raise ValueError(f"{folder}: the weights have {unknown[0]}, which this model does not ({len(unknown):,} such)")
    return names


def _fill(
    model: Model, foreign: Foreign, tensors: AnyTensors, names: dict[str, str], folder: Path, device: torch.device
) -> None:
    """Gives each tensor of the model memory and its values."""
    own: dict[str, Any] = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    saved = model.state_dict().keys()
    filled = set()
    for part in foreign.parts:
        planned = own.get(part.ours)
        if planned is None:
            raise AssertionError(f"the table of names has {part.ours}, which the model has not")
        for name, shape in zip(part.theirs, part.shapes(tuple(planned.shape)), strict=True):
            if tensors.shape(names[name]) != shape:
                found = tensors.shape(names[name])
                raise ValueError(f"{folder}: {names[name]} is {found} and should be {shape} by config.json")
        tensor = torch.empty(planned.shape, dtype=planned.dtype, device=device)
        with torch.no_grad():
            part.fill(tensor, lambda name: tensors.read(names[name]))
        _place(model, part.ours, tensor)
        filled.add(part.ours)
    lacking = sorted(set(saved) - filled)
    assert not lacking, f"the table of names lacks {lacking[0]}"


def _place(model: nn.Module, name: str, tensor: torch.Tensor) -> None:
    """Puts a tensor where the model has one of that name without memory."""
    path, _, last = name.rpartition(".")
    owner = model.get_submodule(path)
    if last in owner._parameters:
        owner._parameters[last] = nn.Parameter(tensor, requires_grad=tensor.is_floating_point())
    else:
        owner._buffers[last] = tensor
