//! Property tests for arbitrary rules and lines.

use parallax_policy::{CommandPrefix, Tier, bash, lint};
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{ApprovalMode, Decision, PolicyEngine};
use proptest::prelude::*;

use crate::world::{World, file};

const SHELL: &str = "run_shell_command";

fn mode() -> impl Strategy<Value = ApprovalMode> {
    prop::sample::select(vec![
        ApprovalMode::Plan,
        ApprovalMode::Default,
        ApprovalMode::AutoEdit,
        ApprovalMode::Yolo,
    ])
}

/// Generates rules about shell commands.
fn rule() -> impl Strategy<Value = (&'static str, &'static str, u32)> {
    (
        prop::sample::select(vec!["allow", "ask_user", "deny"]),
        prop::sample::select(vec![
            "",
            "commandPrefix = \"git\"",
            "commandPrefix = [\"git log\", \"ls\"]",
            "commandPrefix = \"make\"",
            "commandRegex = \"git (log|push)\"",
            "argsPattern = '\"command\":\"git'",
        ]),
        0u32..1000,
    )
}

fn text(rules: &[(&str, &str, u32)]) -> String {
    rules
        .iter()
        .map(|(decision, condition, priority)| {
            format!(
                "[[rule]]\ntoolName = \"{SHELL}\"\ndecision = \"{decision}\"\n\
                 priority = {priority}\n{condition}\n"
            )
        })
        .collect()
}

/// Generates lines of commands that rules can match.
fn line() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "git log",
        "git push",
        "git -C x push",
        "ls",
        "ls -la src",
        "make",
        "make all",
        "rm a",
        "rm -rf b",
        "echo 'a; b'",
        "env make",
        "bash -c 'git push; ls'",
        "timeout 5 git log",
        "$(make)",
        "echo $(git push)",
        "A=b make",
        "git log > x",
        "cat < a",
        "x",
        "git log $X",
        "'",
        "f() { ls; }",
    ]);
    let joint = prop::sample::select(vec![" && ", " || ", "; ", " | ", "\n", " & "]);
    (piece.clone(), prop::collection::vec((joint, piece), 0..4)).prop_map(|(first, rest)| {
        rest.into_iter().fold(first.to_owned(), |line, (joint, piece)| line + joint + piece)
    })
}

proptest! {
    #[test]
    fn arbitrary_text_gets_a_decision_with_a_reason(line in "\\PC{0,200}", prefix in "\\PC{0,20}", mode in mode()) {
        let world = World::new(&[]);
        let policy_decision = world.evaluate(mode, SHELL, &line);
        prop_assert!(!policy_decision.reason.is_empty());
        let parsed = CommandPrefix::parse(&prefix);
        prop_assert_eq!(CommandPrefix::parse(&parsed.text()), parsed);
    }

    #[test]
    fn linting_arbitrary_text_does_not_panic(text in "(\\[\\[rule\\]\\]\n)?([a-zA-Z]{1,12} = (\"\\PC{0,12}\"|[0-9]{1,4}|\\[\\]|true)\n){0,6}") {
        for tier in [Tier::Extension, Tier::Workspace, Tier::User, Tier::Admin] {
            lint(&file(tier, &text), None);
        }
    }

    #[test]
    fn later_allow_rule_does_not_weaken_a_denial(
        rules in prop::collection::vec(rule(), 1..5), condition in rule(), line in line(), mode in mode()
    ) {
        let before = World::new(&[file(Tier::User, &text(&rules))]).evaluate(mode, SHELL, &line);
        let lowest = rules.iter().map(|rule| rule.2).min().unwrap_or(0);
        let mut more = rules.clone();
        more.push(("allow", condition.1, lowest));
        let after = World::new(&[file(Tier::User, &text(&more))]).evaluate(mode, SHELL, &line);
        let by_file = before.rule.contains("/p/rules.toml");
        prop_assert!(
            before.kind != Decision::Deny || !by_file || after.kind == Decision::Deny,
            "{line:?} {more:?}: {before:?} became {after:?}"
        );
    }

    #[test]
    fn allowed_line_has_only_allowed_commands(
        rules in prop::collection::vec(rule(), 0..5), line in line()
    ) {
        let world = World::new(&[file(Tier::User, &text(&rules))]);
        let mode = ApprovalMode::Default;
        if world.evaluate(mode, SHELL, &line).kind == Decision::Allow {
            for command in bash::analyze(&line).commands {
                let alone = world.evaluate(mode, SHELL, &command.source);
                prop_assert!(
                    alone.kind == Decision::Allow || !command.wrappers.is_empty(),
                    "{line:?} {rules:?}: {:?} {alone:?}", command.source
                );
            }
        }
    }

    #[test]
    fn project_rules_never_loosen_decisions(
        rules in prop::collection::vec(rule(), 0..4), theirs in prop::collection::vec(rule(), 0..4),
        line in line(), mode in mode(), tier in prop::sample::select(vec![Tier::Extension, Tier::Workspace])
    ) {
        let mine = file(Tier::User, &text(&rules));
        let before = World::new(std::slice::from_ref(&mine)).evaluate(mode, SHELL, &line);
        let after = World::new(&[mine, file(tier, &text(&theirs))]).evaluate(mode, SHELL, &line);
        prop_assert!(after.kind >= before.kind, "{line:?} {rules:?} {theirs:?}: {before:?} became {after:?}");
    }

    #[test]
    fn suggested_rule_allows_the_call(line in line()) {
        let world = World::new(&[]);
        let suggested_rules = world.query(ApprovalMode::Default, SHELL, &line, |query| {
            world.policy.suggested_rules(query, &Permissions::default())
        });
        for rule in suggested_rules {
            let policy_engine = world.policy.with_rule(&rule).expect("a rule");
            let policy_decision = world.query(ApprovalMode::Default, SHELL, &line, |query| policy_engine.evaluate(query));
            prop_assert_eq!(policy_decision.kind, Decision::Allow);
        }
    }
}
