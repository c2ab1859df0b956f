"""LoRA: a frozen matrix of a layer and a trained change of low rank, by peft, in every linear layer of a model.

    W' = W + (α/R) B A            A (R, I) drawn, B (O, R) 0 before training; W, norms and embeddings are not trained

    add_adapters(model, rank=8)         save_adapters(model, "adapter")
    merge_adapters(model)               load_adapters(model, "adapter")
    peft.get_peft_model(wrapper, lora_config(r=8, target_modules="all-linear"))       in transformers

peft's own layer adds B A x to W x, which mixers that multiply with `weight` themselves would miss. Ours is a linear
layer whose weight is W', so that an adapter changes every verb of a model; dropout of x is therefore not built.

Source: Hu et al., arXiv:2106.09685, section 4. What differs: which matrices, there those of queries and values.
"""

from pathlib import Path
from typing import Any, cast, final

from torch import Tensor, nn

from seqloom.core.arguments import count
from seqloom.core.cost import Cost, Span, linear
from seqloom.core.model import Model
from seqloom.layers.linear import Linear
from seqloom.ops.fused.projection import project
from seqloom.runs.durable import making_folder

try:
    from peft import LoraConfig, get_peft_model_state_dict, inject_adapter_in_model, set_peft_model_state_dict
    from peft.tuners.lora import Linear as PeftLinear
    from safetensors.torch import load_file, save_file
except ImportError:
    raise ImportError("adapters need peft: pip install 'seqloom[lora]'") from None

NAME = "default"
"""the name of the adapter, as peft has it"""
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


@final
class AdaptedLinear(PeftLinear):  # type: ignore[misc]  # peft is an extra
    """A linear layer whose weight is that of its base and the change of its adapter."""

    @property
    def weight(self) -> Tensor:
        """W' (O, I)."""
        first, second = cast(nn.Linear, self.lora_A[NAME]), cast(nn.Linear, self.lora_B[NAME])
        return self.base.weight + self.scaling[NAME] * (second.weight @ first.weight)

    @property
    def base(self) -> nn.Linear:
        """The layer with W."""
        return cast(nn.Linear, self.get_base_layer())

    def forward(self, x: Tensor, *args: Any, **settings: Any) -> Tensor:
        """(…, I) → (…, O)."""
        return project(x, self.weight, self.bias)

    def price(self, span: Span) -> Cost:
        """The product with W', whose sum is made once and not priced; the parameters of both."""
        sizes = self.base.in_features, self.base.out_features
        return linear(span.rows, *sizes, self.bias is not None) + Cost(params=self.r[NAME] * sum(sizes))


def add_adapters(model: Model, *, rank: int = 8, alpha: float | None = None) -> Model:
    """Gives each linear layer inside the model's layers an adapter, and freezes all else; returns the model.

    α is the rank unless given. ValueError where the model has adapters, or no such layer.
    """
    count("rank", rank, least=1)
    if has_adapters(model):
        raise ValueError("the model has adapters already: merge them first")
    names = [name for name, part in model.named_modules() if isinstance(part, Linear) and name.startswith("layers.")]
    if not names:
        raise ValueError("the model has no linear layers inside its layers, so that there is nothing to adapt")
    settings = LoraConfig(
        r=rank, lora_alpha=cast(int, rank if alpha is None else alpha), target_modules=names, lora_dropout=0.0
    )
    _inject(model, settings)
    return model


def lora_config(**settings: Any) -> LoraConfig:
    """peft's LoraConfig of these settings whose layers are ours, for `get_peft_model` of a wrapped model.

    ValueError for dropout inside of adapters, and for what changes peft's own layer alone.
    """
    unbuilt = next((name for name in ("lora_dropout", "use_dora", "lora_bias") if settings.get(name)), None)
    if unbuilt is not None:
        raise ValueError(f"{unbuilt} is not built for adapters of seqloom's layers: leave it out")
    config = LoraConfig(**settings)
    config._register_custom_module({Linear: AdaptedLinear})
    return config


def has_adapters(model: Model) -> bool:
    """Whether the model has adapters."""
    return any(isinstance(part, AdaptedLinear) for part in model.modules())


def merge_adapters(model: Model) -> Model:
    """Puts W' in the place of each W and takes the adapters away; everything is trainable again. Returns the model."""
    for name, part in list(model.named_modules()):
        if isinstance(part, AdaptedLinear):
            part.base.weight = nn.Parameter(part.weight.detach().clone())
            owner, _, last = name.rpartition(".")
            setattr(model.get_submodule(owner), last, part.base)
    return model.requires_grad_()


def save_adapters(model: Model, folder: str | Path) -> Path:
    """Writes the adapters alone, in peft's format, as a new folder.

    ValueError where the model has none, and where `folder` has content.
    """
    if not has_adapters(model):
        raise ValueError("the model has no adapters to be saved: add_adapters gives it some")
    folder = Path(folder)
    tensors = get_peft_model_state_dict(model, state_dict=model.state_dict(), adapter_name=NAME)
    with making_folder(folder) as made:
        _settings_of(model).save_pretrained(str(made))
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, made / WEIGHTS, {"format": "pt"})
    return folder


def load_adapters(model: Model, folder: str | Path) -> Model:
    """Gives a model without adapters those of `save_adapters`; returns the model.

    FileNotFoundError where they are missing, ValueError where they do not fit the model.
    """
    folder = Path(folder)
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise FileNotFoundError(f"{folder / name} is missing: give the folder of save_adapters")
    if has_adapters(model):
        raise ValueError("the model has adapters already: merge them first")
    _inject(model, LoraConfig.from_pretrained(str(folder)))
    tensors = load_file(folder / WEIGHTS)
    own = get_peft_model_state_dict(model, state_dict=model.state_dict(), adapter_name=NAME)
    names = sorted(own.keys() | tensors.keys())
    unfitting = next((name for name in names if _shape(own, name) != _shape(tensors, name)), None)
    if unfitting is not None:
        raise ValueError(
            f"{folder} does not fit the model: {unfitting} is {_shape(tensors, unfitting)} there and "
            f"{_shape(own, unfitting)} here"
        )
    set_peft_model_state_dict(model, tensors, adapter_name=NAME)
    return model


def _inject(model: Model, settings: Any) -> None:
    settings._register_custom_module({Linear: AdaptedLinear})
    dtype = model.dtype
    inject_adapter_in_model(settings, model, adapter_name=NAME)
    model.to(dtype)  # peft makes adapters in float32
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(".lora_" in name)


def _settings_of(model: Model) -> Any:
    settings: Any = model.peft_config[NAME]  # type: ignore[index]  # peft puts it there
    return settings


def _shape(tensors: dict[str, Tensor], name: str) -> str:
    return str(tuple(tensors[name].shape)) if name in tensors else "absent"
