"""All studies by name, in the order in which `all` runs them."""

from collections.abc import Callable, Sequence

from seqloom.core.config import near
from seqloom.experiments.paper import controls, figures
from seqloom.experiments.paper.grid import Grid
from seqloom.experiments.paper.study import Study

STUDIES: dict[str, Callable[[Grid], Study]] = {
    "fig8": figures.fig8,
    "fig9": figures.fig9,
    "equal-params": controls.equal_params,
    "equal-mul": controls.equal_mul,
    "groups": controls.groups,
    "fig10": figures.fig10,
    "fig11": figures.fig11,
    "fig7": figures.fig7,
    "equal-time": controls.equal_time,
    "controls": controls.controls,
    "lr": controls.lr,
}
TABLES = ("table2", "table3", "table4", "table5", "table6", "table7")


def named(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The studies and the tables with these names, without repetition; `all` names all.

    ValueError for unknown names.
    """
    wanted = [study for name in names for study in ([*STUDIES, *TABLES] if name == "all" else [name])]
    for name in wanted:
        if name not in STUDIES and name not in TABLES:
            raise ValueError(f"unknown figure or table {name!r}; {near(name, [*STUDIES, *TABLES, 'all'])}")
    chosen = list(dict.fromkeys(wanted))
    return [name for name in chosen if name in STUDIES], [name for name in chosen if name in TABLES]
