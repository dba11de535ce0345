"""Runs a program in a pseudo-terminal, answers the queries of its front end, and types.

usage: terminal.py until-drawn PROGRAM [ARGUMENT…]     end it when the composer is drawn
       terminal.py answering ANSWER PROGRAM [ARGUMENT…]    type ANSWER and Enter at its question

Prints the output. The exit code is that of the program, and 124 if it does not get that far.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

LIMIT = 15
# How long no output means that a frame or a question is complete.
QUIET = 0.3
# What an empty composer shows.
COMPOSER = "Type your message"
QUERIES = [
    (b"\x1b[c", b"\x1b[?62;22c"), (b"\x1b[0c", b"\x1b[?62;22c"), (b"\x1b[6n", b"\x1b[1;1R"),
    (b"\x1b[18t", b"\x1b[8;40;120t"), (b"\x1b]11;?", b"\x1b]11;rgb:1616/1818/1d1d\x1b\\"),
]
CONTROL = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[P_][^\x1b]*\x1b\\|[()][A-Z0-9]|.)")


class Terminal:
    def __init__(self, words):
        self.output = b""
        self.has_ended = False
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm-256color"
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
            os.execvp(words[0], words)

    def read(self, seconds):
        """Reads what comes in this time; whether something came."""
        if self.has_ended or not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            piece = os.read(self.master, 65536)
        except OSError:
            piece = b""
        self.has_ended = not piece
        self.output += piece
        for query, answer in QUERIES:
            if query in piece:
                self.type(answer)
        return bool(piece)

    def type(self, text):
        if not self.has_ended:
            os.write(self.master, text)

    def text(self):
        return CONTROL.sub("", self.output.decode("utf-8", "replace"))

    def wait_until_quiet(self, holds, deadline):
        """Waits until the text holds and no output follows; whether it does."""
        while time.monotonic() < deadline and not self.has_ended:
            if not self.read(QUIET) and not self.has_ended and holds(self.text()):
                return True
        return False

    def exit_code(self, deadline):
        """Waits for the end of the program."""
        while time.monotonic() < deadline:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
            if self.has_ended:
                time.sleep(0.02)
        os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return 124


def main(arguments):
    deadline = time.monotonic() + LIMIT
    if arguments[0] == "until-drawn":
        terminal = Terminal(arguments[1:])
        is_drawn = terminal.wait_until_quiet(lambda text: COMPOSER in text, deadline)
        # Ctrl+C closes a dialog or cancels a turn; twice in an empty composer, it ends the program.
        for _ in range(4):
            terminal.type(b"\x03")
            terminal.read(QUIET)
        code = terminal.exit_code(deadline + 3)
        code = code if is_drawn else code or 124
    else:
        terminal = Terminal(arguments[2:])
        if terminal.wait_until_quiet(str.strip, deadline):
            terminal.type(arguments[1].encode() + b"\r")
        code = terminal.exit_code(deadline)
    sys.stdout.write(terminal.text())
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
