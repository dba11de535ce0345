"""Answers to the approval requests and questions of the program."""
import inspect
import os
from typing import TYPE_CHECKING, Any, Dict, Optional

from .errors import InputRejectedError
from .events import AskEvent

if TYPE_CHECKING:
    from .agent import Agent

NO_CALLBACK = "The program that runs this session does not approve tool calls."
MALFORMED = "`on_approval` must return True, False, one of the outcomes, or an object with an `outcome`"


async def answer(agent: "Agent", ask: AskEvent, serves_tools: bool) -> Dict[str, Any]:
    """The line that answers the request. `serves_tools`: the program uses the tool server of the session.

    Raises what the callback raises.
    """
    if ask["kind"] == "question":
        value = None
        if agent.on_question is not None:
            value = agent.on_question(ask)
            if inspect.isawaitable(value):
                value = await value
        return {"type": "answer", "id": ask["id"], "value": value}
    return {**await decision(agent, ask, serves_tools), "type": "decide", "id": ask["id"]}


async def decision(agent: "Agent", ask: AskEvent, serves_tools: bool) -> Dict[str, Any]:
    if is_own(agent, ask, serves_tools):
        return {"outcome": "proceed_once"}
    if agent.on_approval is None:
        return {"outcome": "cancel", "feedback": NO_CALLBACK}
    given = agent.on_approval(ask)
    if inspect.isawaitable(given):
        given = await given
    if given is True:
        return {"outcome": "proceed_once"}
    if given is False or given is None:
        return {"outcome": "cancel"}
    if isinstance(given, str):
        return {"outcome": given}
    # Never approve what was not said clearly.
    if not isinstance(given, dict) or not isinstance(given.get("outcome"), str):
        raise InputRejectedError(MALFORMED)
    return given


def is_own(agent: "Agent", ask: AskEvent, serves_tools: bool) -> bool:
    """Whether it is about something that the agent itself brought: a tool, or a skill of its directories.

    Settings can replace the tool server by another one of the same name, whose tools need approval.
    """
    preview: Optional[Any] = ask.get("preview")
    if not preview:
        return False
    if preview["type"] == "mcp" and preview["server"] == agent.name and serves_tools:
        return any(tool.name == preview["tool"] and not tool.needs_approval for tool in agent.tools)
    if preview["type"] == "skill":
        folder = os.path.realpath(preview["folder"])
        return any(contains(os.path.realpath(skill.path), folder) for skill in agent.skills)
    return False


def contains(directory: str, path: str) -> bool:
    return path == directory or path.startswith(os.path.join(directory, ""))


def denial(ask: AskEvent) -> Dict[str, Any]:
    """The line that denies the request."""
    if ask["kind"] == "question":
        return {"type": "answer", "id": ask["id"], "value": None}
    return {"type": "decide", "id": ask["id"], "outcome": "cancel"}
