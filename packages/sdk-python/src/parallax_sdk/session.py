"""A session: a conversation in one process of the program."""
import asyncio
import inspect
import logging
import os
import re
from collections import deque
from typing import TYPE_CHECKING, Any, Deque, Dict, List, Optional, Set, Tuple

from . import approvals
from .errors import InputRejectedError, ParallaxError, StartError
from .events import ApprovalMode, AskEvent, ContextEvent, Event, UndoneEvent
from .program import Program, find_program
from .session_files import SessionFiles
from .tool_server import ToolServer
from .turn import Turn, TurnResult, TurnState

if TYPE_CHECKING:
    from .agent import Agent

log = logging.getLogger("parallax_sdk")
LINE_NUMBER = re.compile(r"line (\d+): (.*)", re.DOTALL)
# An argument of a program cannot be longer on Linux.
LONGEST_INSTRUCTIONS = 120_000
LONGEST_SHUTDOWN = 2.0
EARLY_EVENTS = 100
Waiter = Tuple[int, str, "asyncio.Future[Any]"]


class Session:
    """A conversation. Use it as `async with agent.session() as session`, or call `close` at the end."""

    def __init__(self, agent: "Agent", session_id: Optional[str] = None, resume: Optional[str] = None) -> None:
        self.agent = agent
        self.session_id = session_id or ""
        """The id; empty until the session has started, unless it was given."""
        self.model = agent.model
        self.mode: Optional[str] = agent.mode
        self._new_id = session_id
        self._resume = resume
        self._program: Optional[Program] = None
        self._server: Optional[ToolServer] = None
        self._files = SessionFiles()
        self._starting: "Optional[asyncio.Task[None]]" = None
        self._opened: "Optional[asyncio.Future[None]]" = None
        self._reading: "Optional[asyncio.Task[None]]" = None
        self._turn: Optional[TurnState] = None
        self._early: Deque[Event] = deque(maxlen=EARLY_EVENTS)
        self._waiters: List[Waiter] = []
        self._asks: Dict[str, "asyncio.Task[None]"] = {}
        self._answers: Dict[int, AskEvent] = {}
        self._failure: Optional[BaseException] = None
        self._is_closed = False

    async def __aenter__(self) -> "Session":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Starts the program, if it does not run yet. Prompts do this by themselves."""
        if self._is_closed:
            raise ParallaxError("the session is closed")
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._open_or_close())
            # Who waits for it may be cancelled.
            self._starting.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            await asyncio.shield(self._starting)
        except asyncio.CancelledError:
            if self._starting.cancelled():
                raise ParallaxError("the session is closed") from None
            raise

    def send_stream(self, prompt: str) -> Turn:
        """Sends a prompt. Iterate over the turn to read its events."""
        # A line that begins with a slash would be a command.
        return Turn(self, {"type": "message", "content": " " + prompt if prompt.startswith("/") else prompt})

    async def send(self, prompt: str) -> TurnResult:
        """Sends a prompt, and waits for the final answer."""
        return await self.send_stream(prompt).result()

    async def command(self, text: str) -> TurnResult:
        """Runs a slash command, such as `/stats`."""
        return await Turn(self, {"type": "command", "text": text}).result()

    async def continue_turn(self) -> TurnResult:
        """Continues a turn that was interrupted, perhaps in an earlier process."""
        return await Turn(self, {"type": "continue"}).result()

    def steer(self, text: str) -> None:
        """Adds a message to the running turn: the model reads it with the next tool results."""
        self.write({"type": "steer", "content": text})

    def interrupt(self) -> None:
        """Ends the running turn, if there is one, and keeps what was received."""
        if self._program is not None and self._failure is None:
            self.write({"type": "interrupt"})

    async def set_model(self, model: str) -> None:
        """Uses another model from the next request on."""
        await self._request({"type": "set_model", "model": model}, "session")

    async def set_mode(self, mode: ApprovalMode) -> None:
        """Changes the approval mode, as far as settings and trust permit."""
        await self._request({"type": "set_mode", "mode": mode}, "session")

    async def undo(self, turn: Optional[int] = None, force: bool = False) -> UndoneEvent:
        """Reverts the file changes of the last turn that changed any, or of that turn."""
        undone: UndoneEvent = await self._request({"type": "undo", "turn": turn, "force": force}, "undone")
        return undone

    async def context(self) -> ContextEvent:
        """What fills the context window."""
        context: ContextEvent = await self._request({"type": "context"}, "context")
        return context

    def write(self, line: Any) -> int:
        """Writes an input line as it is, for what has no method here. Returns its number."""
        if self._failure is not None:
            raise self._failure
        if self._program is None:
            raise ParallaxError("the session has not started")
        return self._program.write(line)

    async def close(self) -> None:
        """Interrupts a running turn and ends the program. The session stays on disk, and can be resumed."""
        self._is_closed = True
        starting = self._starting
        if starting is not None and starting is not asyncio.current_task() and not starting.done():
            # It closes what it has opened.
            starting.cancel()
            await asyncio.wait({starting})
        turn = self._turn
        if turn is not None:
            turn.abandon()
            self.interrupt()
            try:
                await asyncio.wait_for(turn.ended.wait(), LONGEST_SHUTDOWN)
            except asyncio.TimeoutError:
                pass
        self._fail(ParallaxError("the session is closed"))
        for task in list(self._asks.values()):
            task.cancel()
        if self._program is not None:
            await self._program.close()
        if self._reading is not None:
            await asyncio.wait({self._reading})
        if self._server is not None:
            await self._server.close()
        self._files.remove()

    async def _open_or_close(self) -> None:
        try:
            await self._open()
        except BaseException:
            await self.close()
            raise

    async def _open(self) -> None:
        program = find_program(self.agent.executable)
        arguments = [program, "--input-format", "stream-json", "-o", "stream-json", "--stream-version", "2"]
        arguments += await self._flags()
        self._program = await Program.start(arguments, self.agent.cwd, self._environment())
        self._opened = asyncio.get_running_loop().create_future()
        self._reading = asyncio.ensure_future(self._read())
        await self._opened
        self._files.remove()

    async def _flags(self) -> List[str]:
        agent, flags = self.agent, []
        given = [("--model", agent.model), ("--approval-mode", agent.mode), ("--resume", self._resume),
                 ("--session-id", self._new_id), ("--max-turns", agent.max_turns), ("--record", agent.record),
                 ("--replay", agent.replay)]
        flags += [f"{flag}={value}" for flag, value in given if value is not None]
        flags += [f"--skill-dir={skill.path}" for skill in agent.skills]
        if agent.trust:
            flags.append("--skip-trust")
        instructions = agent.instructions(self) if callable(agent.instructions) else agent.instructions
        if inspect.isawaitable(instructions):
            instructions = await instructions
        if instructions:
            if len(instructions.encode("utf-8", "replace")) > LONGEST_INSTRUCTIONS:
                raise ValueError(f"instructions must be shorter than {LONGEST_INSTRUCTIONS} bytes")
            flags.append(f"--append-system-prompt={instructions}")
        if agent.output_schema is not None:
            flags.append("--output-schema=" + self._files.write("schema.json", agent.output_schema))
        if agent.tools:
            self._server = ToolServer(self, list(agent.tools))
            await self._server.start()
            entry = {**self._server.entry(), "timeout": int(agent.tool_timeout * 1000)}
            flags.append("--mcp-config=" + self._files.write("mcp.json", {"mcpServers": {agent.name: entry}}))
        return [*flags, *agent.arguments]

    def _environment(self) -> Dict[str, str]:
        environment = {**os.environ, **self.agent.env}
        if self.agent.tools:
            # A proxy cannot reach the tools.
            known = environment.get("NO_PROXY") or environment.get("no_proxy")
            environment["NO_PROXY"] = f"{known},127.0.0.1" if known else "127.0.0.1"
        return environment

    async def _read(self) -> None:
        program = self._program
        assert program is not None
        async for line in program.lines():
            await self._handle(line)
        self._fail(await program.exited())

    async def _handle(self, event: Any) -> None:
        kind = event.get("type")
        if kind == "init":
            self.session_id, self.model = event["session_id"], event["model"]
        elif kind == "session":
            self.model, self.mode = event["model"], event["mode"]
            # The first of them ends the start: it answers no request.
            if settle(self._opened):
                return
        elif kind == "result" and self._opened is not None and not self._opened.done():
            error = event.get("error") or {}
            self._opened.set_exception(StartError(error.get("type", ""), error.get("message", ""),
                                                  error.get("code", 1), error.get("status")))
        elif kind == "ask":
            task = asyncio.ensure_future(self._answer(event))
            self._asks[event["id"]] = task
            task.add_done_callback(lambda _: self._asks.pop(event["id"], None))
        elif kind == "ask_closed":
            answering = self._asks.get(event["id"])
            if answering is not None:
                answering.cancel()
        elif kind == "error" and self._reject(event["message"]):
            return
        self._resolve(kind, event)
        if self._turn is not None:
            await self._turn.push(event)
            if kind == "result":
                self._end_turn()
        elif kind == "error":
            self._early.append(event)

    def _reject(self, message: str) -> bool:
        """An error about a line that something waits for."""
        found = LINE_NUMBER.fullmatch(message)
        if found is None:
            return False
        number, error = int(found.group(1)), InputRejectedError(found.group(2))
        for waiter in self._waiters:
            if waiter[0] == number:
                self._waiters.remove(waiter)
                settle(waiter[2], error)
                return True
        ask = self._answers.pop(number, None)
        if ask is not None:
            # The request is still open, unless the session has ended.
            if self._failure is None:
                self.write(approvals.denial(ask))
            self._fail_turn(error)
            return True
        if self._turn is not None and self._turn.line_number == number:
            self._turn.end(error)
            self._turn = None
            return True
        return False

    def _resolve(self, kind: str, event: Event) -> None:
        for waiter in self._waiters:
            if waiter[1] == kind:
                self._waiters.remove(waiter)
                settle(waiter[2], value=event)
                return

    async def _request(self, line: Dict[str, Any], answer: str) -> Any:
        await self.start()
        future: "asyncio.Future[Any]" = asyncio.get_running_loop().create_future()
        self._waiters.append((self.write(line), answer, future))
        return await future

    async def _begin(self, turn: TurnState) -> None:
        await self.start()
        while self._turn is not None:
            if not self._turn.is_abandoned:
                raise ParallaxError("a turn is running: wait for its end, steer it, or interrupt it")
            await self._turn.ended.wait()
        self._turn = turn
        turn.add(self._early)
        self._early.clear()
        try:
            turn.line_number = self.write(turn.line)
        except BaseException as error:
            self._turn = None
            turn.end(error)

    def _end_turn(self) -> None:
        self._turn = None
        self._answers.clear()
        if self._server is not None and not self._server.was_listed:
            log.warning("the program does not use the tools of this agent: its settings disable or replace the MCP "
                        "server `%s`", self.agent.name)

    def _fail_turn(self, error: BaseException) -> None:
        """Ends the turn because of an error in this process."""
        if self._turn is not None and self._turn.failure is None:
            self._turn.failure = error
            self.interrupt()

    async def _answer(self, ask: AskEvent) -> None:
        try:
            serves_tools = self._server is not None and self._server.was_listed
            line = await approvals.answer(self.agent, ask, serves_tools)
        except Exception as error:  # What a callback raises is not known here.
            line = approvals.denial(ask)
            self._fail_turn(error)
        if self._failure is None:
            self._answers[self.write(line)] = ask

    def _fail(self, error: BaseException) -> None:
        """Nothing more comes from the program."""
        if self._failure is None:
            self._failure = error
        settle(self._opened, error)
        for _, _, future in self._waiters:
            settle(future, error)
        self._waiters.clear()
        if self._turn is not None:
            self._turn.end(error)
            self._turn = None
        for task in list(self._asks.values()):
            task.cancel()


def settle(future: "Optional[asyncio.Future[Any]]", error: Optional[BaseException] = None, value: Any = None) -> bool:
    """Sets the result of a future; false: it had one."""
    if future is None or future.done():
        return False
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)
    return True
