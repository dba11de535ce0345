# What the worlds of the pages contain, beyond the files of `project`. Read by bash with `set -eu`.
# The functions `basic`, once, and `trust` run for all worlds, the others for the pages that values.py names.

# The project is a repository whose branch `work` is ahead of `main`, with changes that are not committed.
basic() {
    git config --global user.name Tester
    git config --global user.email tester@example.com
    git config --global init.defaultBranch main
    git config --global protocol.file.allow always
    git init -q .
    printf '%s\n' '*.log' .env >.gitignore
    echo 'KEY=value' >.env
    git add -A
    git commit -qm 'Begin'
    git clone -q --bare . "$HOME/origin.git"
    git remote add origin ../../origin.git
    git fetch -q
    git checkout -qb work
    sed 's/sum()/copied().sum()/' src/cart.rs >"$TMPDIR/cart.rs"
    cp "$TMPDIR/cart.rs" src/cart.rs
    git commit -qam 'Copy prices'
    git push -q origin work
    echo '// The sum of all prices.' | cat - "$TMPDIR/cart.rs" >src/cart.rs
}

trust() { parallax trust add >/dev/null; }

prompt() { parallax -y -p "$@" >/dev/null; }

# Three sessions. The first, 0198c2f4, and the last changed files; the last one's third prompt did.
sessions() {
    prompt 'Write first.txt' --session-id 0198c2f4-0000-7000-8000-000000000001
    prompt 'Say it in the exact words beginning here' --resume 0198c2f4
    prompt 'Say hello' --resume 0198c2f4
    prompt 'Say hello' --session-id 01990000-0000-7000-8000-000000000002
    prompt 'Where is the total computed?' --session-id 01a00000-0000-7000-8000-000000000003
    local text
    for text in 'Fix the timeout' 'Write second.txt' 'Write third.txt' 'Write fourth.txt'; do
        prompt "$text" --resume 01a00000
    done
}

agents() {
    mkdir -p .parallax/agents
    printf '%s\n' --- 'name: reviewer' 'description: Reviews a change.' --- 'You review changes.' >.parallax/agents/reviewer.md
}

policies() {
    mkdir -p .parallax/policies
    cat >.parallax/policies/team.toml <<-'END'
	[[rule]]
	toolName = "write_file"
	pathGlob = "docs/**"
	decision = "allow"
	priority = 100
	END
    cp .parallax/policies/team.toml rules.toml
}

# A hook of the user that ran, one of the project, and one of Claude Code.
hooks() {
    local hook='{"hooks": {"BeforeTool": [{"matcher": "write_file",
        "hooks": [{"type": "command", "name": "NAME", "command": "true"}]}]}}'
    mkdir -p "$HOME/.parallax" .parallax .claude
    echo "${hook/NAME/guard}" >"$HOME/.parallax/settings.json"
    prompt 'Write first.txt'
    echo "${hook/NAME/team-guard}" >.parallax/settings.json
    echo '{"hooks": {"PostToolUse": [{"matcher": "Write", "hooks": [{"type": "command", "command": "true"}]}]}}' \
        >.claude/settings.json
}

# A remote MCP server, which requires signing in, at the address in ~/mcp-url.
mcp_server() {
    python3 "$REPOSITORY/tests/mcp/server.py" --http "$HOME/mcp-url" --do auth >/dev/null 2>&1 &
    until [ -s "$HOME/mcp-url" ]; do sleep 0.05; done
}

# An extension that is a directory, an archive, and two repositories, and a list of extensions to install.
extensions() {
    extension() {
        mkdir -p "$2/commands"
        echo "{\"name\": \"$1\", \"version\": \"1.2.0\"}" >"$2/gemini-extension.json"
        echo 'prompt = "Take a note: {{args}}"' >"$2/commands/note.toml"
    }
    repository() {
        extension "$1" "$HOME/remote/$2"
        git -C "$HOME/remote/$2" init -q
        git -C "$HOME/remote/$2" add -A
        git -C "$HOME/remote/$2" commit -qm 'Begin'
        git -C "$HOME/remote/$2" tag v1.2
    }
    repository from-host host
    repository from-git git
    extension my-extension my-extension
    extension from-archive "$TMPDIR/my-extension-1.2"
    tar -czf my-extension-1.2.tar.gz -C "$TMPDIR" my-extension-1.2
    cp -R "$REPOSITORY/tests/extensions/guard" "$HOME/guard"
    parallax extensions install "$HOME/guard" --consent --skip-settings >/dev/null
    cp "$HOME/.parallax/extensions.lock.json" my-set.json
    parallax extensions uninstall guard >/dev/null
    printf '%s\n' GUARD_TOKEN=secret GUARD_TEAM=team >values.env
}

# A session file of Gemini CLI.
gemini_session() {
    local directory=$HOME/.gemini/tmp/my-project/chats
    mkdir -p "$directory"
    cat >"$directory/session-2026-03-01T10-00-1a2b3c4d.jsonl" <<-'END'
	{"sessionId":"1a2b3c4d-0000-4000-8000-000000000001","projectHash":"h","startTime":"2026-03-01T10:00:00.000Z","lastUpdated":"2026-03-01T10:00:00.000Z","kind":"main"}
	{"id":"a","timestamp":"2026-03-01T10:00:00.000Z","type":"user","content":"Begin"}
	{"id":"b","timestamp":"2026-03-01T10:00:00.000Z","type":"gemini","content":"Yes."}
	END
}

# A session of a directory that was renamed.
moved_directory() {
    mkdir "$HOME/old"
    (cd "$HOME/old" && parallax trust add >/dev/null && prompt 'Say hello')
    rm -r "$HOME/old"
}

# Cases of evals, and results of an earlier run.
evals() {
    cp -R "$REPOSITORY/evals" evals
    mkdir -p my-cases/hello/project
    printf '%s\n' 'prompt = "Say hello"' '[[checks]]' 'kind = "answer_matches"' 'pattern = "Done"' >my-cases/hello/case.toml
    parallax eval my-cases --model flash --out before.jsonl >/dev/null
}

patch_file() { git diff >change.patch; }

downloads() { mkdir "$HOME/projects/downloads"; }

# The files of a release, and their checksums.
release() {
    echo archive >parallax-1.0.0-x86_64-unknown-linux-musl.tar.gz
    sha256sum parallax-1.0.0-x86_64-unknown-linux-musl.tar.gz >SHA256SUMS
    echo "$(printf '%064d' 0)  parallax-1.0.0-aarch64-unknown-linux-musl.tar.gz" >>SHA256SUMS
    mkdir -p packaging
    cp -R "$REPOSITORY/packaging/container" packaging
}

# Serves the repositories below ~/remote.
git_server() {
    mkdir -p "$HOME/remote"
    git daemon --base-path="$HOME/remote" --export-all --listen=127.0.0.1 --port="$PORT" >/dev/null 2>&1 &
}

# The remote repository of the project is one that pods can clone.
cloned_by_pods() {
    mv "$HOME/origin.git" "$HOME/remote/shop.git"
    git remote set-url origin "git://127.0.0.1:$PORT/shop.git"
}

tested_extension() {
    parallax extensions new palette custom-commands >/dev/null
    mkdir palette/tests
    cp my.jsonl palette/tests/hello.jsonl
    echo '{"prompt": "Say hello", "responses": "hello.jsonl", "expect": ["Hello."]}' >palette/tests/hello.json
}

# A provider of the user.
provider() {
    mkdir -p "$HOME/.parallax"
    echo "{\"providers\": {\"mygateway\": {\"wire\": \"openai-chat\", \"baseUrl\": \"$OPENAI_BASE_URL\"}}}" \
        >"$HOME/.parallax/settings.json"
}

# Files that commands may use with permission only, and the address of a server of this machine.
permissions() {
    mkdir "$HOME/out"
    echo '//registry.example/:_authToken=secret' >"$HOME/.npmrc"
    echo "$GOOGLE_GEMINI_BASE_URL" >"$HOME/server-url"
}
