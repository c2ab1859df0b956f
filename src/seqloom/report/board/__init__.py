"""The report of the board: its table, its decisions and its charts, from rows alone."""
