"""The files that the program reads at its start. They contain the token of the tools."""
import json
import os
import shutil
import tempfile
from typing import Any, Optional


class SessionFiles:
    """A private directory, which exists until the program has read what is in it."""

    def __init__(self) -> None:
        self._directory: Optional[str] = None

    def write(self, name: str, content: Any) -> str:
        """Writes JSON for this user only, and returns the path."""
        if self._directory is None:
            self._directory = tempfile.mkdtemp(prefix="parallax-sdk-")
        path = os.path.join(self._directory, name)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file)
        return path

    def remove(self) -> None:
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None
