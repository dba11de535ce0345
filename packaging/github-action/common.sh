# shellcheck shell=bash
# Functions of the steps; sourced, not run.
set -euo pipefail

WORK=${RUNNER_TEMP:?the runner sets RUNNER_TEMP}/parallax-action
mkdir -p "$WORK/artifacts"

# The text as the value of a workflow command: it stays in one line.
escape_command() {
    local text=$1
    text=${text//\%/%25}
    text=${text//$'\r'/%0D}
    text=${text//$'\n'/%0A}
    printf '%s' "$text"
}

fail() {
    printf '::error title=Parallax::%s\n' "$(escape_command "$1")"
    exit "${2:-1}"
}

warn() { printf '::warning title=Parallax::%s\n' "$(escape_command "$1")"; }

random_word() { od -An -N16 -tx1 /dev/urandom | tr -d ' \n'; }

# Writes an output of the step. The delimiter is random, so that no text can
# end the value early and set another output.
set_output() {
    local delimiter
    delimiter=parallax_$(random_word)
    printf '%s<<%s\n%s\n%s\n' "$1" "$delimiter" "$2" "$delimiter" >>"$GITHUB_OUTPUT"
}

# Prints a file to the log. Lines that look like workflow commands have no effect.
print_file() {
    local word
    word=$(random_word)
    printf '::stop-commands::%s\n' "$word"
    cat "$1"
    printf '\n::%s::\n' "$word"
}

# A Markdown code block whose fence is longer than any in the text.
code_block() {
    local fence='```'
    while [[ $1 == *"$fence"* ]]; do fence+='`'; done
    printf '%s\n%s\n%s\n\n' "$fence" "$1" "$fence"
}

command -v jq >/dev/null || fail 'The program jq is not installed on this runner.'
