//! Shell lines with the expected decisions; see `decisions.txt`.

use parallax_policy::{PolicyOptions, Tier};
use parallax_protocol::policy::{ApprovalMode, Decision, PolicyEngine};

use crate::world::{TestEnvironment, TestQuery, World, file, with_query};

const TABLE: &str = include_str!("decisions.txt");

const RULES: &[(&str, &str)] = &[
    ("none", ""),
    ("git", "commandPrefix = [\"git log\", \"git status\", \"git commit\"]\ndecision = \"allow\""),
    ("runner", "commandPrefix = [\"uv run\", \"npx tsc\"]\ndecision = \"allow\""),
    ("anygit", "commandPrefix = [\"git\", \"cp\", \"mv\", \"tar\"]\ndecision = \"allow\""),
    ("readers", "commandPrefix = [\"sort\", \"uniq\", \"tree\"]\ndecision = \"allow\""),
    ("regex", "commandRegex = \"git (log|status)\"\ndecision = \"allow\""),
    ("shell", "decision = \"allow\""),
    ("deny", "commandPrefix = [\"rm\", \"git push\"]\ndecision = \"deny\""),
    ("ask", "commandPrefix = [\"git push\", \"ls\"]\ndecision = \"ask_user\""),
    ("redirect", "commandPrefix = \"echo\"\nallowRedirection = true\ndecision = \"allow\""),
];

#[test]
fn line_decisions_match_the_table() {
    let aliases = [("zap", "reset --hard"), ("nuke", "!rm -rf src"), ("st", "status")];
    let environment = TestEnvironment {
        created_paths: vec!["/w/made".into()],
        git_aliases: aliases.map(|(name, text)| (name.to_owned(), text.to_owned())).into(),
        ..TestEnvironment::default()
    };
    let mut group = None;
    let mut rows = 0;
    let mut problems = Vec::new();
    for row in TABLE.lines().filter(|row| !row.is_empty() && !row.starts_with("# ")) {
        if let Some(header) = row.strip_prefix("@ ") {
            let fields: Vec<&str> = header.split(" | ").collect();
            let [rules, mode, who] = fields[..] else { panic!("{row}") };
            let rules = RULES.iter().find(|(name, _)| *name == rules).expect(header).1;
            let text =
                format!("[[rule]]\ntoolName = \"run_shell_command\"\npriority = 100\n{rules}");
            let files = if rules.is_empty() { vec![] } else { vec![file(Tier::User, &text)] };
            let options =
                PolicyOptions { files, home: Some("/home/me".into()), ..PolicyOptions::default() };
            let world = World::with(&options);
            assert!(world.policy.problems().is_empty(), "{:?}", world.policy.problems());
            let mode = ApprovalMode::parse(mode).expect(header);
            group = Some((header, world, mode, who != "headless"));
            continue;
        }
        let (line, expected) = row.rsplit_once(" => ").expect(row);
        let (header, world, mode, interactive) = group.as_ref().expect("a group");
        let line = line.replace('⏎', "\n");
        let ask = TestQuery {
            mode: *mode,
            interactive: *interactive,
            trusted: true,
            tool: "run_shell_command",
            target: &line,
        };
        let policy_decision = with_query(ask, &environment, |query| world.policy.evaluate(query));
        let decision = match policy_decision.kind {
            Decision::Allow => "allow",
            Decision::Ask => "ask",
            Decision::Deny => "deny",
        };
        if decision != expected {
            problems.push(format!(
                "{header} | {row}: {decision} by {}: {}",
                policy_decision.rule, policy_decision.reason
            ));
        }
        rows += 1;
    }
    assert!(problems.is_empty(), "{} wrong:\n{}", problems.len(), problems.join("\n"));
    assert!(rows >= 250, "{rows}");
}
