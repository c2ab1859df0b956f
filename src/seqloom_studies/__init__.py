"""What we found out with seqloom: each study is one folder, with its question and answer in README.md.

A study has a command (`seqloom study NAME`), which the entry points of the group `seqloom.studies` name: pyproject.toml
and `COMMANDS` have the same ones. The library imports nothing from here.
"""

COMMANDS = {
    "recall": "seqloom_studies.recall.command:command",
    "extrapolate": "seqloom_studies.extrapolate.command:command",
    "markov-gap": "seqloom_studies.markov_gap.command:command",
    "agents": "seqloom_studies.agents.command:command",
    "maze": "seqloom_studies.maze.command:command",
    "calibrate": "seqloom_studies.exits.command:calibrate",
    "exits": "seqloom_studies.exits.command:command",
    "thresholds": "seqloom_studies.exits.command:thresholds",
    "paper": "seqloom_studies.paper.command:command",
    "board": "seqloom_studies.board.command:command",
    "conversions": "seqloom_studies.conversions.command:command",
    "question": "seqloom_studies.question.command:command",
    "numbers": "seqloom_studies.numbers.command:command",
    "pictures": "seqloom_studies.pictures.command:command",
    "patches": "seqloom_studies.patches.command:command",
    "figures": "seqloom_studies.figures.command:command",
    "poles": "seqloom_studies.poles.command:command",
    "gpu": "seqloom_studies.gpu.command:command",
}
"""the function of each command, in the order of the list"""
