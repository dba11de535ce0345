"""The process of the program: lines in, lines out."""
import asyncio
import json
import logging
import os
import shutil
from typing import Any, AsyncIterator, Dict, List, Optional

from .errors import ProgramExitedError, ProgramNotFoundError

log = logging.getLogger("parallax_sdk")
CHUNK = 64 * 1024
STDERR_TAIL = 8 * 1024
# After each of these, in seconds, the next stronger means ends the program.
PATIENCE = (5.0, 3.0)


def find_program(executable: Optional[str]) -> str:
    """The path of the binary: the given one, that of `PARALLAX_EXECUTABLE`, or the one on the path."""
    wanted = executable or os.environ.get("PARALLAX_EXECUTABLE") or "parallax"
    found = shutil.which(wanted)
    if found is None:
        raise ProgramNotFoundError(
            f"program not found: {wanted}. Install Parallax, or name its binary with `executable` "
            "or with the environment variable PARALLAX_EXECUTABLE")
    # The program runs in another directory.
    return os.path.abspath(found)


class Program:
    """A running program."""

    def __init__(self, process: "asyncio.subprocess.Process") -> None:
        self._process = process
        self._written = 0
        self._stderr = b""
        self._reading_stderr = asyncio.ensure_future(self._read_stderr())

    @classmethod
    async def start(cls, arguments: List[str], cwd: str, environment: Dict[str, str]) -> "Program":
        """Starts the program."""
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *arguments, cwd=cwd, env=environment, stdin=pipe, stdout=pipe, stderr=pipe)
        except OSError as error:
            if not os.path.isdir(cwd):
                raise NotADirectoryError(f"the working directory does not exist: {cwd}") from error
            raise ProgramNotFoundError(f"failed to start {arguments[0]}: {error}") from error
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    def write(self, line: Dict[str, Any]) -> int:
        """Writes a line, and returns its number."""
        assert self._process.stdin is not None
        text = json.dumps(line, ensure_ascii=False).encode("utf-8", "replace")
        self._process.stdin.write(text + b"\n")
        self._written += 1
        return self._written

    async def lines(self) -> AsyncIterator[Dict[str, Any]]:
        """The lines of the output, of any length. A line that is not a JSON object is logged and skipped."""
        assert self._process.stdout is not None
        pieces: List[bytes] = []
        while chunk := await self._process.stdout.read(CHUNK):
            first, *rest = chunk.split(b"\n")
            pieces.append(first)
            for piece in rest:
                line = b"".join(pieces)
                pieces = [piece]
                try:
                    parsed = json.loads(line)
                except ValueError:
                    parsed = None
                if isinstance(parsed, dict):
                    yield parsed
                elif line.strip():
                    log.warning("parallax wrote a line that is not a JSON object: %r", line[:200])

    async def exited(self) -> ProgramExitedError:
        """Waits for the end, and says how it came."""
        code = await self._process.wait()
        await asyncio.wait({self._reading_stderr}, timeout=1)
        return ProgramExitedError(code, self._stderr.decode("utf-8", "replace").strip())

    async def close(self) -> None:
        """Ends the input, then the program, with more force when it does not end by itself."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        for patience, signal in zip(PATIENCE, (self._process.terminate, self._process.kill)):
            try:
                await asyncio.wait_for(self._process.wait(), patience)
                break
            except asyncio.TimeoutError:
                signal()
        await self._process.wait()
        self._reading_stderr.cancel()

    async def _read_stderr(self) -> None:
        """Keeps the end of standard error, so that a full pipe never blocks the program."""
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(CHUNK):
            self._stderr = (self._stderr + chunk)[-STDERR_TAIL:]
