//! Tests of guards that take precedence over rules: protected paths, words of untrusted text, and
//! permissions beyond the sandbox.

use parallax_policy::{PolicyOptions, SandboxTable, Tier};
use parallax_protocol::permissions::{FilePermissions, Permissions};
use parallax_protocol::policy::ApprovalMode::{self, AutoEdit, Default, Plan, Yolo};
use parallax_protocol::policy::Decision::{Allow, Ask, Deny};
use parallax_protocol::policy::{Decision, PolicyEngine};

use crate::world::{World, file};

const SHELL: &str = "run_shell_command";

/// Returns a world in which everything is allowed.
fn unrestricted_world() -> World {
    World::new(&[file(
        Tier::Admin,
        "[[rule]]\ntoolName = \"*\"\ndecision = \"allow\"\npriority = 999\nallowRedirection = true",
    )])
}

#[test]
fn highest_priority_rule_decides_regardless_of_order() {
    let rules = "[[rule]]\ntoolName = \"run_shell_command\"\ndecision = \"ask_user\"\n\
                 priority = 0\ncommandRegex = \"git (log|push)\"\n\
                 [[rule]]\ntoolName = \"run_shell_command\"\ndecision = \"allow\"\n\
                 priority = 1\nargsPattern = '\"command\":\"git'\n";
    let world = World::new(&[file(Tier::User, rules)]);
    for line in ["git push", "git log && bash -c 'git push; ls'", "bash -c 'git push; ls'"] {
        let policy_decision = world.evaluate(Default, SHELL, line);
        assert_eq!(policy_decision.kind, Allow, "{line} {policy_decision:?}");
    }
    // The same pattern matched against the whole line.
    let rules = rules.replace("priority = 1", "priority = 0").replace("git (", "bash.*git (");
    let world = World::new(&[file(Tier::User, &rules)]);
    assert_eq!(world.evaluate(Default, SHELL, "bash -c 'git push; ls'").kind, Ask);
}

#[test]
fn obstacles_to_running_git_are_reported() {
    let world = World::new(&[]);
    let policy_decision = world.evaluate(Default, SHELL, "git status => /w/.git/config");
    assert_eq!(policy_decision.kind, Ask);
    assert!(
        policy_decision.reason.contains("`/w/.git/config` cannot be read or configures programs"),
        "{policy_decision:?}"
    );
    let policy_decision = world.evaluate(Default, SHELL, "git push => /w/other");
    assert!(!policy_decision.reason.contains("configures programs"), "{policy_decision:?}");
}

#[test]
fn file_with_other_hard_links_requires_approval_each_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, other) = (folder.path().join("a"), folder.path().join("b"));
    std::fs::write(&file, "").expect("a file");
    let path = other.display().to_string();
    // Outside `/w`, approval is required anyway, for a different reason.
    let reason = |mode| unrestricted_world().evaluate(mode, "write_file", &path).reason;
    std::fs::copy(&file, &other).expect("a copy");
    assert!(!reason(AutoEdit).contains("hard links"));
    std::fs::remove_file(&other).expect("gone");
    std::fs::hard_link(&file, &other).expect("a link");
    for mode in [Default, AutoEdit] {
        let policy_decision = unrestricted_world().evaluate(mode, "write_file", &path);
        assert_eq!(
            (policy_decision.kind, policy_decision.always_ask),
            (Ask, true),
            "{policy_decision:?}"
        );
        assert!(policy_decision.reason.contains("hard links"), "{policy_decision:?}");
    }
    assert!(!reason(Yolo).contains("hard links"));
}

#[test]
fn protected_paths_require_approval_despite_rules() {
    let mut world = unrestricted_world();
    for path in [
        ".git/hooks/x",
        "sub/.GIT/config",
        ".gemini/settings.json",
        ".parallax/x",
        ".mcp.json",
        ".vscode/x",
        ".idea/x",
        ".envrc",
        "/home/me/.bashrc",
        "/home/me/.ssh/config",
        "x/.Zshrc",
    ] {
        for mode in [Default, AutoEdit] {
            let policy_decision = world.evaluate(mode, "write_file", path);
            assert_eq!(
                (policy_decision.kind, policy_decision.always_ask),
                (Ask, true),
                "{path} {policy_decision:?}"
            );
            let line = format!("cp a {path}");
            let policy_decision = world.evaluate(mode, SHELL, &line);
            assert_eq!(
                (policy_decision.kind, policy_decision.always_ask),
                (Ask, true),
                "{line} {policy_decision:?}"
            );
        }
    }
    assert_eq!(world.evaluate(Yolo, "write_file", ".git/x").kind, Allow);
    // Through a link, whose target the caller provides.
    assert_eq!(world.evaluate(Default, SHELL, "cp a b").kind, Allow);
    assert_eq!(world.evaluate(Default, SHELL, "cp a b => /w/.git/hooks/x").kind, Ask);
    assert_eq!(world.evaluate(Default, SHELL, "git add b => /w/.git/config").kind, Allow);

    assert_eq!(world.evaluate(Default, "write_file", "AGENTS.md").kind, Allow);
    world.environment.creates = true;
    for path in ["AGENTS.md", "sub/gemini.MD", "CLAUDE.md", ".cursorrules"] {
        assert_eq!(world.evaluate(Default, "write_file", path).kind, Ask, "{path}");
    }
    assert_eq!(world.evaluate(Default, "write_file", "README.md").kind, Allow);
}

#[test]
fn commands_copied_from_untrusted_content_require_approval_each_time() {
    let mut world = unrestricted_world();
    world.environment.taint.words =
        ["--eval", "http://evil/x", "src/x.js", "test", "--all"].map(str::to_owned).into();
    for (line, asks) in [
        ("node --eval 1", true),
        ("curl HTTP://evil/x -s", true),
        ("tool --file=src/x.js", true),
        ("node 'src'/x.js", true),
        ("cargo test --all", false),
        ("node other.js", false),
    ] {
        let policy_decision = world.evaluate(Default, SHELL, line);
        assert_eq!(
            policy_decision.kind == Ask && policy_decision.always_ask,
            asks,
            "{line} {policy_decision:?}"
        );
        assert_eq!(world.evaluate(Yolo, SHELL, line).kind, Allow, "{line}");
        let suggested_rules = world.query(Default, SHELL, line, |query| {
            world.policy.suggested_rules(query, &Permissions::default())
        });
        assert!(!asks || suggested_rules.is_empty(), "{line}");
    }
    world.environment.taint.words.clear();
    world.environment.taint.build_files = vec!["/w/Cargo.toml".into()];
    assert_eq!(world.evaluate(Default, SHELL, "cargo test").kind, Ask);
    assert_eq!(world.evaluate(Default, SHELL, "echo a").kind, Allow);
}

#[test]
fn rules_grant_exactly_their_permissions() {
    let rules = "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"npm install\"\n\
                 decision = \"allow\"\npriority = 100\npermissions = { network = true, fileSystem = { write = [\"~/.npm\"] } }\n\
                 [[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"make\"\ndecision = \"allow\"\npriority = 100\n\
                 [[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"docker ps\"\n\
                 decision = \"allow\"\npriority = 100\npermissions = { outside = true }\n";
    let mut world = World::with(&PolicyOptions {
        files: vec![file(Tier::User, rules)],
        home: Some("/home/me".into()),
        ..PolicyOptions::default()
    });
    let network = Permissions { network: true, ..Permissions::default() };
    let outside = Permissions { outside: true, ..Permissions::default() };
    let writes = |path: &str| Permissions {
        file_system: FilePermissions { read: vec![], write: vec![path.into()] },
        ..Permissions::default()
    };
    let cases: [(&str, ApprovalMode, Permissions, Decision); 14] = [
        ("npm install x", Default, Permissions::default(), Allow),
        ("npm install x", Default, network.clone(), Allow),
        ("npm install x", Default, writes("/home/me/.npm/x"), Allow),
        ("npm install x", Default, writes("/home/me/x"), Ask),
        ("npm install x && make", Default, network.clone(), Ask),
        ("npm install x && ls", Default, network.clone(), Allow),
        ("make", Default, network.clone(), Ask),
        ("make", Default, writes("/w/x"), Allow),
        ("make", Default, writes("/w/.git"), Ask),
        ("make", Yolo, network.clone(), Allow),
        ("make", Yolo, outside.clone(), Ask),
        ("docker ps", Default, outside.clone(), Allow),
        ("docker ps -a", Default, outside.clone(), Ask),
        ("docker ps; docker ps", Default, outside.clone(), Ask),
    ];
    for (line, mode, permissions, decision) in cases {
        world.environment.permissions = permissions.clone();
        let policy_decision = world.evaluate(mode, SHELL, line);
        assert_eq!(policy_decision.kind, decision, "{line} {permissions:?} {policy_decision:?}");
    }
    world.environment.permissions = Permissions::default();
    let grants = world.evaluate(Default, SHELL, "npm install x").grants;
    assert_eq!(grants.descriptions(), ["network", "to write /home/me/.npm"]);
    assert!(world.evaluate(Default, SHELL, "npm install x && make").grants.is_empty());
    assert!(world.evaluate(Default, SHELL, "docker ps").grants.outside);
    assert!(!world.evaluate(Default, SHELL, "docker ps -a").grants.outside);
}

#[test]
fn sandbox_table_grants_permissions() {
    let text = "[modes.default]\nnetwork = true\n[commands.make]\nallowed_paths = [\"/data\"]";
    let (sandbox, problems) = SandboxTable::parse(text, "/p/sandbox.toml".as_ref(), None);
    assert!(problems.is_empty());
    let world = World::with(&PolicyOptions {
        sandbox,
        allowed: vec!["run_shell_command(make)".into()],
        ..PolicyOptions::default()
    });
    let grants = world.evaluate(Default, SHELL, "make").grants;
    assert_eq!(grants.descriptions(), ["network", "to write /data"]);
}

#[test]
fn table_that_tightens_yolo_applies() {
    let requested = |network, host_loopback, caches, write: &[&str]| Permissions {
        network,
        host_loopback,
        caches,
        file_system: FilePermissions {
            read: vec![],
            write: write.iter().map(|path| (*path).into()).collect(),
        },
        ..Permissions::default()
    };
    let cases = [
        ("", requested(true, true, false, &["/w/x", "/w/.git"]), Allow),
        ("", requested(false, false, true, &[]), Ask),
        ("network = false", requested(true, false, false, &[]), Ask),
        ("network = false", requested(false, true, false, &["/w/x"]), Ask),
        ("network = false", requested(false, false, false, &["/w/x"]), Allow),
        ("network = false\nhostLoopback = true", requested(false, true, false, &["/w/x"]), Allow),
        ("hostLoopback = false", requested(false, true, false, &[]), Ask),
        ("hostLoopback = false", requested(true, false, false, &[]), Allow),
        ("readonly = true", requested(false, false, false, &["/w/x"]), Ask),
    ];
    for (row, permissions, expected) in cases {
        let text = format!("[modes.yolo]\n{row}\n");
        let (sandbox, problems) = SandboxTable::parse(&text, "/p/sandbox.toml".as_ref(), None);
        assert!(problems.is_empty());
        let mut world = World::with(&PolicyOptions { sandbox, ..PolicyOptions::default() });
        world.environment.permissions = permissions.clone();
        let policy_decision = world.evaluate(Yolo, SHELL, "make");
        assert_eq!(policy_decision.kind, expected, "{row} {permissions:?} {policy_decision:?}");
        let ask = crate::world::TestQuery {
            mode: Yolo,
            interactive: false,
            trusted: true,
            tool: SHELL,
            target: "make",
        };
        let policy_decision =
            crate::world::with_query(ask, &world.environment, |query| world.policy.evaluate(query));
        let denied = policy_decision.kind == Deny;
        assert_eq!(denied, expected == Ask, "{row} {permissions:?} {policy_decision:?}");
        assert!(!policy_decision.reason.contains("approval-mode yolo"), "{policy_decision:?}");
    }
}

#[test]
fn read_only_annotations_allow_an_approval_request_in_plan_mode() {
    let mut world = World::new(&[]);
    assert_eq!(world.evaluate(Plan, "mcp_git_log", "").kind, Deny);
    world.environment.annotations = serde_json::json!({"readOnlyHint": true}).as_object().cloned();
    assert_eq!(world.evaluate(Plan, "mcp_git_log", "").kind, Ask);
}

#[test]
fn explanation_names_all_reasons() {
    let world = World::new(&[file(
        Tier::User,
        "[[rule]]\nname = \"mine\"\ntoolName = \"run_shell_command\"\ncommandPrefix = \"make\"\ndecision = \"allow\"\npriority = 9",
    )]);
    let explanation =
        world.query(Default, SHELL, "make > log; git push", |query| world.policy.explain(query));
    assert_eq!(explanation.policy_decision.kind, Ask);
    let [make, push] = &explanation.commands[..] else { panic!("{explanation:#?}") };
    assert_eq!((make.decision, push.decision), (Allow, Ask));
    assert_eq!(make.rule, "mine (user, `/p/rules.toml:1`, 4.009)");
    let tried = push.rules.first().expect("a rule");
    assert_eq!(tried.mismatch, Some("the command does not match"));
    assert!(push.rules.last().expect("a rule").mismatch.is_none());
    assert!(explanation.checks.iter().any(|fired| fired.check == "redirection"));
    assert_eq!(
        world.query(Default, SHELL, "make > log; git push", |query| world.policy.evaluate(query)),
        explanation.policy_decision
    );
    assert!(serde_json::to_string(&explanation).is_ok_and(|text| text.contains("whyNot")));
}
