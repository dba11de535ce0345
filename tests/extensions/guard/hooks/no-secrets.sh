#!/bin/sh
# Refuses files that hold a password; says which team asks for that.
if grep -q 'password='; then
  printf '{"decision": "deny", "reason": "%s writes no passwords (%s)"}' \
    "$GUARD_TEAM" "$(printf %s "$GUARD_TOKEN" | wc -c | tr -d ' ')"
fi
