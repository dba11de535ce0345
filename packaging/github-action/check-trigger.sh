#!/usr/bin/env bash
# Refuses events that users without access to the repository can cause, since
# they run with the secrets and the write scopes of the repository.
. "$(dirname "$0")/common.sh"

event=${GITHUB_EVENT_NAME:-}
field() { jq -r "$1 // \"\"" "${GITHUB_EVENT_PATH:-/dev/null}" 2>/dev/null || true; }

# What GitHub says about the author of the text that causes the event.
association=NONE
case $event in
    # These need write access.
    push | schedule | workflow_dispatch | repository_dispatch | merge_group | release | create | \
        delete | deployment | deployment_status | label | milestone | branch_protection_rule)
        association=MEMBER
        ;;
    pull_request)
        # A branch of the repository itself needs write access, too.
        own=$(field .repository.full_name)
        if [[ -n $own && $(field .pull_request.head.repo.full_name) == "$own" ]]; then
            association=MEMBER
        else
            association=$(field .pull_request.author_association)
        fi
        ;;
    pull_request_target) association=$(field .pull_request.author_association) ;;
    issues) association=$(field .issue.author_association) ;;
    issue_comment | pull_request_review_comment | discussion_comment)
        association=$(field .comment.author_association)
        ;;
    pull_request_review) association=$(field .review.author_association) ;;
    discussion) association=$(field .discussion.author_association) ;;
    workflow_run)
        # The artifacts and the branch of the earlier run may be those of a fork.
        case $(field .workflow_run.event) in
            push | schedule | workflow_dispatch | pull_request)
                own=$(field .repository.full_name)
                if [[ -n $own && $(field .workflow_run.head_repository.full_name) == "$own" ]]; then
                    association=MEMBER
                fi
                ;;
        esac
        ;;
esac

rm -f "$WORK/untrusted"
case $association in
    OWNER | MEMBER | COLLABORATOR) exit 0 ;;
esac
if [[ ${ALLOW_UNTRUSTED:-} != true ]]; then
    fail "Refused to run on \`$event\` from an author with the association \`${association:-unknown}\`. Their text could misuse the secrets and write scopes of this job. If the job has only the scopes it needs, set the input allow_untrusted to true." 55
fi
: >"$WORK/untrusted"
warn "Running on the untrusted trigger \`$event\`."
