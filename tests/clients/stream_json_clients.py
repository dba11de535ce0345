"""Runs the clients of docs/guides/stream-json.md, taken from its text, with a scripted model.

usage: stream_json_clients.py PROGRAM MODEL_SERVER
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from scripted_model import answer, call, scripted_model

PROGRAM, SERVER = sys.argv[1:3]
GUIDE = os.path.join(os.path.dirname(__file__), "../../docs/guides/stream-json.md")

REPLIES = [
    answer({"text": "I will."}, call("write_file", file_path="a.txt", content="hello\n")),
    answer({"text": "Grüße, done"}),
    answer(call("write_file", file_path="b.txt", content="hello\n")),
    answer({"text": "Never mind"}),
]

CLIENTS = {
    "python": ("client.py", [sys.executable]),
    "javascript": ("client.mjs", ["node"]),
    "bash": ("client.sh", ["bash"]),
}


def run(language, code):
    name, command = CLIENTS[language]
    needed = ["jq", "bash"] if language == "bash" else command
    if not all(shutil.which(tool) for tool in needed):
        print(f"stream-json clients: {language} left out, {needed} cannot be had here")
        return
    with tempfile.TemporaryDirectory() as folder, scripted_model(SERVER, REPLIES) as (project, env):
        os.symlink(os.path.abspath(PROGRAM), folder + "/parallax")
        env["PATH"] = folder + ":" + env["PATH"]
        file = os.path.join(folder, name)
        with open(file, "w", encoding="utf-8") as out:
            out.write(code)

        def prompt(said):
            done = subprocess.run([*command, file, "write", "it"], cwd=project, env=env,
                                  input=said, capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, (language, done)
            return done.stdout

        shown = prompt("y\n")
        assert "I will." in shown and "Grüße, done" in shown, (language, shown)
        with open(project + "/a.txt", encoding="utf-8") as written:
            assert written.read() == "hello\n", language
        assert "b.txt" not in os.listdir(project)
        prompt("n\n")
        assert "b.txt" not in os.listdir(project), language
    print(f"stream-json clients: {language}: ok")


def main():
    with open(GUIDE, encoding="utf-8") as guide:
        blocks = re.findall(r"^```(\w+)\n(.*?)^```", guide.read(), re.DOTALL | re.MULTILINE)
    assert [language for language, _ in blocks] == list(CLIENTS), "one block for each client"
    for language, code in blocks:
        assert code.count("\n") <= 32, f"{language}: the client has grown"
        run(language, code)


main()
