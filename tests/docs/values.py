"""What the commands of the documents need in order to run: values of placeholders, and how to run them."""

SESSION = "0198c2f4"

# Regular expressions and their replacements, for one page or for all ("").
VALUES = {
    "": [
        (r"GEMINI_API_KEY=…", "GEMINI_API_KEY=test-key"),
        (r'"…"', '"Say hello"'),
        (r"cd your-project", "cd ."),
    ],
    "docs/agents.md": [(r"\[NAME…\]", "reviewer")],
    "docs/extensions-reference.md": [
        (r"new PATH \[TEMPLATE\]", "new fresh custom-commands"),
        (r"PATH", "palette"),
        (r" \[NAME…\]", ""),
    ],
    "docs/extensions.md": [
        (r"https://github\.com/owner/name", '"git://127.0.0.1:$PORT/host"'),
        (r"https://git\.example/name\.git", '"git://127.0.0.1:$PORT/git"'),
    ],
    "docs/guides/background.md": [
        (r"--bg -p", "--bg --session-id 3f2a0000-0000-4000-8000-000000000001 -p"),
        (r"logs ID", "logs 3f2a"),
        (r"stop ID", "stop 4a5b"),
    ],
    "docs/guides/troubleshooting.md": [(r"NAME", "flash")],
    # The one that the command with a prompt made.
    "docs/guides/worktrees.md": [(r"NAME", '"$(parallax worktrees list | cut -d " " -f 1)"')],
    "docs/session-privacy.md": [(r"WORD", "computed")],
    "docs/hooks.md": [(r"NAME", "guard")],
    "docs/mcp.md": [(r"https://mcp\.example/mcp", '"$(cat ~/mcp-url)"')],
    "docs/policies.md": [(r"FILE", "rules.toml")],
    "docs/session-files.md": [(r"DIR", '"$HOME/exported"')],
    "docs/sessions.md": [
        (r"FILE", "~/.gemini/tmp/my-project/chats/session-2026-03-01T10-00-1a2b3c4d.jsonl"),
        (r"move ID", f"move {SESSION}"),
        (r"/old/directory", '"$HOME/old"'),
    ],
    "docs/skills.md": [
        (r"SOURCE", "skills/careful-review"),
        (r"DIRECTORY", "skills/quick-review"),
        (r"uninstall NAME", "uninstall careful-review"),
        (r"able NAME", "able quick-review"),
    ],
    "docs/trust.md": [(r"PATH", "~/projects/downloads")],
    "docs/undo.md": [(r"ID", SESSION + "-0000-7000-8000-000000000001")],
    "docs/guides/server.md": [(r"3f9c…", "token-of-this-test"), (r"8137", '"$PORT"')],
    "packaging/container/README.md": [(r"PATH/TO/parallax", '"$(command -v parallax)"')],
}

# How a command (`{}`) is run in another way than as it is written, by page and beginning.
RUN_AS = {
    ("docs/extensions.md", "parallax extensions install"): "answering y {}",
    # The document shows alternatives.
    ("docs/extensions.md", "parallax extensions link"): "parallax extensions uninstall my-extension; answering y {}",
    ("docs/extensions-reference.md", "parallax extensions link"): "answering y {}",
    ("docs/guides/background.md", "parallax answer"): "until parallax ps | grep 'awaiting approval'; do sleep 0.1; done; {}",
    # A session that waits for approval, so that it still runs.
    ("docs/guides/background.md", "parallax stop"):
        'parallax --bg --session-id 4a5b0000-0000-4000-8000-000000000002 -p "Update the dependencies"; {}',
    ("docs/guides/devtools.md", "parallax devtools"): "until_printed DevTools: {}",
    # The document shows another way to run the same plan.
    ("docs/guides/kubernetes.md", "parallax batch plan.jsonl --on kubernetes --image registry.example/parallax:1 --secret"
     " model-keys --skip-trust \\"): "rm -r plan-results; {}",
    ("docs/guides/providers.md", "parallax auth add"): "answering test-key {}",
    # One request, in the format of the provider.
    ("docs/guides/providers.md", "parallax -m openai:gpt-6-sol -p"): "{}",
    ("docs/guides/providers.md", "parallax -m vertex"): 'GOOGLE_API_KEY=test-key {} -p "Say hello"',
    ("docs/guides/providers.md", "parallax -m"): '{} -p "Say hello"',
    ("docs/guides/server.md", "parallax serve"): "export PARALLAX_SERVE_TOKEN=token-of-this-test; until_printed Listening {}",
    ("docs/mcp.md", "parallax mcp auth issues --no-browser"): "pasting_url {}",
    # Without a key that would be used otherwise.
    ("docs/models-and-keys.md", "export GOOGLE_GENAI_USE_VERTEXAI"): "unset GEMINI_API_KEY; {}",
    ("docs/guides/stream-json.md", "while read"): "{}; test -s first.txt",
    ("docs/skills.md", "parallax skills install"): "answering y {}",
    ("docs/skills.md", "parallax skills link"): "answering y {}",
    ("docs/undo.md", "parallax undo -y"): 'parallax -y -p "Write first.txt"; echo mine >>first.txt; {}',
}

# Exit codes other than 0, by page and beginning of the command, with the reason.
EXIT_CODES = {
    ("docs/guides/worktrees.md", "parallax worktrees remove"): (42, "refused: its changes would be lost"),
    ("docs/undo.md", "parallax undo -y"): (1, "the file that changed since is skipped"),
}

# A text that the output must contain, by page and beginning of the command.
SHOWS = {
    ("docs/agents.md", "parallax agents accept"): "accepted: reviewer",
    ("docs/guides/kubernetes.md", "parallax batch collect"): "login: succeeded",
    ("docs/guides/providers.md", "parallax auth add"): "Stored the key",
    ("docs/guides/review.md", "parallax review --pr"): "Findings: 1 high",
    ("docs/guides/server.md", "curl"): "TASK_STATE_COMPLETED",
    ("docs/mcp.md", "parallax mcp list"): "Connected",
    ("docs/mcp.md", "parallax mcp auth issues --forget"): "Signed out",
    ("docs/mcp.md", "parallax mcp auth"): "Signed in",
    ("docs/output-formats.md", "parallax -p"): "list_directory",
    ("docs/undo.md", "parallax undo --force"): "first.txt",
}

# Commands that are not run, by page and beginning, with the reason.
NOT_RUN = {
    ("README.md", "cargo test"): "the step `tests` of .ci/run",
    ("docs/guides/install.md", "cargo xtask dist"): "scripts/packages-test builds the packages",
    ("docs/guides/release.md", "for archive in"): "publishes; scripts/packages-test publishes to a local registry",
    ("docs/guides/release.md", "npm publish"): "publishes; scripts/packages-test publishes to a local registry",
    ("docs/guides/sdk.md", "cargo run -p parallax-sdk"): "the step `tests` of .ci/run builds and runs the examples",
    ("docs/guides/sdk.md", "npm install"): "packages/test installs the package",
    ("docs/guides/sdk.md", "pip install"): "packages/test installs the package",
    ("packaging/npm/README.md", "npm install"): "scripts/packages-test installs it from a local registry",
}

# What pages need beyond the basic world: functions of fixtures.sh.
FIXTURES = {
    "docs/agents.md": ["agents"],
    "docs/extensions-reference.md": ["tested_extension"],
    "docs/extensions.md": ["extensions", "git_server"],
    "docs/guides/devtools.md": ["sessions"],
    "docs/guides/evals.md": ["evals"],
    "docs/guides/install.md": ["release"],
    "docs/guides/kubernetes.md": ["git_server", "cloned_by_pods"],
    "docs/guides/providers.md": ["provider"],
    "docs/guides/review.md": ["patch_file"],
    "docs/sandbox.md": ["permissions"],
    "docs/hooks.md": ["hooks"],
    "docs/mcp.md": ["mcp_server"],
    "docs/policies.md": ["policies"],
    "docs/session-privacy.md": ["sessions"],
    "docs/session-files.md": ["sessions", "gemini_session"],
    "docs/sessions.md": ["sessions", "gemini_session", "moved_directory"],
    "docs/trust.md": ["downloads"],
    "docs/undo.md": ["sessions"],
    "packaging/container/README.md": ["release"],
}

# Standard input of the blocks, and the argument of their scripts.
STDIN = {"docs/guides/stream-json.md": "y\n"}
ARGUMENT = "Write first.txt"
