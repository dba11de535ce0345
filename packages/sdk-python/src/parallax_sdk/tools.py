"""Tools that the model can call, and skill directories."""
import asyncio
import inspect
import json
import os
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Dict, Optional, Union

if TYPE_CHECKING:
    from .agent import Agent
    from .session import Session

ToolFunction = Callable[[Dict[str, Any], "ToolContext"], Union[Any, Awaitable[Any]]]
ProgressReport = Callable[[float, Optional[float], Optional[str]], Awaitable[None]]


@dataclass(frozen=True)
class ToolContext:
    """What a tool can know about the call."""

    session: "Session"
    """The session of the call."""
    timestamp: datetime
    """When the call arrived."""
    _report: ProgressReport = field(repr=False)

    @property
    def agent(self) -> "Agent":
        """The agent of the session."""
        return self.session.agent

    @property
    def session_id(self) -> str:
        """The id of the session."""
        return self.session.session_id

    @property
    def cwd(self) -> str:
        """The working directory of the session."""
        return self.session.agent.cwd

    async def progress(self, progress: float, total: Optional[float] = None,
                       message: Optional[str] = None) -> None:
        """Reports progress, which becomes a `tool_progress` event. It also extends the time limit of the call."""
        await self._report(progress, total, message)


@dataclass(frozen=True)
class Tool:
    """A tool that the model can call. Make one with `tool`."""

    name: str
    description: str
    input_schema: Dict[str, Any]
    function: ToolFunction
    send_errors_to_model: bool = False
    needs_approval: bool = False
    read_only: bool = False

    async def call(self, arguments: Dict[str, Any], context: ToolContext) -> str:
        """The result as text: a string as it is, everything else as JSON."""
        if inspect.iscoroutinefunction(self.function):
            result = await self.function(arguments, context)
        else:
            # A function that blocks must not stop the events.
            result = await asyncio.to_thread(self.function, arguments, context)
            if inspect.isawaitable(result):
                result = await result
        if result is None:
            return ""
        return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


def tool(name: str, description: str, input_schema: Optional[Dict[str, Any]] = None, *,
         send_errors_to_model: bool = False, needs_approval: bool = False,
         read_only: bool = False) -> Callable[[ToolFunction], Tool]:
    """Makes a tool of a function `(params, context)`, which may be `async`.

    `input_schema` is a JSON Schema; arguments that do not match it never reach the function.
    An error that the function raises ends the turn and is raised as `ToolError`, except for
    `ModelVisibleError`; with `send_errors_to_model`, the model reads every error instead.
    Calls run without approval unless `needs_approval` is set. `read_only` makes the tool
    available in plan mode.
    """
    if not name or not all(char.isascii() and (char.isalnum() or char in "_-") for char in name):
        raise ValueError(f"tool name {name!r}: use letters, digits, `_`, and `-`")
    schema = {"type": "object", "properties": {}} if input_schema is None else input_schema
    if schema.get("type") != "object":
        raise ValueError(f"tool {name!r}: the type of `input_schema` must be \"object\"")

    def decorate(function: ToolFunction) -> Tool:
        return Tool(name, description, schema, function, send_errors_to_model, needs_approval, read_only)

    return decorate


@dataclass(frozen=True)
class SkillDirectory:
    """A directory with skills. Make one with `skill_dir`."""

    path: str


def skill_dir(path: Union[str, "os.PathLike[str]"]) -> SkillDirectory:
    """A skill (a directory with `SKILL.md`), or a directory of skills."""
    return SkillDirectory(os.path.abspath(path))
