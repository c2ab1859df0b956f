"""What is loaded for a mixer alone: few modules of ours, and not torch's compiler."""

import subprocess
import sys
from importlib import import_module

import pytest

from seqloom.core import mixer_config
from seqloom.mixers import FAMILIES, KINDS

MOST = 80
"""modules of ours that `seqloom.mixer("he", …)` may import"""


def loaded(program: str) -> set[str]:
    """The modules that a program has loaded in a process of its own."""
    words = [sys.executable, "-c", f"import sys\n{program}\nprint(*sys.modules)"]
    return set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.slow
def test_a_mixer_alone() -> None:
    modules = loaded("import seqloom\nseqloom.mixer('he', dim=64, context=64)")
    ours = {name for name in modules if name.partition(".")[0] == "seqloom"}
    assert "seqloom.mixers.extractors.extractors" in ours
    assert len(ours) <= MOST, sorted(ours)
    assert "torch._dynamo" not in modules
    assert not any(name.startswith("seqloom_studies") for name in modules)


def test_the_package_alone() -> None:
    modules = loaded("import seqloom")
    assert {name for name in modules if name.startswith("seqloom")} == {"seqloom"}
    assert "torch" not in modules


@pytest.mark.parametrize("family", FAMILIES)
def test_a_file_registers_what_is_declared(family: str) -> None:
    for file in FAMILIES[family]:
        module = import_module(f"seqloom.mixers.{family}.{file}").__name__
        registered = {name for name, config in mixer_config.registered_kinds().items() if config.__module__ == module}
        assert registered == set(KINDS.get(file, (file,)))


def test_all_kinds_are_in_the_order_of_the_families() -> None:
    files = [file for family in FAMILIES.values() for file in family]
    declared = [kind for file in files for kind in KINDS.get(file, (file,))]
    assert list(mixer_config.kinds())[: len(declared)] == declared
