"""Texts that are written side by side, and join and leave between two tokens.

    step:   end what is cancelled or late;   read at most `piece` tokens of prompts that wait;   those read join a slot
            draw a token of each text, by its own settings and seed;   those that ended leave their slot
            model.step over all slots

A text is the same alone and among others, but for rounding. The slots are rows of one state, which is written into: a
join copies one row. They double when none is free, and shrink when three of four are. A free slot reads on too, and
gets a new state before it has read more than `IDLE` tokens. In mode `slide` (`seqloom.generation.modes`) a text whose
window is full reads its last tokens again, alone; so does every text of a model that cannot read on from a state.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.core.arguments import count
from seqloom.core.model import Model
from seqloom.core.rest import Rest
from seqloom.core.rows import put, stack, take
from seqloom.core.state import ModelState
from seqloom.generation.draws import check_prompts
from seqloom.generation.modes import Mode, checked_mode, default_mode, window
from seqloom.generation.penalties import Seen
from seqloom.generation.requests import Request, group_by_sampling
from seqloom.generation.sample import pick, probabilities

PIECE = 64
"""tokens of prompts that are read between two tokens of the others"""
IDLE = 64
"""tokens that a free slot reads before it gets a new state"""


@final
@dataclass(eq=False)
class Prompt:
    """A prompt, the state after what was read of it, and the texts that continue it and wait for a slot."""

    ids: list[int]
    waiting: deque[Request]
    read: int = 0
    state: ModelState | None = None
    logits: Tensor | None = None
    """(1, W), once all of it was read"""


@final
@dataclass(eq=False)
class Slot:
    """One row of the state: the text that has it, the tokens of its window, and the tokens a free one has read."""

    request: Request | None = None
    window: list[int] | None = None
    idle: int = IDLE
    """of a slot that a text left or that is new, as many as make it get a new state"""


@final
class Batcher:
    """Writes many texts of one model. One thread calls `step`; `submit` and `Request.cancel` are for any thread."""

    def __init__(
        self,
        model: Model,
        *,
        rows: int = 32,
        mode: Mode | None = None,
        hop: int = 1,
        piece: int = PIECE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`rows` texts at most are written at once, the others wait; `clock` gives seconds, which deadlines are in.

        TypeError or ValueError for numbers below 1, and for a model that does not generate.
        """
        count("rows", rows, least=1)
        count("piece", piece, least=1)
        checked_mode(model, mode, hop, 1, 1)
        self.model = model
        self.clock = clock
        self._rows = rows
        self._piece = piece
        self._hop = hop
        self._mode = default_mode(model, hop) if mode is None else mode
        self._length = window(model) if self._mode == "slide" else None
        self._streams = model.traits.streams
        self._idle_limit = min(IDLE, model.traits.longest or IDLE)
        self._prompts: deque[Prompt] = deque()
        self._slots: list[Slot] = []
        self._state: ModelState | None = None
        self._logits = torch.zeros(0)
        self._rest = Rest(model)

    @property
    def busy(self) -> bool:
        """Whether a text waits or is written."""
        return bool(self._prompts) or any(slot.request is not None for slot in self._slots)

    def submit(self, requests: Sequence[Request]) -> None:
        """Takes texts that continue the same prompt, which is read once.

        ValueError or TypeError for prompts and lengths that the model does not read.
        """
        prompt = requests[0].prompt
        check_prompts(self.model, torch.tensor([prompt], dtype=torch.long))
        for request in requests:
            checked_mode(self.model, self._mode, self._hop, len(prompt), request.max_tokens)
            request.model = self.model
            if request.sampling.penalizes:
                request.seen = Seen.after(torch.tensor([prompt]), self.model.config.vocab)
        ids = prompt if self._length is None else prompt[-self._length :]
        self._prompts.append(Prompt(ids, deque(requests)))

    def step(self) -> list[Request]:
        """One round; the texts that got a token or ended."""
        changed = self._end_unwanted()
        with self._rest:
            self._read_prompts()
            slots = [slot for slot in self._slots if slot.request is not None]
            changed += self._draw(slots)
            self._advance()
        return changed

    def run(self) -> None:
        """Rounds until all texts have ended."""
        while self.busy:
            self.step()

    def _end_unwanted(self) -> list[Request]:
        """Ends the texts that are cancelled or late, wherever they are."""
        now = self.clock()
        ended = []
        waiting = [request for prompt in self._prompts for request in prompt.waiting]
        for request in [*waiting, *(slot.request for slot in self._slots if slot.request is not None)]:
            late = request.deadline is not None and now > request.deadline
            if request.cancelled or late:
                request.finish("cancelled" if request.cancelled else "late")
                ended.append(request)
        for prompt in list(self._prompts):
            prompt.waiting = deque(request for request in prompt.waiting if request.end is None)
            if not prompt.waiting:
                self._prompts.remove(prompt)
        self._free_slots()
        return ended

    def _free_slots(self) -> None:
        """Takes the texts that ended from their slots."""
        for slot in self._slots:
            if slot.request is not None and slot.request.end is not None:
                slot.request = None
                slot.idle = IDLE
        taken = [row for row, slot in enumerate(self._slots) if slot.request is not None]
        if not taken:
            self._slots = []
            self._state = None
        elif 4 * len(taken) <= len(self._slots):
            self._slots = [self._slots[row] for row in taken]
            self._logits = self._logits[taken]
            self._state = None if self._state is None else self.model.trim(take(self._state, self._tensor(taken)))

    def _read_prompts(self) -> None:
        """Reads prompts, the first that came first, up to `piece` tokens, and gives those read a slot."""
        left = self._piece
        while left > 0 and self._prompts and self._has_room():
            prompt = self._prompts[0]
            left -= self._read_piece(prompt, left)
            if prompt.logits is None:
                return
            while prompt.waiting and self._has_room():
                self._join(prompt, prompt.waiting.popleft())
            if not prompt.waiting:
                self._prompts.popleft()

    def _has_room(self) -> bool:
        """Whether a text may join."""
        return len(self._slots) < self._rows or any(slot.request is None for slot in self._slots)

    def _read_piece(self, prompt: Prompt, most: int) -> int:
        """Reads on in a prompt; how many tokens it read."""
        if prompt.logits is not None:
            return 0
        if not self._streams:
            prompt.logits = self._read_window(prompt.ids)
            return len(prompt.ids)
        if prompt.state is None:
            prompt.state = self.model.start(1)
        piece = prompt.ids[prompt.read : prompt.read + most]
        x, prompt.state = self.model.read(self._tensor(piece)[None], prompt.state)
        prompt.read += len(piece)
        if prompt.read == len(prompt.ids):
            prompt.logits = self.model.logits(x[:, -1:])[:, 0]
            prompt.state = self.model.trim(prompt.state)
        return len(piece)

    def _join(self, prompt: Prompt, request: Request) -> None:
        """Gives a text a slot, with a copy of the state after its prompt."""
        assert prompt.logits is not None, "the prompt was read"
        row = next((row for row, slot in enumerate(self._slots) if slot.request is None), len(self._slots))
        if row == len(self._slots):
            self._add_slots(prompt.logits)
        slot = self._slots[row]
        slot.request = request
        slot.window = list(prompt.ids)
        self._logits[row] = prompt.logits[0]
        if prompt.state is not None:
            self._put(row, prompt.state)

    def _add_slots(self, logits: Float[Tensor, "1 W"]) -> None:
        """Doubles the slots, up to `rows`."""
        more = min(max(len(self._slots), 1), self._rows - len(self._slots))
        if self._streams:
            empty = self.model.start(more)
            self._state = empty if self._state is None else stack([self._state, empty])
        blank = logits.new_zeros(more, logits.shape[1])
        self._logits = torch.cat([self._logits, blank]) if self._slots else blank
        self._slots += [Slot() for _ in range(more)]

    def _draw(self, slots: list[Slot]) -> list[Request]:
        """Draws a token of each text, those of equal settings together; the texts."""
        requests = [slot.request for slot in slots if slot.request is not None]
        rows = [row for row, slot in enumerate(self._slots) if slot.request is not None]
        for sampling, members in group_by_sampling(requests).items():
            group = [requests[member] for member in members]
            logits = self._logits[[rows[member] for member in members]]
            finite = logits.amax(1).isfinite().tolist()
            for request, good in zip(group, finite, strict=True):
                if not good:
                    request.finish("failed", "the model's logits are not finite: load an earlier checkpoint")
            group = [request for request in group if request.end is None]
            logits = logits[torch.tensor(finite)]
            if not group:
                continue
            seen = _join_seen([request.seen for request in group if request.seen is not None])
            p = probabilities(logits, sampling, seen)
            if sampling.temperature == 0:
                ids = p.argmax(1)
            else:
                ids = pick(p, torch.cat([_draw_uniform(request.generator) for request in group]))
            for request, id, row in zip(group, ids.tolist(), logits, strict=True):
                request.take(id, row)
        return requests

    def _advance(self) -> None:
        """Reads the new tokens; texts that ended leave before."""
        self._free_slots()
        if not self._slots:
            return
        for row, slot in enumerate(self._slots):
            if slot.request is not None:
                self._slide(row, slot)
            elif self._streams:
                slot.idle += 1
                if slot.idle >= self._idle_limit:
                    self._put(row, self.model.start(1))
                    slot.idle = 0
        if self._streams:
            assert self._state is not None, "there is a slot"
            ids = self._tensor([0 if slot.window is None else slot.window[-1] for slot in self._slots])
            self._logits, self._state = self.model.step(ids, self._state, reuse=True)

    def _slide(self, row: int, slot: Slot) -> None:
        """Adds the new token to the window of a text; where it was full, it is read again from a later token on."""
        assert slot.request is not None, "a text has this slot"
        assert slot.window is not None, "a text has this slot"
        full = len(slot.window) == self._length
        if full:
            slot.window = slot.window[self._hop :]
        if full and self._streams:
            state = self.model.start(1)
            if slot.window:
                _, state = self.model.read(self._tensor(slot.window)[None], state)
            self._put(row, state)
        slot.window.append(slot.request.tokens[-1].id)
        if not self._streams:
            self._logits[row] = self._read_window(slot.window)[0]

    def _put(self, row: int, one: ModelState) -> None:
        """Puts a state of one row in place of a slot's."""
        assert self._state is not None, "there is a slot"
        self._state = put(self._state, row, one)

    def _read_window(self, ids: list[int]) -> Float[Tensor, "1 W"]:
        """Logits after a window that is read whole."""
        return self.model.logits(self.model.features(self._tensor(ids)[None])[:, -1:])[:, 0]

    def _tensor(self, ids: list[int]) -> Tensor:
        return torch.tensor(ids, device=self.model.device)


def _join_seen(rows: list[Seen]) -> Seen | None:
    """The tokens that texts have, one below the other; None where no penalty asks for them."""
    if not rows:
        return None
    return Seen(torch.cat([row.read for row in rows]), torch.cat([row.written for row in rows]))


def _draw_uniform(generator: torch.Generator) -> Tensor:
    return torch.rand(1, 1, dtype=torch.float64, generator=generator)
