#!/usr/bin/env bash
# Writes the settings and the schema of the answer, and installs extensions.
. "$(dirname "$0")/common.sh"

[[ ${USE_CODE_ASSIST:-} != true ]] ||
    fail "use_gemini_code_assist is not supported. Use a key, or Vertex AI with use_vertex_ai."
[[ ${USE_PNPM:-} != true ]] || warn "use_pnpm has no effect: the program is installed as a binary."

# Outside the workspace: the checkout stays clean, a link in it cannot redirect
# the file, and the settings of a pull request cannot override it.
rm -f "$WORK/settings.json" "$WORK/schema.json"
if [[ -n ${SETTINGS:-} ]]; then
    printf '%s\n' "$SETTINGS" >"$WORK/settings.json"
fi
if [[ -n ${OUTPUT_SCHEMA:-} ]]; then
    printf '%s\n' "$OUTPUT_SCHEMA" >"$WORK/schema.json"
fi

[[ -n ${EXTENSIONS:-} ]] || exit 0
jq -e 'type == "array" and all(.[]; type == "string" and (contains("\n") | not))' <<<"$EXTENSIONS" >/dev/null 2>&1 ||
    fail "The input extensions must be a JSON array of strings."
while IFS= read -r source; do
    [[ -n ${source// /} ]] || continue
    "$WORK/bin/parallax" extensions install --consent --skip-settings -- "$source" </dev/null >"$WORK/extension.log" 2>&1 ||
        { print_file "$WORK/extension.log"; fail "Failed to install the extension \`$source\`."; }
done < <(jq -r '.[]' <<<"$EXTENSIONS")
