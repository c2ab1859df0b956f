"""Every form of every call of C: which optional inputs it has, by which gate or cell, and the sizes to try.

    FORMS["delta_rule write, decay of channels, state"].run(draw, 2, 33, 1, 4, 17)

Sizes are chosen against the code: below, at and one above a vector (4, 8 or 16 numbers), a block of rows or vectors and
a span of tokens, so that whatever is left of a block is computed too. `tests/ops/test_registry.py` compares each form,
at each of its sizes, with another backend, and asks that no function of C and no optional input is left out.
"""

from tests.ops.native_forms import layers, sequences, single_tokens, whole_tokens
from tests.ops.native_forms.form import Form

FORMS: dict[str, Form] = {
    form.name: form for module in (layers, sequences, single_tokens, whole_tokens) for form in module.forms()
}
