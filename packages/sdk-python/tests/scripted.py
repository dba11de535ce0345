"""A scripted model, and a home and a project for a program that uses it."""
import json
import os
import subprocess
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
PROGRAM = os.path.abspath(os.environ.get("PARALLAX_EXECUTABLE", os.path.join(ROOT, "target/debug/parallax")))
SERVER = os.environ.get("PARALLAX_MODEL_SERVER", os.path.join(ROOT, "target/debug/model-server"))


def answer(*parts):
    """A reply of the model: texts and calls."""
    parts = [{"text": part} if isinstance(part, str) else part for part in parts]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    return {"chunks": [{"candidates": [candidate]}]}


def begun(text):
    """A reply that begins with this text and never ends."""
    return {"chunks": [{"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}}]}, {"hang": True}]}


def call(name, /, **arguments):
    """A function call in a reply."""
    return {"functionCall": {"name": name, "args": arguments}}


class ScriptedModel:
    """A model server with these replies. Ends with `close`."""

    def __init__(self, replies):
        self._directory = tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/tmp"))
        self.root = self._directory.name
        self.project = os.path.join(self.root, "project")
        self.temporary = os.path.join(self.root, "tmp")
        for folder in ("home", "project", "tmp"):
            os.mkdir(os.path.join(self.root, folder))
        script = os.path.join(self.root, "script.json")
        with open(script, "w", encoding="utf-8") as file:
            json.dump({"replies": replies}, file)
        self._log = os.path.join(self.root, "log")
        self._process = subprocess.Popen([SERVER, script, "--log", self._log], stdout=subprocess.PIPE, text=True)
        address = self._process.stdout.readline().split()[-1]
        self.environment = {
            "HOME": os.path.join(self.root, "home"), "GEMINI_API_KEY": "x", "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GOOGLE_GEMINI_BASE_URL": address, "TMPDIR": self.temporary}

    def requests(self):
        """The requests so far, as text."""
        with open(self._log, encoding="utf-8") as file:
            return file.read().splitlines()

    def close(self):
        self._process.kill()
        self._process.communicate()
        self._directory.cleanup()


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
