"""A function is named by a verb and a noun, or by what it returns, never by a participle alone."""

from pathlib import Path

import pytest

from tests.participles import REGULAR, VERBS_AND_NOUNS, functions, is_participle, participles

SOURCE = Path(__file__).parents[1] / "src"


@pytest.mark.parametrize("package", ["seqloom", "seqloom_studies"])
def test_no_function_is_named_by_a_participle_alone(package: str) -> None:
    assert participles(SOURCE / package) == []


def test_every_allowed_word_is_the_name_of_a_function_and_looks_like_a_participle() -> None:
    used = {node.name.lstrip("_") for _, node in functions(SOURCE)}
    assert sorted(VERBS_AND_NOUNS - used) == []
    assert all(REGULAR.fullmatch(word) for word in VERBS_AND_NOUNS)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("drawn", True),
        ("_joined", True),
        ("kept", True),
        ("held", True),
        ("draw_tokens", False),
        ("joined_text", False),
        ("seed", False),
        ("token", False),
        ("forward", False),
        ("__set__", False),
    ],
)
def test_which_names_are_participles(name: str, expected: bool) -> None:
    assert is_participle(name) == expected


def test_methods_properties_and_inner_functions_are_found(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(
        "class A:\n    @property\n    def shown(self): ...\n\n    def show(self):\n        def drawn(): ...\n"
    )
    found = participles(tmp_path)
    assert [line.rpartition(": ")[2] for line in found] == ["shown", "drawn"]
