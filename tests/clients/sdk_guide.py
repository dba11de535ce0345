"""Runs the programs of docs/guides/sdk.md and of the packages' READMEs, taken from their text, with a scripted model.

usage: sdk_guide.py PROGRAM MODEL_SERVER
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from scripted_model import answer, call, scripted_model

PROGRAM, SERVER = sys.argv[1:3]
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
REPLIES = [
    answer(call("mcp_sdk_lookup", order=7)),
    answer({"text": "Order 7 is shipped. "}),
    answer({"text": "Order 8, too."}),
]
PAGES = ["docs/guides/sdk.md", "packages/sdk-typescript/README.md", "packages/sdk-python/README.md"]


def run(page, language, code):
    command = [sys.executable] if language == "python" else ["node"]
    if not shutil.which(command[0]):
        print(f"sdk guide: {page}: {language} left out, {command[0]} is not available")
        return
    with tempfile.TemporaryDirectory() as folder, scripted_model(SERVER, REPLIES) as (project, env):
        os.makedirs(folder + "/node_modules/@parallax")
        os.symlink(ROOT + "/packages/sdk-typescript", folder + "/node_modules/@parallax/sdk")
        file = folder + ("/program.py" if language == "python" else "/program.mjs")
        with open(file, "w", encoding="utf-8") as out:
            out.write(code)
        env.update(PARALLAX_EXECUTABLE=os.path.abspath(PROGRAM), PYTHONDONTWRITEBYTECODE="1",
                   PYTHONPATH=ROOT + "/packages/sdk-python/src")
        done = subprocess.run([*command, file], cwd=project, env=env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and not done.stderr, (page, language, done)
        assert "Order 7 is shipped." in done.stdout, (page, language, done)
    print(f"sdk guide: {page}: {language}: ok")


def main():
    count = 0
    for page in PAGES:
        with open(os.path.join(ROOT, page), encoding="utf-8") as text:
            blocks = re.findall(r"^```(javascript|python)\n(.*?)^```", text.read(), re.DOTALL | re.MULTILINE)
        for language, code in blocks:
            if "import" in code:
                run(page, language, code)
                count += 1
    assert count == 4, f"{count} programs, expected 4"


main()
