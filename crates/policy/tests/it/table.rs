//! A table of decisions: (options, mode, call) → (interactive decision, headless decision, rule).

use parallax_protocol::policy::{ApprovalMode, Decision};

use crate::world::{TestQuery, evaluate, policy};

/// Letters: modes `d`, `e`, `p`, `y`; decisions `a` (allow), `k` (ask), `d` (deny); `-` means that
/// the rule is not checked.
const TABLE: &str = r#"
# options | mode | tool | target | interactive | headless | part of the rule's name
 | d | read_file | a | a | a | reading and searching
 | e | read_file | a | a | a | reading and searching
 | p | read_file | a | a | a | reading and searching
 | y | read_file | a | a | a | yolo
 | d | search_file_content | a | a | a | reading and searching
 | p | tracker_list | | a | a | reading and searching
 | d | google_web_search | | a | a | reading
 | d | write_todos | | a | a | reading
# edits
 | d | write_file | a.rs | k | d | edits require approval
 | d | replace | a.rs | k | d | edits require approval
 | e | write_file | a.rs | a | a | edits in the workspace
 | e | replace | src/a.rs | a | a | edits in the workspace
 | e | write_file | /etc/x | k | d | edits require approval
 | e | write_file | /wx/a | k | d | edits require approval
 | e | write_file | .git/hooks/x | k | d | edits require approval
 | e | write_file | .GIT/config | k | d | edits require approval
 | e | write_file | .env.local | k | d | edits require approval
 | e | replace | node_modules/a/b.js | k | d | edits require approval
 | e | replace | .vscode/tasks.json | k | d | edits require approval
 | e | write_file | .gemini/settings.json | k | d | edits require approval
 | e | write_file | sub/.Parallax/x | k | d | edits require approval
 | e | write_file | .mcp.json | k | d | edits require approval
 | e | write_file | .envrc | k | d | edits require approval
 | e | write_file | HEAD | k | d | edits require approval
 | e | write_file | sub/HEAD | k | d | edits require approval
 | e | write_file | config | a | a | edits in the workspace
 | p | write_file | a.rs | d | d | plan files only in plan mode
 | p | write_file | /plans/a.md | a | a | plan files
 | p | write_file | /plans/a.sh | d | d | plan mode
 | p | write_file | /plansx/a.md | d | d | plan mode
 | y | write_file | a.rs | a | a | yolo
 | y | write_file | /etc/x | k | a | 
# build files
 | d | write_file | Cargo.toml | k | d | edits require approval
 | e | write_file | Cargo.toml | k | d | build-file guard
 | e | replace | sub/package.json | k | d | build-file guard
 | e | replace | rules.bzl | k | d | build-file guard
 | e | replace | Dockerfile.dev | k | d | build-file guard
 | e | replace | Cargo.toml.md | a | a | edits in the workspace
 | y | write_file | Cargo.toml | a | a | yolo
guard=off | e | write_file | Cargo.toml | a | a | edits in the workspace
allowed=write_file | d | write_file | Makefile | k | d | build-file guard
# shell
 | d | run_shell_command | cargo test | k | d | commands require approval
 | e | run_shell_command | cargo test | k | d | commands require approval
 | p | run_shell_command | ls | d | d | plan mode
 | y | run_shell_command | cargo test | a | a | yolo
 | y | run_shell_command | rm -rf x > y; $(z) | k | a | 
 | d | run_shell_command | ls -la | a | a | known-safe
 | e | run_shell_command | git log --oneline | a | a | known-safe
 | d | run_shell_command | git status && cargo test | k | d | commands require approval
 | d | run_shell_command | cat /etc/passwd | k | d | commands require approval
 | d | run_shell_command | ls > x | k | d | redirection
 | d | run_shell_command | ls $(touch x) | k | d | commands require approval
 | d | run_shell_command | /etc@@ls | k | d | commands require approval
 | d | run_shell_command | src@@ls .. | a | a | known-safe
 | d | run_shell_command | ls a => /w/b,/dev/null | a | a | known-safe
 | d | run_shell_command | ls a => /w/b,/etc/passwd | k | d | commands require approval
 | d | run_shell_command | ls a => /wx/b | k | d | commands require approval
 | d | run_shell_command | cat .ENV => /w/.ENV | k | d | commands require approval
 | d | run_shell_command | git status => /w/sub/.git/config | k | d | commands require approval
 | d | run_shell_command | src@@ls ../.. | k | d | commands require approval
 | y | run_shell_command | /etc@@ls | a | a | yolo
# other tools
 | d | web_fetch | | k | d | web requests require approval
 | e | web_fetch | | a | a | web requests in auto_edit
 | p | web_fetch | | k | d | web requests in plan mode
 | d | save_memory | | k | d | memories require approval
 | e | save_memory | | a | a | memories
 | p | save_memory | | d | d | plan mode
 | d | activate_skill | | k | d | skills require approval
 | d | mcp_git_push | | k | d | no rule
 | e | mcp_git_push | | k | d | no rule
 | p | mcp_git_push | | d | d | plan mode
 | y | mcp_git_push | | a | a | yolo
 | d | discovered_tool_x | | k | d | discovered tools require approval
 | d | invoke_agent | builder | a | a | agents
 | p | invoke_agent | builder | d | d | plan mode
 | p | invoke_agent | codebase_investigator | a | a | reading
exclude=builder | d | invoke_agent | builder | d | d | `builder` excluded
 | d | enter_plan_mode | | k | a | entering plan mode
 | p | enter_plan_mode | | d | d | already planning
 | y | enter_plan_mode | | d | d | no plan mode in yolo mode
 | d | exit_plan_mode | | d | d | not planning
 | p | exit_plan_mode | | k | a | leaving plan mode
 | d | ask_user | | a | d | question
 | y | ask_user | | a | d | question
# what is excluded
exclude=web_fetch | e | web_fetch | | d | d | `web_fetch` excluded
exclude=web_fetch | y | web_fetch | | d | d | `web_fetch` excluded
exclude=WriteFileTool | y | write_file | a | d | d | `WriteFileTool` excluded
exclude=ShellTool | y | run_shell_command | ls | d | d | `ShellTool` excluded
exclude=run_shell_command(touch) | y | run_shell_command | touch a | d | d | commands `touch` excluded
exclude=run_shell_command(touch) | y | run_shell_command | echo $(touch a) | d | d | commands `touch` excluded
exclude=run_shell_command(touch) | y | run_shell_command | bash -c "touch a" | d | d | commands `touch` excluded
exclude=run_shell_command(touch) | y | run_shell_command | touchy a | a | a | yolo
exclude=run_shell_command(git push) | y | run_shell_command | cd x && git push -f | d | d | commands `git push` excluded
exclude=run_shell_command(git push) | y | run_shell_command | git pull | a | a | yolo
exclude=run_shell_command(ls) | d | run_shell_command | ls | d | d | commands `ls` excluded
# what always asks
confirm=read_file | d | read_file | a | k | d | always asks
confirm=web_fetch | y | web_fetch | | k | d | always asks
confirm=run_shell_command allowed=run_shell_command | d | run_shell_command | ls | k | d | always asks
confirm=run_shell_command(git push) | y | run_shell_command | git push | k | d | always asks
confirm=run_shell_command(git push) | y | run_shell_command | git pull | a | a | yolo
# what is allowed
allowed=write_file | d | write_file | a | a | a | `write_file` allowed
allowed=mcp_git_* | d | mcp_git_push | | a | a | allowed
allowed=run_shell_command | d | run_shell_command | cargo test | a | a | `run_shell_command` allowed
allowed=run_shell_command | d | run_shell_command | cargo test 2>&1 | a | a | `run_shell_command` allowed
allowed=run_shell_command | d | run_shell_command | echo a > b | k | d | redirection
allowed=run_shell_command | e | run_shell_command | echo a > b | a | a | `run_shell_command` allowed
allowed=run_shell_command | d | run_shell_command | rm -rf a | k | d | destructive
allowed=run_shell_command | d | run_shell_command | x=$(sudo rm -rf a) | k | d | destructive
allowed=run_shell_command | d | run_shell_command | /etc@@touch x | k | d | outside
allowed=run_shell_command(git status) | d | run_shell_command | git status -s | a | a | commands `git status` allowed
allowed=ShellTool(git status) | d | run_shell_command | git status | a | a | commands `git status` allowed
allowed=run_shell_command(git) | p | run_shell_command | git push | a | a | commands `git` allowed
allowed=run_shell_command(git) | d | run_shell_command | gitk | k | d | only the allowed
allowed=run_shell_command(git) | d | run_shell_command | git log && cargo test | k | d | only the allowed
allowed=run_shell_command(git) | d | run_shell_command | git log $(x) | k | d | only the allowed
allowed=run_shell_command(git) | d | run_shell_command | git log > x | k | d | redirection
allowed=run_shell_command(git) | d | run_shell_command | A=b git log | k | d | only the allowed
allowed=run_shell_command(git) | d | run_shell_command | git push | head -3 | a | a | commands `git` allowed
allowed=run_shell_command(git) | y | run_shell_command | cargo test | k | d | only the allowed
allowed=run_shell_command(git);run_shell_command(cargo test) | d | run_shell_command | git pull; cargo test -q | a | a | allowed
allowed=run_shell_command(awk) | d | run_shell_command | awk '{print $1}' f | a | a | allowed
allowed=run_shell_command(awk) | d | run_shell_command | awk '{print $1}' f | cat f => /etc/f | k | d | only the allowed
allowed=run_shell_command(git) | d | run_shell_command | git log | head => /w/.git/config | a | a | allowed
allowed=run_shell_command(make) | d | run_shell_command | make | git log => /w/.git/config | k | d | only the allowed
allowed=run_shell_command(git) | d | run_shell_command | git log | cat x => /w/.git/config,/w/.git | k | d | only the allowed
allowed=run_shell_command(cargo test) | d | run_shell_command | cat a.txt | k | d | only the allowed
allowed=run_shell_command(cargo test) | d | run_shell_command | ls && pwd | k | d | only the allowed
allowed=run_shell_command(cargo test) | d | run_shell_command | A=1 | k | d | only the allowed
allowed=run_shell_command(cargo test) | y | run_shell_command | cat a.txt | k | d | only the allowed
allowed=run_shell_command(cargo test) | p | run_shell_command | cat a.txt | d | d | plan mode
allowed=run_shell_command(cargo test) | p | run_shell_command | cargo test | a | a | allowed
allowed=run_shell_command(cargo test) | p | run_shell_command | cat a.txt && cargo test | d | d | plan mode
allowed=run_shell_command(cargo test) | d | run_shell_command | cat a.txt && cargo test | tail -5 | a | a | allowed
allowed=run_shell_command(cargo test) | d | run_shell_command | find . -exec cargo test \\; | k | d | only the allowed
confirm=run_shell_command(cat) allowed=run_shell_command(cargo test) | d | run_shell_command | cat a; cargo test | k | d | always asks
exclude=run_shell_command(cat) allowed=run_shell_command(cargo test) | d | run_shell_command | cat a; cargo test | d | d | excluded
allowed=run_shell_command(npm run:*) | d | run_shell_command | npm run lint | a | a | allowed
allowed=run_shell_command(git);run_shell_command | d | run_shell_command | make | a | a | `run_shell_command` allowed
allowed=write_file(src) | d | write_file | src/a | k | d | edits require approval
exclude=run_shell_command(git push) allowed=run_shell_command(git) | d | run_shell_command | git push | d | d | excluded
# the list of tools
core=read_file;write_file | d | write_file | a | a | a | in the list
core=read_file | d | write_file | a | d | d | not in the list
core=read_file | y | write_file | a | d | d | not in the list
core=read_file | p | grep_search | a | a | a | reading
core=run_shell_command(gh issue) | y | run_shell_command | gh issue list | a | a | in the list
core=run_shell_command(gh issue) | y | run_shell_command | gh pr list | d | d | not in the list
core=run_shell_command(gh issue) | y | run_shell_command | ls | d | d | not in the list
core=run_shell_command(gh issue) | y | run_shell_command | gh issue view $(x) | d | d | not in the list
core=run_shell_command(gh issue) | y | mcp_git_push | | d | d | not in the list
# credentials of a job
 | y | read_file | gha-creds-1.json | d | d | job credentials
 | y | run_shell_command | cat gha-creds-*.json | d | d | job credentials
"#;

#[test]
fn decisions_match_the_table() {
    let mut lines = 0;
    let mut problems = Vec::new();
    for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        // The target is the only field that may contain a `|`.
        let [options, mode, tool, target @ .., with, without, rule] = fields.as_slice() else {
            panic!("{line}");
        };
        let mode = match *mode {
            "d" => ApprovalMode::Default,
            "e" => ApprovalMode::AutoEdit,
            "p" => ApprovalMode::Plan,
            "y" => ApprovalMode::Yolo,
            other => panic!("mode {other}"),
        };
        let target = target.join(" | ");
        let policy = policy(options.trim());
        for (interactive, expected) in [(true, *with), (false, *without)] {
            let policy_decision = evaluate(
                &policy,
                TestQuery { mode, interactive, trusted: true, tool, target: target.trim() },
            );
            let decision = match policy_decision.kind {
                Decision::Allow => "a",
                Decision::Ask => "k",
                Decision::Deny => "d",
            };
            if decision != expected || !policy_decision.rule.contains(rule) {
                problems.push(format!(
                    "{line} (interactive {interactive}): {decision}, {policy_decision:?}"
                ));
            }
            assert!(
                !policy_decision.reason.is_empty() && !policy_decision.reason.ends_with('.'),
                "{policy_decision:?}"
            );
        }
        lines += 1;
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(lines >= 80, "{lines}");
}

fn explain(options: &str, mode: ApprovalMode, tool: &str, target: &str) -> String {
    evaluate(&policy(options), TestQuery { mode, interactive: false, trusted: true, tool, target })
        .reason
}

#[test]
fn headless_denial_suggests_a_fix() {
    let default = ApprovalMode::Default;
    assert_eq!(
        explain("", default, "write_file", "a"),
        "`write_file` requires approval in `default` mode, but no user is present in this run; it requires \
         `--approval-mode auto_edit` or `--allowed-tools write_file`"
    );
    for (options, mode, tool, target, needs) in [
        (
            "",
            default,
            "run_shell_command",
            "cargo test -q",
            "`--approval-mode yolo` or `--allowed-tools \"run_shell_command(cargo test)\"`",
        ),
        (
            "",
            default,
            "run_shell_command",
            "ls && make",
            "`--allowed-tools \"run_shell_command(make)\"`",
        ),
        (
            "",
            default,
            "run_shell_command",
            "make && ls && cargo test -q && make",
            "`--allowed-tools \"run_shell_command(make)\" \
             --allowed-tools \"run_shell_command(cargo test)\"`",
        ),
        ("", default, "run_shell_command", "make && 'a b'", "it requires `--approval-mode yolo`"),
        ("", default, "run_shell_command", "make > log", "it requires `--approval-mode yolo`"),
        ("", default, "run_shell_command", "echo a > /opt/x", "it requires an `allow` rule with"),
        (
            "",
            ApprovalMode::AutoEdit,
            "write_file",
            "Cargo.toml",
            "`security.buildFileGuard` = `off`",
        ),
        ("", ApprovalMode::AutoEdit, "write_file", "/etc/x", "it requires `--approval-mode yolo`"),
        (
            "",
            default,
            "web_fetch",
            "",
            "`--approval-mode auto_edit` or `--allowed-tools web_fetch`",
        ),
        (
            "confirm=web_fetch",
            ApprovalMode::Yolo,
            "web_fetch",
            "",
            "removing the entry in the setting `tools.confirmationRequired`",
        ),
    ] {
        let reason = explain(options, mode, tool, target);
        assert!(reason.contains(needs), "{reason}");
    }
}

#[test]
fn plan_mode_denial_says_what_is_allowed() {
    let reason = explain("", ApprovalMode::Plan, "write_file", "a");
    assert!(
        reason.contains("read and search the project") && reason.contains("`/plans`"),
        "{reason}"
    );
}

#[test]
fn untrusted_folder_disables_permissive_modes() {
    let ask = |mode, tool, target| {
        evaluate(
            &policy("allowed=run_shell_command"),
            TestQuery { mode, interactive: true, trusted: false, tool, target },
        )
        .kind
    };
    assert_eq!(ask(ApprovalMode::Yolo, "write_file", "a"), Decision::Ask);
    assert_eq!(ask(ApprovalMode::AutoEdit, "write_file", "a"), Decision::Ask);
    assert_eq!(ask(ApprovalMode::Default, "run_shell_command", "git status"), Decision::Ask);
    assert_eq!(ask(ApprovalMode::Default, "run_shell_command", "cargo test"), Decision::Allow);
}
