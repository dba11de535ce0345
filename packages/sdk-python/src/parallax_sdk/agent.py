"""An agent: the settings that its sessions share."""
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Dict, List, Optional, Sequence, Union

from .events import ApprovalMode, AskEvent
from .session import Session
from .tools import SkillDirectory, Tool

ApprovalAnswer = Union[bool, str, Dict[str, Any], None]
ApprovalCallback = Callable[[AskEvent], Union[ApprovalAnswer, Awaitable[ApprovalAnswer]]]
QuestionCallback = Callable[[AskEvent], Any]
Instructions = Union[str, Callable[[Session], Union[str, Awaitable[str]]], None]


@dataclass
class Agent:
    """Opens sessions. Every field is optional, except that tools and skills do nothing without a model.

    `on_approval` gets each `ask` event for a tool call that needs approval and returns true (run
    it), false (do not), one of its `outcomes`, or an object with the fields of a `decide` line and
    its `outcome`. Anything else denies the call and raises `InputRejectedError`. Without the
    callback, such calls are denied. `on_question` gets each question of the model and returns
    the answer, or `None`.
    """

    instructions: Instructions = None
    """Text that is appended to the system prompt, or a function of the session that returns it."""
    tools: Sequence[Tool] = ()
    skills: Sequence[SkillDirectory] = ()
    model: Optional[str] = None
    mode: Optional[ApprovalMode] = None
    """The approval mode: `default`, `auto_edit`, `plan`, or `yolo`."""
    cwd: str = field(default_factory=os.getcwd)
    on_approval: Optional[ApprovalCallback] = None
    on_question: Optional[QuestionCallback] = None
    trust: bool = False
    """Trust the working directory for these sessions (`--skip-trust`)."""
    max_turns: Optional[int] = None
    """Stop after this many model requests."""
    output_schema: Optional[Dict[str, Any]] = None
    """The JSON Schema of final answers, which are then in `structured`."""
    record: Optional[str] = None
    """Record all model requests and responses in this file."""
    replay: Optional[str] = None
    """Replay the responses of a recording instead of calling a model."""
    name: str = "sdk"
    """The name of the MCP server that has the tools: the model sees them as `mcp_NAME_TOOL`."""
    tool_timeout: float = 600.0
    """How many seconds a tool may run without reporting progress."""
    env: Dict[str, str] = field(default_factory=dict)
    """Environment variables, on top of those of this process."""
    arguments: Sequence[str] = ()
    """More flags of the program."""
    executable: Optional[str] = None
    """The binary. Default: `PARALLAX_EXECUTABLE`, or `parallax` on the path."""

    def __post_init__(self) -> None:
        self.cwd = os.path.abspath(self.cwd)
        names = [tool.name for tool in self.tools]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"tools need different names: {', '.join(sorted(twice))}")

    def session(self, session_id: Optional[str] = None) -> Session:
        """A new session, with this id if one is given. The program starts with the first use."""
        return Session(self, session_id=session_id)

    async def resume_session(self, session_id: str) -> Session:
        """Continues a session that an earlier process saved. `latest`: the newest of the directory."""
        session = Session(self, resume=session_id)
        await session.start()
        return session
