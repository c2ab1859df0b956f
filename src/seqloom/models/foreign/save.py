"""A model of ours as a folder of one of transformers' own families, which loads there without this package.

    save(model, "out", "llama")          config.json, model.safetensors (or several, with an index)

The table of names is that of reading, in the other direction. A written config.json is read back and compared with the
model, so that a model that is none of the family is refused by what differs.
"""

import json
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from seqloom.core.model import Model
from seqloom.models.decoder import DecoderConfig
from seqloom.models.foreign.families import FAMILIES
from seqloom.models.foreign.family import Foreign
from seqloom.models.foreign.folder import INDEX, ONE
from seqloom.models.foreign.values import Values
from seqloom.models.kinds import model_config

LARGEST_FILE = 5_000_000_000
"""the most bytes of tensors in one file, as transformers has it"""
OF_TRAINING = frozenset({"dropout", "std", "scaled_init"})
"""settings that do not change what a trained model computes"""


def save(model: Model, folder: Path, family: str, config: dict[str, Any] | None = None) -> None:
    """Writes config.json and the weights into a folder that exists.

    `config` is the config.json of the folder that the model came from, whose settings are kept; by default one is made
    of the model's settings. ValueError, in one line, where the model is none of this family.
    """
    content = describe(model.config, family) if config is None else config
    foreign = read_back(content, family, model.config)
    dtype = str(model.dtype).removeprefix("torch.")
    content = {**{name: value for name, value in content.items() if name != "torch_dtype"}, "dtype": dtype}
    (folder / "config.json").write_text(json.dumps(content, indent=2) + "\n")
    _write_weights(theirs_of(model, foreign), folder)


def describe(config: Any, family: str) -> dict[str, Any]:
    """The config.json of a model of these settings. ValueError where it is none of the family."""
    known = FAMILIES.get(family)
    if known is None or known.write is None:
        names = [name for name, entry in FAMILIES.items() if entry.write is not None]
        raise ValueError(f"models are not written as {family!r}; choose from {', '.join(names)}")
    if not isinstance(config, DecoderConfig):
        raise ValueError(f"{family} is a decoder, and the model is of kind {config.kind}")
    try:
        content = known.write(config)
    except ValueError as error:
        raise ValueError(f"the model is none of {family}: {error}") from None
    return {"architectures": [known.architecture], "model_type": family, **content}


def read_back(content: dict[str, Any], family: str, config: Any) -> Foreign:
    """What a config.json describes. ValueError, with the first difference, where these are not the model's settings."""
    values = Values(content, "config.json")
    try:
        foreign = FAMILIES[family].read(values)
        values.finish()
    except ValueError as error:
        raise ValueError(f"the model is none of {family}: {error}") from None
    theirs, ours = (_shared_settings(settings) for settings in (model_config(foreign.settings), config))
    for name in sorted(theirs.keys() | ours.keys()):
        if theirs.get(name) != ours.get(name):
            raise ValueError(
                f"the model is none of {family}: its {name} is {ours.get(name)!r}, and would be {theirs.get(name)!r}"
            )
    return foreign


def theirs_of(model: Model, foreign: Foreign) -> dict[str, Tensor]:
    """The tensors of theirs, by name; most of them share the memory of the model's."""
    weights = model.state_dict()
    tensors: dict[str, Tensor] = {}
    for part in foreign.parts:
        part.split(weights.pop(part.ours), tensors)
    assert not weights, f"the table of names lacks {next(iter(weights))}"
    return tensors


def _shared_settings(config: Any) -> dict[str, Any]:
    """The settings that two models of the same equation share."""
    values = {name: value for name, value in config.model_dump(mode="json").items() if name not in OF_TRAINING}
    if config.position.kind != "learned":
        del values["context"]  # texts of a model that has no table of positions may be longer or shorter
    if values.get("channel") == "none":
        del values["ffn"]  # a width of nothing
    return values


def _write_weights(tensors: dict[str, Tensor], folder: Path) -> None:
    """One file, or several and their index."""
    files: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, tensor in tensors.items():
        if size + tensor.nbytes > LARGEST_FILE and files[-1]:
            files.append({})
            size = 0
        files[-1][name] = tensor
        size += tensor.nbytes
    metadata = {"format": "pt"}
    if len(files) == 1:
        save_file(tensors, folder / ONE, metadata)
        return
    index: dict[str, str] = {}
    for number, file in enumerate(files, 1):
        path = folder / f"model-{number:05}-of-{len(files):05}.safetensors"
        save_file(file, path, metadata)
        index |= dict.fromkeys(file, path.name)
    total = sum(tensor.nbytes for tensor in tensors.values())
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": index}, indent=2) + "\n")
