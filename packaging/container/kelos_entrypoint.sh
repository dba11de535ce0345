#!/bin/bash
# Runs a task of Kelos, whose prompt is the first argument, with Parallax.
# See its "Standardized Agent Interface". Text of others comes in variables and
# in the argument, and none of it becomes part of a script.
set -uo pipefail

prompt=${1:?the prompt is missing}
words=(-o stream-json --stream-version 2 --approval-mode yolo --skip-trust)
[ -z "${KELOS_MODEL:-}" ] || words+=(--model "$KELOS_MODEL")

if [ -n "${KELOS_AGENTS_MD:-}" ]; then
    mkdir -p "$HOME/.parallax"
    printf '%s\n' "$KELOS_AGENTS_MD" >"$HOME/.parallax/GEMINI.md"
fi
# One plugin in each directory, with its skills.
for skills in "${KELOS_PLUGIN_DIR:-/nonexistent}"/*/skills; do
    [ ! -d "$skills" ] || words+=(--skill-dir "$skills")
done

if [ -n "${KELOS_SETUP_COMMAND:-}" ]; then
    printf '\n---KELOS_SETUP_COMMAND_START---\n' >&2
    # git brings perl.
    perl -MJSON::PP -e '
        my $words = eval { decode_json($ENV{KELOS_SETUP_COMMAND}) };
        my $is_list = ref $words eq "ARRAY" && @$words && !grep { !defined || ref } @$words;
        $is_list or do { print STDERR "KELOS_SETUP_COMMAND must be a list of texts\n"; exit 2 };
        exec { $words->[0] } @$words or do { print STDERR "$words->[0]: $!\n"; exit 127 };'
    code=$?
    if [ "$code" -ne 0 ]; then
        printf '\n---KELOS_SETUP_COMMAND_FAILED--- exit=%s\n' "$code" >&2
        exit "$code"
    fi
    printf '\n---KELOS_SETUP_COMMAND_DONE---\n' >&2
fi

# The events go to the log unchanged; the last one has the tokens and the cost.
result=$(mktemp)
trap 'rm -f "$result"' EXIT
printf '%s' "$prompt" | parallax "${words[@]}" | perl -pe '
    BEGIN { $| = 1; open OUT, ">", shift or die $! }
    if (/"type":"result"/) { seek OUT, 0, 0; truncate OUT, 0; print OUT $_; OUT->flush }' "$result"
code=${PIPESTATUS[1]}

outputs() {
    local branch base
    branch=$(git rev-parse --abbrev-ref HEAD 2>/dev/null) && [ "$branch" != HEAD ] && printf 'branch: %s\n' "$branch"
    git rev-parse --verify --quiet HEAD 2>/dev/null | sed 's/^/commit: /'
    base=${KELOS_BASE_BRANCH:-}
    # One line is one output.
    [ -z "$base" ] || printf 'base-branch: %s\n' "${base//$'\n'/ }"
    perl -MJSON::PP -e '
        my $stats = (eval { decode_json(scalar <STDIN>) } || {})->{stats} || {};
        my $cost = ref $stats->{cost} eq "HASH" ? $stats->{cost}{usd} : undef;
        my @all = (["input-tokens", $stats->{input_tokens}], ["output-tokens", $stats->{output_tokens}], ["cost-usd", $cost]);
        for (@all) { printf "%s: %s\n", $_->[0], $_->[1] + 0 if defined $_->[1] }' <"$result" 2>/dev/null
}
printf '\n---KELOS_OUTPUTS_START---\n'
outputs
printf -- '---KELOS_OUTPUTS_END---\n'
exit "$code"
