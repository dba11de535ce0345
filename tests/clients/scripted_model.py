"""A scripted model, and a home and a project for a program that uses it."""
import contextlib
import json
import os
import socket
import subprocess
import tempfile
import time


def answer(*parts):
    """A reply of the model."""
    candidate = {"content": {"role": "model", "parts": list(parts)}, "finishReason": "STOP"}
    return {"method": "streamGenerateContent", "chunks": [{"candidates": [candidate]}]}


def call(name, **arguments):
    """A function call in a reply."""
    return {"functionCall": {"name": name, "args": arguments}}


@contextlib.contextmanager
def scripted_model(server, replies):
    """Yields the project's directory and the environment of the program."""
    with tempfile.TemporaryDirectory() as top:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        for folder in ("home", "project"):
            os.mkdir(f"{top}/{folder}")
        with open(top + "/script.json", "w", encoding="utf-8") as file:
            json.dump({"replies": replies}, file)
        command = [server, top + "/script.json", "--port", str(port)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        time.sleep(0.5)
        env = {"PATH": os.environ["PATH"], "HOME": top + "/home", "GEMINI_API_KEY": "x",
               "GEMINI_CLI_TRUST_WORKSPACE": "true",
               "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{port}"}
        try:
            yield top + "/project", env
        finally:
            process.kill()
            process.wait()
