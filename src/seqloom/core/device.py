"""Devices by name."""

import torch


def chosen(name: str) -> torch.device:
    """The device called `name`; `auto` is the first GPU, or else the CPU. ValueError where torch cannot use it here."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
        if device.type == "meta":
            raise RuntimeError("it does not compute")
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"no device {name!r} here ({str(error).splitlines()[0]}): use cpu or auto") from None
    return device
