//! Tests of rule files: which rules apply, and which problems are reported.

use parallax_policy::{Policy, PolicyOptions, RuleFile, Severity, Tier, lint};
use parallax_protocol::policy::ApprovalMode::{AutoEdit, Default, Plan, Yolo};
use parallax_protocol::policy::Decision::{Allow, Ask, Deny};
use parallax_protocol::policy::{ApprovalMode, Decision};

use crate::world::{World, file};

fn problems(tier: Tier, text: &str) -> Vec<String> {
    lint(&file(tier, text), None)
        .iter()
        .map(|problem| {
            let severity = match problem.severity {
                Severity::Warning => "warning",
                Severity::Error => "error",
            };
            format!("{severity} {}: {problem}", problem.kind.as_str())
        })
        .collect()
}

fn rule(text: &str) -> String {
    format!("[[rule]]\ndecision = \"allow\"\npriority = 1\n{text}\n")
}

#[test]
fn invalid_rule_is_reported_with_its_position() {
    for (text, expected) in [
        (rule("toolName = \"glob\"\ncolour = 1"), "warning schema_validation: /p/rules.toml:5 \
            (user policy, rule 1): unknown key `colour`; it is ignored"),
        (rule("toolName = \"glob\"\ncommandPrefx = \"ls\""), "error schema_validation: \
            /p/rules.toml:5 (user policy, rule 1): unknown key `commandPrefx`; the rule is ignored; did you \
            mean `commandPrefix`?"),
        (rule(""), "error schema_validation: /p/rules.toml:1 (user policy, rule 1): `toolName` is missing"),
        (rule("toolName = 3"), "error schema_validation: /p/rules.toml:4 (user policy, rule 1): `toolName` must be a string or an array of strings"),
        (rule("toolName = \"write_fil\""), "warning tool_name_warning: /p/rules.toml:1 (user \
            policy, rule 1): unknown tool `write_fil`; did you mean `write_file`?"),
        (rule("toolName = \"git__push\""), "warning tool_name_warning: /p/rules.toml:1 (user \
            policy, rule 1): the form `git__push` is deprecated: use `mcp_git_push`"),
        (rule("toolName = \"glob\"\nargsPattern = \"(?!x)\""), "error regex_compilation: /p/rules.toml:1 (user policy, rule 1): `argsPattern` is invalid: look-around"),
        (rule("toolName = \"glob\"\nargsPattern = \"(a+)+\""), "error regex_compilation"),
        (rule("toolName = \"glob\"\npathGlob = \"[\""), "error regex_compilation"),
        (rule("toolName = \"glob\"\ncommandPrefix = \"ls\""), "error rule_validation: \
            /p/rules.toml:1 (user policy, rule 1): `commandPrefix` and `commandRegex` require \
            `toolName = \"run_shell_command\"`"),
        (rule("toolName = \"run_shell_command\"\ncommandPrefix = \"ls\"\ncommandRegex = \"x\""), "cannot be combined"),
        (rule("toolName = \"run_shell_command\"\ncommandPrefix = \"ls\"\nargsPattern = \"x\""), "cannot be combined"),
        (rule("toolName = \"run_shell_command\"\ncommandPrefix = []"), "is empty"),
        (rule("toolName = \"\""), "error schema_validation: /p/rules.toml:1 (user policy, rule 1): \
            `toolName` is empty (`*` means every tool); the rule is ignored"),
        (rule("toolName = \"run_shell_command\"\ncommandPrefix = \"npm; rm\""), "error \
            rule_validation: /p/rules.toml:1 (user policy, rule 1): invalid command prefix `npm; \
            rm`: it contains more than one command: each command of a line is evaluated \
            separately; the rule is ignored"),
        (rule("toolName = \"run_shell_command\"\ncommandPrefix = [\"ls\", \"A=1 npm\"]"), "warning \
            rule_validation: /p/rules.toml:1 (user policy, rule 1): invalid command prefix `A=1 \
            npm`: it begins with an assignment"),
        (rule("toolName = \"run_shell_command\"\ncommandPrefix = \"echo 'a\""), "it has an \
            unclosed quote"),
        (rule("toolName = \"glob\"\nmodes = [\"autoedit\"]"), "unknown mode `autoedit`"),
        (rule("toolName = \"glob\"\npermissions = { netwrok = true }"), "invalid `permissions`"),
        (rule("toolName = \"run_shell_command\"\npermissions = { outside = true }"), "requires a `commandPrefix`"),
        ("[[rule]]\ntoolName = \"glob\"\ndecision = \"deny\"\npriority = 1000".to_owned(), "error \
            schema_validation: /p/rules.toml:4 (user policy, rule 1): `priority` must be an \
            integer from 0 to 999; the rule is ignored: what it denies is NOT denied"),
        ("[[rule]]\ntoolName = \"glob\"\ndecision = \"alow\"\npriority = 1".to_owned(), "did you mean `allow`?"),
        ("[[rules]]\na = 1".to_owned(), "warning schema_validation: /p/rules.toml:1 (user policy): \
            unknown key `rules`; did you mean `rule`?"),
        ("[[rule]\n".to_owned(), "error toml_parse: /p/rules.toml:1 (user policy): it is not valid TOML"),
        ("[[safety_checker]]\ntoolName = \"*\"\n[safety_checker.checker]\ntype = \"in-process\"\nname = \"conseca\"".to_owned(), "`conseca` is not supported"),
        ("[[safety_checker]]\ntoolName = \"*\"\n".to_owned(), "`checker` is missing"),
    ] {
        let found = problems(Tier::User, &text);
        assert!(found.iter().any(|problem| problem.contains(expected)), "{text}\n{found:#?}");
        assert_eq!(found.len(), 1, "{text}\n{found:#?}");
    }
    let unread = RuleFile { text: Err("permission denied".to_owned()), ..file(Tier::Admin, "") };
    let [problem] = lint(&unread, None).try_into().expect("one problem");
    assert_eq!(
        problem.to_string(),
        "/p/rules.toml (admin policy): it cannot be read (permission denied), so none of its rules \
         apply"
    );
}

#[test]
fn invalid_rule_drops_only_itself() {
    let text = "[[rule]]\ntoolName = \"glob\"\ndecision = \"maybe\"\npriority = 5\n\
                [[rule]]\ntool_name = [\"glob\", \"web_fetch\"]\ndecision = \"deny\"\npriority = 5\n\
                deny_message = \"Not here\"\nname = \"closed\"";
    let world = World::new(&[file(Tier::User, text)]);
    assert_eq!(world.policy.problems().len(), 1);
    let policy_decision = world.evaluate(Default, "glob", "a");
    assert_eq!((policy_decision.kind, policy_decision.reason.as_str()), (Deny, "Not here"));
    assert_eq!(policy_decision.rule, "closed (user, `/p/rules.toml:5`, 4.005)");
    assert!(world.policy.notices().iter().any(|notice| notice.contains("`maybe`")));
}

#[test]
fn lower_tiers_may_only_tighten() {
    let allow = rule("toolName = \"web_fetch\"");
    for (tier, decision) in
        [(Tier::Extension, Ask), (Tier::Workspace, Ask), (Tier::User, Allow), (Tier::Admin, Allow)]
    {
        let world = World::new(&[file(tier, &allow)]);
        assert_eq!(world.evaluate(Default, "web_fetch", "").kind, decision, "{tier:?}");
        assert_eq!(world.policy.problems().is_empty(), decision == Allow);
    }
    let options = PolicyOptions {
        workspace_may_allow: true,
        files: vec![file(Tier::Workspace, &allow)],
        ..PolicyOptions::default()
    };
    assert_eq!(World::with(&options).evaluate(Default, "web_fetch", "").kind, Allow);

    let ask = "[[rule]]\ntoolName = \"*\"\ndecision = \"ask_user\"\npriority = 900";
    for tier in [Tier::Extension, Tier::Workspace] {
        let world = World::new(&[file(tier, ask)]);
        assert_eq!(world.evaluate(Default, "read_file", "a").kind, Ask);
        assert_eq!(world.evaluate(Yolo, "write_file", "a").kind, Ask);
        assert_eq!(world.evaluate(Plan, "write_file", "a").kind, Deny, "{tier:?}");
    }
    let yolo =
        "[[rule]]\ntoolName = \"*\"\ndecision = \"deny\"\npriority = 900\nmodes = [\"yolo\"]";
    let world = World::new(&[file(Tier::Extension, yolo)]);
    assert_eq!(world.evaluate(Yolo, "read_file", "a").kind, Allow);
    assert_eq!(world.policy.problems().len(), 1);
}

#[test]
fn harmless_command_next_to_an_allowed_one_obeys_other_rules() {
    let rule = |decision: &str| {
        format!(
            "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"cat\"\n\
             decision = \"{decision}\"\npriority = 1\n"
        )
    };
    for tier in [Tier::User, Tier::Workspace, Tier::Extension] {
        for (decision, expected) in [("deny", Deny), ("ask_user", Ask)] {
            let policy = Policy::new(&PolicyOptions {
                allowed: vec!["run_shell_command(cargo test)".to_owned()],
                files: vec![file(tier, &rule(decision))],
                ..PolicyOptions::default()
            });
            let ask = |command: &str, interactive: bool| {
                let tool = "run_shell_command";
                let ask = crate::world::TestQuery {
                    mode: Default,
                    interactive,
                    trusted: true,
                    tool,
                    target: command,
                };
                crate::world::evaluate(&policy, ask).kind
            };
            assert_eq!(ask("cat a.txt", true), expected, "{tier:?} {decision}");
            assert_eq!(ask("cat a.txt", false), Deny, "{tier:?} {decision}");
            assert_eq!(ask("cat a.txt && cargo test", true), expected, "{tier:?} {decision}");
            assert_eq!(ask("head a.txt && cargo test", false), Allow, "{tier:?} {decision}");
            assert_eq!(ask("head a.txt", true), Ask, "{tier:?} {decision}");
        }
    }
}

fn decide(text: &str, mode: ApprovalMode, tool: &str, target: &str) -> Decision {
    World::new(&[file(Tier::User, text)]).evaluate(mode, tool, target).kind
}

#[test]
fn each_rule_field_narrows_the_match() {
    let deny = |field: &str| format!("[[rule]]\ndecision = \"deny\"\npriority = 999\n{field}\n");
    for (field, mode, tool, target, denied) in [
        ("toolName = \"search_file_content\"", Default, "grep_search", "a", true),
        ("toolName = \"read_*\"", Default, "read_file", "a", true),
        ("toolName = \"*\"", Yolo, "read_file", "a", true),
        ("mcpName = \"git\"", Yolo, "mcp_git_push", "", true),
        ("mcpName = \"git\"", Yolo, "mcp_hub_push", "", false),
        ("mcpName = \"git\"\ntoolName = \"push\"", Yolo, "mcp_git_push", "", true),
        ("mcpName = \"git\"\ntoolName = \"push\"", Yolo, "mcp_git_pull", "", false),
        ("mcpName = \"*\"\ntoolName = \"push\"", Yolo, "mcp_hub_push", "", true),
        ("mcpName = \"*\"", Yolo, "mcp_hub_push", "", true),
        ("toolName = \"builder\"", Default, "invoke_agent", "builder", true),
        ("toolName = \"glob\"\nmodes = [\"plan\"]", Default, "glob", "a", false),
        ("toolName = \"glob\"\nmodes = [\"plan\", \"autoEdit\"]", AutoEdit, "glob", "a", true),
        ("toolName = \"glob\"\ninteractive = false", Default, "glob", "a", false),
        ("toolName = \"glob\"\ninteractive = true", Default, "glob", "a", true),
        ("toolName = \"glob\"\nsubagent = \"x\"", Default, "glob", "a", false),
        ("toolName = \"glob\"\ntoolAnnotations = { a = 1 }", Default, "glob", "a", false),
        (
            r#"toolName = "read_file"
argsPattern = '\x00"file_path":"a\.rs"\x00'"#,
            Default,
            "read_file",
            "a.rs",
            true,
        ),
        (
            r#"toolName = "read_file"
argsPattern = "\\0\"file_path\":\"a\\.rs\"\\0""#,
            Default,
            "read_file",
            "a.rs",
            true,
        ),
        (
            r#"toolName = "read_file"
argsPattern = '\x00"file_path":"a\.rs"\x00'"#,
            Default,
            "read_file",
            "a.rs.md",
            false,
        ),
        (
            "toolName = \"read_file\"\npathGlob = \"secret/**\"",
            Default,
            "read_file",
            "secret/a",
            true,
        ),
        ("toolName = \"read_file\"\npathGlob = \"secret/**\"", Default, "read_file", "a", false),
        ("toolName = \"read_file\"\npathGlob = \"/etc/*\"", Default, "read_file", "/etc/x", true),
        (
            "toolName = \"read_file\"\npathInside = \"workspace\"",
            Default,
            "read_file",
            "/etc/x",
            false,
        ),
        (
            "toolName = \"read_file\"\npathInside = \"workspace\"",
            Default,
            "read_file",
            ".git/x",
            true,
        ),
        ("toolName = \"read_file\"\npathInside = \"tmp\"", Default, "read_file", "/tmp/x", true),
    ] {
        let decision = decide(&deny(field), mode, tool, target);
        assert_eq!(decision == Deny, denied, "{field} {tool} {target}: {decision:?}");
    }
}

#[test]
fn path_rule_requires_all_paths_to_match() {
    for (field, target, decision) in [
        ("pathGlob = \"docs/**\"", "docs/a.md", Allow),
        ("pathGlob = \"docs/**\"", "docs/../a.md", Ask),
        ("pathGlob = \"docs/**\"", ".git/config", Ask),
        ("pathGlob = \"**\"", ".git/config", Ask),
        ("pathGlob = \"/data/**\"", "/data/a", Allow),
        ("pathInside = \"workspace\"", "src/a", Allow),
        ("pathInside = \"workspace\"", ".env", Ask),
        ("pathInside = \"tmp\"", "/tmp/a", Allow),
        ("pathInside = \"tmp\"", "/tmpx/a", Ask),
    ] {
        let text = rule(&format!("toolName = \"write_file\"\n{field}"));
        assert_eq!(decide(&text, Default, "write_file", target), decision, "{field} {target}");
    }
}

#[test]
fn checkers_run_after_the_rules() {
    let checker = |kind: &str, name: &str| {
        format!(
            "[[safety_checker]]\ntoolName = [\"write_file\", \"read_file\"]\npriority = 5\n\
             [safety_checker.checker]\ntype = \"{kind}\"\nname = \"{name}\"\n"
        )
    };
    let allowed_path = checker("in-process", "allowed-path");
    for (tool, target, decision) in [
        ("read_file", "src/a", Allow),
        ("read_file", "/etc/passwd", Deny),
        ("read_file", "a/.git/x", Deny),
        ("read_file", ".env.local", Deny),
        ("read_file", "node_modules/x", Deny),
        ("read_file", ".vscode/x", Ask),
        ("write_file", "/etc/passwd", Deny),
        ("list_directory", "/etc", Allow),
    ] {
        assert_eq!(decide(&allowed_path, Yolo, tool, target), decision, "{tool} {target}");
    }
    let external = World::new(&[file(Tier::User, &checker("external", "mine"))]);
    let policy_decision = external.evaluate(Yolo, "read_file", "a");
    assert_eq!(policy_decision.kind, Deny);
    assert!(policy_decision.reason.contains("`mine` is not supported"), "{policy_decision:?}");
    assert!(
        policy_decision.rule.starts_with("safety checker mine (user, `/p/rules.toml:1`"),
        "{policy_decision:?}"
    );
}

#[test]
fn tools_denied_by_files_are_hidden_and_listed() {
    let text = "[[rule]]\ntoolName = \"web_fetch\"\ndecision = \"deny\"\npriority = 5\n\
                [[rule]]\ntoolName = \"glob\"\ndecision = \"deny\"\npriority = 5\npathGlob = \"x\"\n";
    let world = World::new(&[file(Tier::User, text)]);
    let hides = |tool: &str| {
        parallax_protocol::policy::PolicyEngine::is_tool_denied(
            &world.policy,
            tool,
            &[],
            Default,
            false,
        )
    };
    assert!(hides("web_fetch") && !hides("glob") && !hides("write_file"));
    let list = world.policy.list();
    let first = list.first().expect("a rule");
    assert_eq!(first.rule, "deny `web_fetch` (user, `/p/rules.toml:1`, 4.005)");
    assert_eq!((first.priority.as_str(), first.line), ("4.005", Some(1)));
}
