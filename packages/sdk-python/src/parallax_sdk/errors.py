"""What can go wrong."""
from typing import Optional


class ParallaxError(Exception):
    """Every error of this package except `ModelVisibleError`."""


class ProgramNotFoundError(ParallaxError):
    """The binary `parallax` is not installed, or not where the agent looks for it."""


class ProgramExitedError(ParallaxError):
    """The program ended while it was needed."""

    def __init__(self, exit_code: Optional[int], stderr: str) -> None:
        if exit_code is not None and exit_code < 0:
            how = f"was terminated by signal {-exit_code}"
        else:
            how = f"ended with exit code {exit_code}"
        super().__init__(f"parallax {how}" + (f": {stderr}" if stderr else ""))
        self.exit_code = exit_code
        """The exit code; negative: the signal that ended it."""
        self.stderr = stderr
        """The end of what it wrote to standard error."""


class ReportedError(ParallaxError):
    """A failure that the program reported, with the fields of `error` in its `result` line."""

    def __init__(self, kind: str, message: str, code: int, status: Optional[int] = None) -> None:
        super().__init__(message)
        self.type = kind
        """The class of the failure, such as `ApiError`."""
        self.code = code
        """The exit code; for a failure of the model service, its HTTP status."""
        self.status = status
        """The HTTP status of the model service, if there was one."""


class StartError(ReportedError):
    """The session could not be opened: no key, an untrusted directory, an unknown session id."""


class TurnError(ReportedError):
    """The turn failed."""


class TurnCancelledError(TurnError):
    """The turn was interrupted."""


class InputRejectedError(ParallaxError):
    """The program did not accept a line: an unknown mode, an unknown command."""


class ToolError(ParallaxError):
    """A tool raised an error that is not meant for the model. `__cause__` has it."""

    def __init__(self, tool: str, cause: BaseException) -> None:
        super().__init__(f"tool `{tool}` failed: {cause!r}")
        self.tool = tool
        """The name of the tool."""
        self.__cause__ = cause


class ModelVisibleError(Exception):
    """Raise it in a tool: the model reads the message as the result of the call."""
