"""One prompt and its events."""
import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, AsyncIterator, Deque, Dict, Iterable, Optional

from .errors import ParallaxError, TurnCancelledError, TurnError
from .events import Event, StreamStats

if TYPE_CHECKING:
    from .session import Session

# The program waits when the reader of the events is this far behind.
MOST_EVENTS = 1000
CANCELLED = "FatalCancellationError"


@dataclass(frozen=True)
class TurnResult:
    """How a turn ended."""

    text: str
    """The last answer of the model."""
    session_id: str
    stats: StreamStats
    structured: Any = None
    """With `output_schema`, the answer as JSON; for a slash command, its data."""


class TurnState:
    """The session's side of a turn."""

    def __init__(self, line: Dict[str, Any]) -> None:
        self.line = line
        self.line_number = 0
        self.is_abandoned = False
        """Nothing reads the events any longer."""
        self.ended = asyncio.Event()
        self.failure: Optional[BaseException] = None
        self.result: Any = None
        self.text = ""
        self._events: Deque[Event] = deque()
        self._changed = asyncio.Event()

    async def push(self, event: Event) -> None:
        """Takes an event from the program."""
        self._collect(event)
        while len(self._events) >= MOST_EVENTS and not self.is_abandoned:
            self._changed.clear()
            await self._changed.wait()
        if not self.is_abandoned:
            self._events.append(event)
        if event["type"] == "result":
            self.result = event
            self.ended.set()
        self._changed.set()

    async def next(self) -> Optional[Event]:
        """The next event; `None` after the last."""
        while not self._events:
            if self.ended.is_set():
                return None
            self._changed.clear()
            await self._changed.wait()
        self._changed.set()
        return self._events.popleft()

    def end(self, failure: BaseException) -> None:
        """Nothing more comes."""
        if self.failure is None:
            self.failure = failure
        self.ended.set()
        self._changed.set()

    def abandon(self) -> None:
        self.is_abandoned = True
        self._events.clear()
        self._changed.set()

    def add(self, events: Iterable[Event]) -> None:
        """Events that came before the turn."""
        self._events.extend(events)

    def error(self) -> Optional[BaseException]:
        """Why the turn failed."""
        if self.failure is not None or self.result is None or self.result["status"] == "success":
            return self.failure
        error = self.result.get("error") or {}
        kind = error.get("type", "")
        message = error.get("message", f"the turn ended with status {self.result['status']}")
        of = TurnCancelledError if kind == CANCELLED else TurnError
        return of(kind, message, error.get("code", 1), error.get("status"))

    def _collect(self, event: Event) -> None:
        """Keeps the text of the last answer: that after the last tool call."""
        if event["type"] == "message" and event["role"] == "assistant":
            self.text += event["content"]
        elif event["type"] == "retry" and event["dropChars"]:
            self.text = self.text[:-event["dropChars"]]
        elif event["type"] == "tool_use":
            self.text = ""


class Turn(AsyncIterator[Event]):
    """The events of one turn, as an asynchronous iterator.

    It ends after the `result` event. When the turn failed, it then raises the reason. A turn whose
    iterator is closed or dropped, or whose reading task is cancelled, is interrupted.
    """

    def __init__(self, session: "Session", line: Dict[str, Any]) -> None:
        self._session = session
        self._state = TurnState(line)
        self._started = False

    def __aiter__(self) -> "Turn":
        return self

    async def __anext__(self) -> Event:
        if not self._started:
            self._started = True
            try:
                await self._session._begin(self._state)
            except BaseException:
                self._state.end(ParallaxError("the turn has not begun"))
                raise
        try:
            event = await self._state.next()
        except asyncio.CancelledError:
            self._abandon()
            raise
        if event is not None:
            return event
        error = self._state.error()
        if error is not None:
            raise error
        raise StopAsyncIteration

    async def result(self) -> TurnResult:
        """Waits for the end. Raises `TurnError` when the turn failed."""
        async for _ in self:
            pass
        result = self._state.result
        return TurnResult(self._state.text, self._session.session_id, result["stats"], result.get("structured"))

    def interrupt(self) -> None:
        """Ends the turn. The iterator continues until the `result` event, then raises `TurnCancelledError`."""
        if self._started and not self._state.ended.is_set():
            self._session.interrupt()

    async def aclose(self) -> None:
        """Interrupts the turn if it is running, and waits for its end."""
        self._abandon()
        if self._started:
            await self._state.ended.wait()

    def __del__(self) -> None:
        try:
            self._abandon()
        except RuntimeError:
            # The event loop is closed, and the program has ended with it.
            pass

    def _abandon(self) -> None:
        if self._started and not self._state.ended.is_set() and not self._state.is_abandoned:
            self._session.interrupt()
        self._state.abandon()
