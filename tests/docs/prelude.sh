# Read by each shell that runs commands of the documents.
set -o pipefail

# The commands from here on write into this file.
begin() { exec >"$RESULTS/$1" 2>&1; printf 'begin %s\n' "$1" >&9; }
ended() { printf 'ended %s %s\n' "$1" "$2" >&9; }

# Runs a program in a terminal until its composer is drawn.
until_drawn() { "$PYTHON" "$TESTS/terminal.py" until-drawn "$@"; }
# Runs a program in a terminal and types this answer at its question.
answering() { "$PYTHON" "$TESTS/terminal.py" answering "$@"; }
# Leaves a program running that has printed this text.
until_printed() {
    local text=$1 output
    output=$(mktemp -p "$RESULTS")
    shift
    "$@" >"$output" 2>&1 &
    until grep -q "$text" "$output"; do
        kill -0 "$!" || { cat "$output"; return 1; }
        sleep 0.05
    done
    cat "$output"
}
# Answers a command that prints a URL with the URL to which it redirects, like a browser on another machine.
pasting_url() {
    local url='' output
    output=$(mktemp -p "$RESULTS")
    coproc PASTED { "$@" >"$output" 2>&1; }
    until url=$(grep -m 1 -o 'http[^ ]*' "$output"); do sleep 0.05; done
    curl --silent --output /dev/null --write-out '%{redirect_url}\n' "$url" >&"${PASTED[1]}"
    wait "$PASTED_PID"
    local code=$?
    cat "$output"
    return "$code"
}
