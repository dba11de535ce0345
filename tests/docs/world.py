"""A home directory and a project in which the commands of one page run."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import values
from pages import ROOT

HERE = os.path.dirname(os.path.abspath(__file__))


def processes_with(variable):
    """The processes that have this environment variable."""
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if variable.encode() in file.read().split(b"\0"):
                        found.append(int(name))
            except OSError:
                continue
    return found


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class World:
    """Everything below `top`; processes are known by the variable that all of them inherit.

    Without a template, it is one for the worlds of pages.
    """

    def __init__(self, page, top, program, model, template=None):
        self.top = top
        self.home, self.project = f"{top}/home", f"{top}/home/projects/app"
        self.results = f"{top}/results"
        for directory in (self.results, f"{top}/bin", f"{top}/tmp"):
            os.makedirs(directory)
        if template:
            shutil.copytree(f"{template.top}/home", self.home)
        else:
            shutil.copytree(f"{HERE}/project", self.project)
        with open(f"{top}/stdin", "w", encoding="utf-8") as file:
            file.write(values.STDIN.get(page, ""))
        os.symlink(program, f"{top}/bin/parallax")
        os.symlink(sys.executable, f"{top}/bin/python3")
        self.environment = {
            "PATH": f"{top}/bin:{HERE}/bin:{os.environ['PATH']}",
            "HOME": self.home,
            "TMPDIR": f"{top}/tmp",
            "LANG": "C.UTF-8",
            "DOCS_WORLD": top,
            "TESTS": HERE,
            "REPOSITORY": ROOT,
            "PYTHON": sys.executable,
            "RESULTS": self.results,
            "PORT": str(free_port()),
            "GEMINI_API_KEY": "test-key",
            "GOOGLE_GEMINI_BASE_URL": model,
            "GOOGLE_VERTEX_BASE_URL": model,
            "OPENAI_API_KEY": "test-key",
            "OPENAI_BASE_URL": f"{model}/v1",
            "ANTHROPIC_API_KEY": "test-key",
            "ANTHROPIC_BASE_URL": model,
            "OPENROUTER_API_KEY": "test-key",
            "OPENROUTER_BASE_URL": f"{model}/v1",
            "OLLAMA_HOST": model,
            "LMSTUDIO_BASE_URL": f"{model}/v1",
            "LLAMACPP_BASE_URL": f"{model}/v1",
            "VLLM_BASE_URL": f"{model}/v1",
            # Whatever tries to leave this machine meets a closed port.
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "NO_PROXY": "127.0.0.1,localhost",
        }
        self.set_up(["trust", *values.FIXTURES.get(page, [])] if template else ["basic"])

    def set_up(self, fixtures):
        script = "\n".join(['. "$TESTS/fixtures.sh"', *fixtures])
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], env=self.environment, cwd=self.project,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=60, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"the fixtures {' '.join(fixtures)} fail: {done.stdout.strip()}")


def remove(top):
    """Ends the processes of a world and deletes its files."""
    begun = time.monotonic()
    while left := processes_with(f"DOCS_WORLD={top}"):
        waited = time.monotonic() - begun
        if waited > 8:
            raise RuntimeError(f"processes do not end: {left}")
        for process in left:
            try:
                os.kill(process, signal.SIGTERM if waited < 2 else signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.1)
    shutil.rmtree(top)
