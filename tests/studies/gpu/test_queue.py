"""The loop of the queue, with cells that only count: order, budget, resuming, changed code, faults."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, final

import pytest

from seqloom.core.progress import Say, Show
from seqloom.studies.study import Cell, Row, Study
from seqloom_studies.gpu import queue
from seqloom_studies.gpu.card import Card
from seqloom_studies.gpu.ledger import NAME, Ledger
from seqloom_studies.gpu.queue import Clock, Failed, Item, Place, plan, work
from seqloom_studies.gpu.sizes import TINY

CARD = Card("cpu", "Card 1", {"torch": "2.11"})


@final
class Number(Row):
    number: int


@final
@dataclass(frozen=True)
class Counted(Cell):
    schema: ClassVar = Number
    ran: list[str] = field(default_factory=list, compare=False)
    fails: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        return {"name": self.name}

    def run(self, folder: Path, say: Say, show: Show) -> Sequence[Row]:
        self.ran.append(self.name)
        if self.fails:
            raise ValueError("a fault")
        return [Number(number=len(self.ran))]


@final
class Tried:
    """A queue of two items with two cells each, in a folder."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.ran: list[str] = []
        self.codes = {"A1": "code1", "B1": "code2"}
        self.fails = ""
        self.said: list[str] = []
        codes = self.codes
        monkeypatch.setattr(Item, "code", property(lambda item: codes[item.name]))

    def item(self, name: str, least: float = 0.1, vital: bool = False) -> Item:
        def study(place: Place, code: str) -> Study:
            cells = [
                Counted(f"{name}/{part}", self.ran, self.fails == f"{name}/{part}") for part in ("first", "second")
            ]
            return Study(name, {}, lambda results: iter([[cell] for cell in cells]))

        return Item(name, "counts", 3.0, least, (), study, vital=vital)

    def call(
        self, minutes: float = 5, card: Card = CARD, runs: str = "runs", earlier: Sequence[Path] = ()
    ) -> list[str]:
        place = Place(card, TINY, self.folder, None, self.folder / runs)
        items = [self.item("A1", vital=True), self.item("B1", least=2)]
        ledger = Ledger(self.folder / "out", earlier, card, "seqloom study gpu")
        return work(items, place, ledger, Clock(minutes, time.monotonic()), "seqloom study gpu", self.said.append)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "out" / NAME).read_text().splitlines()]


@pytest.fixture
def tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tried:
    return Tried(tmp_path, monkeypatch)


def test_items_run_in_order_and_each_cell_has_a_line_that_says_where_it_is_from(tried: Tried) -> None:
    assert tried.call() == []
    assert tried.ran == ["A1/first", "A1/second", "B1/first", "B1/second"]
    assert [(line["item"], line.get("cell"), line.get("ended")) for line in tried.lines] == [
        ("A1", "A1/first", None),
        ("A1", "A1/second", None),
        ("A1", None, True),
        ("B1", "B1/first", None),
        ("B1", "B1/second", None),
        ("B1", None, True),
    ]
    for line in tried.lines:
        assert all(line[name] for name in ("commit", "date", "command", "machine", "source", "code", "card"))


def test_what_has_ended_is_not_run_again_nor_anywhere_else(tried: Tried) -> None:
    tried.call()
    tried.call()
    assert len(tried.ran) == 4
    (tried.folder / "out" / NAME).rename(tried.folder / "came_back.jsonl")
    tried.call(runs="elsewhere", earlier=[tried.folder / "came_back.jsonl"])
    assert len(tried.ran) == 4
    assert tried.said[-1] == "every item has ended with this code on this card"


def test_a_call_that_was_cut_goes_on_after_the_last_line_on_another_machine(tried: Tried) -> None:
    tried.call()
    path = tried.folder / "out" / NAME
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:4]) + '{"item": "B1", "cel')
    tried.ran.clear()
    tried.call(runs="elsewhere")
    assert tried.ran == ["B1/second"]
    assert [line["item"] for line in tried.lines] == ["A1", "A1", "A1", "B1", "B1", "B1"]


def test_an_item_whose_code_has_changed_runs_again_and_no_other(tried: Tried) -> None:
    tried.call()
    tried.ran.clear()
    tried.codes["B1"] = "code3"
    tried.call()
    assert tried.ran == ["B1/first", "B1/second"]


def test_another_card_has_rows_of_its_own(tried: Tried) -> None:
    tried.call()
    tried.call(card=Card("cpu", "Card 2", {"torch": "2.11"}))
    assert len(tried.ran) == 8


def test_an_item_that_does_not_fit_is_left_and_the_time_is_not_exceeded(tried: Tried) -> None:
    tried.call(minutes=1)
    assert tried.ran == ["A1/first", "A1/second"]
    assert tried.said[-1] == "B1: left for another call, it needs about 2 minutes"


def test_too_few_minutes_for_any_item_are_an_error(tried: Tried) -> None:
    with pytest.raises(ValueError, match=r"--minutes 0\.1 is too short: A1 needs about 0\.1 more minutes"):
        tried.call(minutes=0.1)
    assert not tried.ran


def test_a_cell_does_not_begin_where_the_one_before_took_more_than_is_left(
    tried: Tried, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(queue.time, "monotonic", lambda: now[0])
    run = Counted.run

    def slow(self: Counted, *rest: Any) -> Sequence[Row]:
        now[0] += 100
        return run(self, *rest)

    monkeypatch.setattr(Counted, "run", slow)
    tried.call(minutes=3)
    assert tried.ran == ["A1/first"]


def test_a_fault_of_the_first_item_ends_the_call(tried: Tried) -> None:
    tried.fails = "A1/second"
    with pytest.raises(Failed, match="A1: A1/second failed: a fault; the call ends"):
        tried.call()
    assert tried.ran == ["A1/first", "A1/second"]
    tried.fails = ""
    tried.call()
    assert tried.ran[2:] == ["A1/second", "B1/first", "B1/second"]


def test_a_fault_of_another_item_is_told_and_tried_again(tried: Tried) -> None:
    tried.fails = "B1/first"
    assert tried.call() == ["B1: B1/first failed: a fault"]
    tried.fails = ""
    tried.ran.clear()
    assert tried.call() == []
    assert tried.ran == ["B1/first"]


def test_an_altered_line_is_an_error(tried: Tried) -> None:
    tried.call()
    path = tried.folder / "out" / NAME
    path.write_text("no row\n" + path.read_text())
    with pytest.raises(ValueError, match="line 1 is no row of the queue"):
        tried.call()


def test_the_plan_says_what_has_ended_and_what_a_call_reaches(tried: Tried) -> None:
    tried.call(minutes=1)
    items = [tried.item("A1"), tried.item("B1", least=2)]
    ledger = Ledger(tried.folder / "out", [], None, "")
    text = plan(items, ledger, 8).splitlines()
    assert text[2].split()[-1] == "ended"
    assert text[3].split()[-3:] == ["not", "begun", "whole"]
    assert plan(items, ledger, 1).splitlines()[3].split()[-1] == "no"


def test_an_item_that_reads_books_is_left_out_without_them(tried: Tried) -> None:
    place = Place(CARD, TINY, None, None, tried.folder / "runs")
    items = [tried.item("A1", vital=True), replace(tried.item("B1"), reads=True)]
    ledger = Ledger(tried.folder / "out", [], CARD, "seqloom study gpu")
    assert work(items, place, ledger, Clock(5, time.monotonic()), "seqloom study gpu", tried.said.append) == []
    assert tried.ran == ["A1/first", "A1/second"]
    assert tried.said[-1] == "B1: left out, it reads the books of --data"
