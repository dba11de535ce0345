"""Finds the commands of the documents: those of shell blocks, transcripts, and code spans."""

import glob
import os
import re
import shlex
import subprocess
from dataclasses import dataclass, field

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATTERNS = ["README.md", "docs/*.md", "docs/*/*.md", "packaging/*/README.md"]
# Pages whose code spans are commands, too: `parallax …`, if values are known for all placeholders.
PAGES_WITH_SPANS = [
    "docs/agents.md", "docs/commands.md", "docs/extensions.md", "docs/getting-started.md", "docs/sandbox.md",
    "docs/sandbox-reference.md", "docs/session-privacy.md", "docs/guides/background.md", "docs/guides/providers.md",
    "docs/guides/questions.md", "docs/guides/release.md", "docs/guides/troubleshooting.md", "docs/guides/worktrees.md",
]
FENCE = re.compile(r"^(\s*)(`{3,}|~{3,})\s*(\w*)")
SPAN = re.compile(r"(?<!`)`(parallax(?: [^`\n]*)?)`(?!`)")
# A command with one of these in a code span is not complete.
PLACEHOLDER = re.compile(r"\b[A-Z]{2,}\b|…")


@dataclass
class Command:
    """A complete command: one line, or several if the shell needs them."""

    page: str
    line: int
    text: str
    # What a transcript shows below the command.
    output: str | None = None
    is_span: bool = False

    @property
    def place(self):
        return f"{self.page}:{self.line}"


@dataclass
class Block:
    """Commands that run in one shell."""

    page: str
    line: int
    commands: list[Command] = field(default_factory=list)


def is_complete(text):
    """Whether bash can run the text without further lines."""
    if text.endswith("\\"):
        return False
    return subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False).returncode == 0


def split_commands(page, numbered_lines):
    commands, begun, start = [], "", 0
    for number, line in numbered_lines:
        if not begun:
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            start = number
        begun = f"{begun}\n{line}" if begun else line
        if is_complete(begun):
            commands.append(Command(page, start, begun.strip()))
            begun = ""
    if begun:
        commands.append(Command(page, start, begun.strip()))
    return commands


def split_transcript(page, numbered_lines):
    commands = []
    for number, line in numbered_lines:
        if line.startswith("$ "):
            commands.append(Command(page, number, line[2:], ""))
        elif commands:
            commands[-1].output += line + "\n"
    return commands


def blocks_of(page):
    """The blocks of a page, in order."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        lines = file.read().split("\n")
    blocks, fence = [], None
    for number, line in enumerate(lines, 1):
        found = FENCE.match(line)
        if fence is None and found:
            fence, language, content, start = found[2], found[3], [], number
        elif fence is not None and found and found[2].startswith(fence):
            fence = None
            if any(text.startswith("$ ") for _, text in content):
                blocks.append(Block(page, start, split_transcript(page, content)))
            elif language in ("sh", "bash"):
                blocks.append(Block(page, start, split_commands(page, content)))
        elif fence is not None:
            content.append((number, line))
        elif page in PAGES_WITH_SPANS:
            for span in SPAN.findall(line):
                blocks.append(Block(page, number, [Command(page, number, span, is_span=True)]))
    return blocks


def all_blocks():
    """The blocks of each page that has any."""
    pages = {}
    for pattern in PATTERNS:
        for path in sorted(glob.glob(os.path.join(ROOT, pattern))):
            page = os.path.relpath(path, ROOT).replace(os.sep, "/")
            if page not in pages and (blocks := blocks_of(page)):
                pages[page] = blocks
    return pages


# Flags with which the program runs without its terminal interface.
HEADLESS = {
    "-p", "--prompt", "--bg", "--list-sessions", "--delete-session", "--list-extensions", "-l", "--acp", "--setup",
    "-v", "--version", "-h", "--help", "-o", "--output-format", "--input-format", "--session-file",
}


def opens_terminal(text, subcommands):
    """Whether a command is a single call of the program that opens its terminal interface."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split, lexer.commenters = True, "#"
    try:
        words = list(lexer)
    except ValueError:
        return False
    if words[:1] != ["parallax"] or any(set(word) <= set("|&;<>()") for word in words if word):
        return False
    is_headless = any(word.split("=")[0] in HEADLESS for word in words)
    return not is_headless and words[1:2] != [] and words[1] not in subcommands or words == ["parallax"]
