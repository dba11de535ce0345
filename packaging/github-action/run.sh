#!/usr/bin/env bash
# Runs the prompt and writes the outputs and the summary of the step. The exit
# code is the one of the program.
. "$(dirname "$0")/common.sh"

# An empty input leaves a variable that the job sets.
for name in GEMINI_API_KEY GOOGLE_API_KEY OPENAI_API_KEY ANTHROPIC_API_KEY OPENROUTER_API_KEY \
    GOOGLE_GENAI_USE_VERTEXAI GOOGLE_CLOUD_PROJECT GOOGLE_CLOUD_LOCATION; do
    input=INPUT_$name
    if [[ -n ${!input:-} ]]; then export "$name=${!input}"; fi
    unset "$input"
done

arguments=(--prompt="${PROMPT-}" --output-format=json)
[[ -z ${MODEL:-} ]] || arguments+=(--model="$MODEL")
[[ -z ${MAX_COST:-} ]] || arguments+=(--max-cost="$MAX_COST")
[[ ! -e $WORK/schema.json ]] || arguments+=(--output-schema="$WORK/schema.json")
mode=${APPROVAL_MODE:-}
if [[ -z $mode ]]; then
    if [[ -e $WORK/untrusted ]]; then mode=default; else mode=yolo; fi
fi
arguments+=(--approval-mode="$mode")
[[ ${DEBUG_RUN:-} != true ]] || arguments+=(--debug)

if [[ -e $WORK/settings.json ]]; then export GEMINI_CLI_SYSTEM_SETTINGS_PATH=$WORK/settings.json; fi
export GEMINI_CLI_TRUST_WORKSPACE=${GEMINI_CLI_TRUST_WORKSPACE:-true} SURFACE=GitHub
if [[ -n ${WORKFLOW_NAME:-} ]]; then
    attribute=cicd.pipeline.name=$(jq -rn '$ENV.WORKFLOW_NAME | @uri')
    export OTEL_RESOURCE_ATTRIBUTES=${OTEL_RESOURCE_ATTRIBUTES:+$OTEL_RESOURCE_ATTRIBUTES,}$attribute
fi

prompt=${PROMPT-}
unset PROMPT MODEL MAX_COST APPROVAL_MODE WORKFLOW_NAME
stdout=$WORK/artifacts/stdout.log
stderr=$WORK/artifacts/stderr.log
# The program and its tools do not learn the files that set variables and outputs
# of the job. When the job is canceled, the program saves its session and ends.
env -u GITHUB_ENV -u GITHUB_PATH -u GITHUB_OUTPUT -u GITHUB_STATE -u GITHUB_STEP_SUMMARY \
    "$WORK/bin/parallax" "${arguments[@]}" </dev/null >"$stdout" 2>"$stderr" &
pid=$!
trap 'kill -TERM "$pid" 2>/dev/null || true' INT TERM
while :; do
    code=0
    wait "$pid" || code=$?
    kill -0 "$pid" 2>/dev/null || break
done
# The place in which workflows for Gemini CLI put telemetry; a link is not followed.
if [[ -f .gemini/telemetry.log && ! -L .gemini/telemetry.log && ! -L .gemini ]]; then
    cp .gemini/telemetry.log "$WORK/artifacts/telemetry.log"
fi

answer='' error=''
if jq -e 'type == "object"' "$stdout" >/dev/null 2>&1; then
    answer=$(jq -r '.response // ""' "$stdout")
    error=$(jq -c '.error // empty' "$stdout")
elif [[ $code == 0 ]]; then
    code=1
    error='The output of the program is not valid JSON.'
fi
if [[ $code != 0 && -z $error ]]; then error=$(head -c 65536 "$stderr"); fi
if [[ $code != 0 && -z $error ]]; then error="The program ended with exit code $code."; fi
set_output summary "$answer"
set_output error "$error"

if [[ -n ${GITHUB_STEP_SUMMARY:-} ]]; then
    # A step summary has a limit of 1 MiB; text beyond 100,000 characters is omitted.
    {
        printf '### Parallax\n\n#### Prompt\n\n'
        code_block "${prompt:0:100000}"
        if [[ -n $answer ]]; then
            printf '#### Answer\n\n'
            code_block "${answer:0:100000}"
        fi
        if [[ -n $error ]]; then
            printf '#### Error\n\n'
            code_block "${error:0:100000}"
        fi
    } >>"$GITHUB_STEP_SUMMARY"
fi

if [[ ${DEBUG_RUN:-} == true ]]; then
    warn "gemini_debug is on: the log contains the output of the run."
    print_file "$stdout"
    print_file "$stderr"
fi
if [[ $code != 0 ]]; then
    message=$(jq -r '.message? // empty' <<<"$error" 2>/dev/null || true)
    fail "The run failed with exit code $code: ${message:-$error}" "$code"
fi
