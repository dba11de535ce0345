"""Lets the official Rust client of the Agent Client Protocol run the program as its agent.

usage: official_rust_editor.py PROGRAM MODEL_SERVER CLIENT
"""
import subprocess
import sys

from scripted_model import answer, call, scripted_model

PROGRAM, SERVER, CLIENT = sys.argv[1:4]

REPLIES = [
    answer({"text": "I will."}, call("write_file", file_path="b.txt", content="hello\n")),
    answer(call("write_todos", todos=[{"description": "a", "status": "in_progress"}])),
    answer({"text": "Done"}),
]

with scripted_model(SERVER, REPLIES) as (directory, environment):
    subprocess.run([CLIENT, f"'{PROGRAM}' --acp"], cwd=directory, env=environment, check=True, timeout=60)
print("official_rust_editor: ok")
