"""Drive the terminal AI agent Parallax from Python."""
from . import events
from .agent import Agent
from .errors import (
    InputRejectedError,
    ModelVisibleError,
    ParallaxError,
    ProgramExitedError,
    ProgramNotFoundError,
    ReportedError,
    StartError,
    ToolError,
    TurnCancelledError,
    TurnError,
)
from .session import Session
from .tools import SkillDirectory, Tool, ToolContext, skill_dir, tool
from .turn import Turn, TurnResult

__all__ = [
    "Agent", "InputRejectedError", "ModelVisibleError", "ParallaxError", "ProgramExitedError",
    "ProgramNotFoundError", "ReportedError", "Session", "SkillDirectory", "StartError", "Tool", "ToolContext",
    "ToolError", "Turn", "TurnCancelledError", "TurnError", "TurnResult", "events", "skill_dir", "tool",
]
