//! Tests of suggested rules: creating, saving, and loading them.

use parallax_policy::{
    AddRuleError, Policy, PolicyOptions, Tier, add_to_file, suggested_rule_toml,
};
use parallax_protocol::permissions::{FilePermissions, Permissions};
use parallax_protocol::policy::ApprovalMode::{AutoEdit, Default, Yolo};
use parallax_protocol::policy::{ApprovalMode, Decision, PolicyEngine, SuggestedRule};

use crate::world::{World, file};

const SHELL: &str = "run_shell_command";

fn suggested_rules(
    world: &World,
    mode: ApprovalMode,
    tool: &str,
    target: &str,
) -> Vec<SuggestedRule> {
    world.query(mode, tool, target, |query| {
        world.policy.suggested_rules(query, &Permissions::default())
    })
}

fn format_rules(suggested_rules: &[SuggestedRule]) -> Vec<String> {
    suggested_rules
        .iter()
        .map(|rule| {
            let mut text = rule.command_prefix.join("; ");
            text.push_str(rule.path_glob.as_deref().unwrap_or_default());
            if rule.allow_redirection {
                text.push_str(" >");
            }
            text
        })
        .collect()
}

#[test]
fn suggested_rule_has_no_operands_and_destructive_commands_stay_exact() {
    for (line, suggested) in [
        ("touch made3", "touch"),
        ("mkdir -p a/b", "mkdir"),
        ("python3 -m pytest tests/a.py", "python3 -m pytest"),
        ("git commit -am x", "git commit"),
        ("git push origin main", "git push"),
        ("cargo test --all -- name", "cargo test"),
        ("npm run build -- --watch", "npm run build"),
        ("make all && touch x", "make all; touch"),
        ("git -c a=b commit -m x", "git -c a=b commit -m x"),
        ("mv a b", "mv a b $"),
        ("rm a", "rm a $"),
        ("curl http://127.0.0.1:1/", "curl http://127.0.0.1:1/ $"),
        ("node -e 1", "node -e 1 $"),
        ("psql -c x", "psql -c x $"),
        ("sqlite3 x.db y", "sqlite3 x.db y $"),
        ("kubectl get pods -A", "kubectl get pods"),
        ("kubectl delete pod x", "kubectl delete pod x $"),
        ("terraform plan", "terraform plan"),
        ("terraform apply", "terraform apply $"),
        ("aws ec2 terminate-instances x", "aws ec2 terminate-instances x $"),
        ("gh pr list --json x", "gh pr list"),
        ("gh api repos/x", "gh api repos/x $"),
    ] {
        let world = World::new(&[]);
        let suggested_rules = suggested_rules(&world, Default, SHELL, line);
        let found = suggested_rules.iter().find(|rule| rule.is_default).or(suggested_rules.first());
        let found: Vec<String> = found
            .cloned()
            .into_iter()
            .collect::<Vec<_>>()
            .iter()
            .map(|rule| rule.command_prefix.join("; "))
            .collect();
        assert_eq!(
            found.join(""),
            if suggested_rules.is_empty() { "" } else { suggested },
            "{line}"
        );
    }
}

#[test]
fn suggested_rules_of_a_line_are_ordered_from_narrow_to_broad() {
    let world = World::new(&[]);
    let line = "git commit --allow-empty -am x && python3 -m pytest tests/a.py";
    assert_eq!(
        format_rules(&suggested_rules(&world, Default, SHELL, line)),
        [
            "git commit --allow-empty -am x; python3 -m pytest tests/a.py $",
            "git commit; python3 -m pytest"
        ]
    );
}

#[test]
fn decision_names_the_sensitive_paths_of_a_call() {
    let home = std::path::Path::new("/home/u");
    for (path, is_sensitive) in [
        ("/home/u/.ssh/id_rsa", true),
        ("/home/u/.aws/credentials", true),
        ("/w/.env", true),
        ("/w/deploy/server.pem", true),
        ("/etc/shadow", true),
        ("/w/.env.example", false),
        ("/w/src/key.rs", false),
        ("/home/u/notes.txt", false),
    ] {
        let found = parallax_protocol::protected_names::is_sensitive(path.as_ref(), Some(home));
        assert_eq!(found, is_sensitive, "{path}");
    }
    let world = World::new(&[]);
    for (line, named) in [
        ("make && cat ~/.ssh/id_rsa", Some("~/.ssh/id_rsa")),
        ("make < sub/.env", Some("/w/sub/.env")),
        ("make .netrc", Some("/w/.netrc")),
        ("make 'rotate a/server.key'", None),
        ("make credentials", None),
    ] {
        let found = world.evaluate(Default, SHELL, line).sensitive;
        let ends = |found: &String| named.is_some_and(|named| found.ends_with(&named[2..]));
        assert_eq!(found.len(), usize::from(named.is_some()), "{line} {found:?}");
        assert!(found.iter().all(ends), "{line} {found:?}");
    }
}

#[test]
fn decision_names_secrets_that_a_line_reads_indirectly() {
    let world =
        World::with(&PolicyOptions { home: Some("/home/u".into()), ..PolicyOptions::default() });
    let mut problems = Vec::new();
    for (line, named) in [
        ("F=~/.ssh/id; cat $F", "~/.ssh/id"),
        ("F=.ssh; cat ~/$F/id", "~/.ssh/id"),
        ("cat $HOME/.ssh/id", "~/.ssh/id"),
        ("cat ~/{.ssh/id,x}", "~/.ssh/id"),
        ("cp ${HOME}/.ssh/id .; cp $HOME/.ssh/id a", "~/.ssh/id"),
        ("cat ~/.ss*/id", "~/.ss*/id"),
        ("cat ~/.[s]sh/*", "~/.[s]sh/*"),
        ("cat /home/u/.aws/cred*", "~/.aws/cred*"),
        ("cat id_r*", "id_r*"),
        ("cat certs/*.pem", "certs/*.pem"),
        ("cd ~ && cat .ssh/id", "~/.ssh/id"),
        ("cd && make .ssh/id", "~/.ssh/id"),
        ("cd ~/.ssh; cat id", "~/.ssh"),
        ("python3 -c \"open('/home/u/.ssh/id').read()\"", "~/.ssh/id"),
        ("python3 -c \"from pathlib import Path; Path.home() / '.ssh' / 'id'\"", ".ssh"),
        ("python3 - <<'E'\nopen('/w/server.pem')\nE", "/w/server.pem"),
        ("node -e \"fs.readFileSync('/home/u/.npmrc')\"", "~/.npmrc"),
        ("perl -pe 1 /home/u/.netrc", "~/.netrc"),
        ("bash -c 'cat ~/.kube/config'", "~/.kube/config"),
        ("echo ~/.aws/config | xargs cat", "~/.aws/config"),
        ("make *.c", ""),
        ("make src/*/mod.rs", ""),
        ("make .*", ""),
        ("make ./*", ""),
        ("python3 -c 'print(1)'", ""),
        ("python3 -m pytest tests/credentials_test.py", ""),
        ("git commit -m 'Read .ssh/config'", ""),
        ("X=a; make $X", ""),
        // Whole directories.
        ("tar czf x.tgz -C ~ .parallax", "~/.parallax"),
        ("tar c ~/.config | wc", "~/.config"),
        ("cp -r ~/. b", "~"),
        ("cp -r ~ b", "~"),
        ("rsync -a \"$HOME\" b", "~"),
        ("grep -r key ~/.parallax", "~/.parallax"),
        ("cd ~ && zip -r /w/k.zip .gemini", "~/.gemini"),
        ("cp -r a ~/.config", ""),
        ("grep -r key .parallax", ""),
        ("tar c .config", ""),
        ("make ~/.config", ""),
        // Programs that print secrets.
        ("gh auth token", "output of `gh auth token`"),
        ("gpg --armor --export-secret-keys", "output of `gpg --armor --export-secret-keys`"),
        ("gh auth status", ""),
        ("gpg2 --export-secret-keys", "output of `gpg2 --export-secret-keys`"),
        ("gh auth status -t", "output of `gh auth status -t`"),
        ("gcloud auth print-identity-token", "output of `gcloud auth print-identity-token`"),
        ("aws configure get x", "output of `aws configure get x`"),
        (
            "aws --region x secretsmanager get-secret-value",
            "output of `aws --region x secretsmanager get-secret-value`",
        ),
        ("az account get-access-token", "output of `az account get-access-token`"),
        ("pass mail/x", "output of `pass mail/x`"),
        ("op read op://a/b", "output of `op read op://a/b`"),
        ("bw get password x", "output of `bw get password x`"),
        ("vault kv get secret/x", "output of `vault kv get secret/x`"),
        ("kubectl -n x get secret/y", "output of `kubectl -n x get secret/y`"),
        ("kubectl config view --raw", "output of `kubectl config view --raw`"),
        ("git credential fill", "output of `git credential fill`"),
        ("terraform output -raw p", "output of `terraform output -raw p`"),
        ("npm config get //r/:_authToken", "output of `npm config get //r/:_authToken`"),
        ("heroku auth:token", "output of `heroku auth:token`"),
        ("npm token list", "output of `npm token list`"),
        ("doppler secrets", "output of `doppler secrets`"),
        ("sops -d x.yaml", "output of `sops -d x.yaml`"),
        ("age -d x.age", "output of `age -d x.age`"),
        ("docker-credential-pass get", "output of `docker-credential-pass get`"),
        ("pass ls", ""),
        ("pass", ""),
        ("kubectl get pods", ""),
        ("kubectl config view", ""),
        ("vault status", ""),
        ("terraform output", ""),
        ("aws s3 ls", ""),
        ("npm config get registry", ""),
        ("git commit -m credential", ""),
        // Files of other agents, and directories that are known only at run time.
        ("cat ~/.codex/auth.json", "~/.codex/auth.json"),
        ("cat ~/.claude/.credentials.json", "~/.claude/.credentials.json"),
        ("cat \"$PARALLAX_HOME\"/provider-keys.json", "$PARALLAX_HOME/provider-keys.json"),
        ("cat $DIR/id_rsa", "$DIR/id_rsa"),
        ("cat $DIR/main.rs", ""),
        ("cat /proc/1/environ", "/proc/1/environ"),
        ("tr '\\0' '\\n' < /proc/self/environ", "/proc/self/environ"),
        ("cat /proc/1/status", ""),
        // Directories above the home directory.
        ("cp -r /home b", "/home"),
        ("cp -r /root b", "/root"),
        ("tar cf x /", "/"),
        ("cp -r .. b", "/"),
        ("cp -r ~/.c* b", "~/.c*"),
        ("tar -C/home/u -cf x .ssh", "~/.ssh"),
        ("find ~ -name x -exec cat {} +", "~"),
        ("find -L /home -type f | xargs cat", "/home"),
        ("rclone copy ~ r:", "~"),
        ("docker cp ~ c:/x", "~"),
        ("docker run -v ~:/h x", "~"),
        ("diff -r ~ b", "~"),
        ("rg -uu token ~/.config", "~/.config"),
        ("find ~ -name x", ""),
        ("find . -name x -exec cat {} +", ""),
        ("grep -rn / src", ""),
        ("grep -m 3 -e x ~", "~"),
        ("rg '..' src", ""),
        ("cp a ..", ""),
        ("tar xf a.tgz -C /home/u", ""),
        ("docker cp c:/x ~", ""),
    ] {
        let found = world.evaluate(Default, SHELL, line).sensitive;
        if found.join(" ") != named {
            problems.push(format!("{line}: {found:?}, not {named}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn suggested_rule_allows_the_call_and_only_what_it_shows() {
    for (line, expected) in [
        ("cargo test -q", vec!["cargo test -q", "cargo test", "cargo"]),
        ("make", vec!["make"]),
        ("cargo test && ls", vec!["cargo test", "cargo"]),
        ("npm run x && make", vec!["npm run x; make", "npm run; make", "npm; make"]),
        ("make > log", vec!["makelog >"]),
        ("python x.py", vec!["python x.py"]),
        ("python -m pytest", vec!["python -m pytest $", "python -m pytest"]),
        ("node -e 1", vec!["node -e 1 $"]),
        ("./gradlew test --info", vec!["./gradlew test --info", "./gradlew test"]),
        ("./manage.py migrate", vec!["./manage.py migrate"]),
        ("cmake --build build", vec!["cmake --build build $"]),
        ("python3 -m pip install x", vec!["python3 -m pip install x $", "python3 -m pip install"]),
        ("rm b1", vec!["rm b1 $"]),
        ("rm build", vec!["rm build $"]),
        ("mv a b", vec!["mv a b $"]),
        ("curl http://127.0.0.1:1/", vec!["curl http://127.0.0.1:1/ $"]),
        ("timeout 5 make", vec!["make"]),
        ("bash -c 'make a'", vec!["make a", "make"]),
        // No rule would help, or no user could read it.
        ("rm -rf target", vec![]),
        ("git reset --hard", vec![]),
        ("echo a > .git/config", vec![]),
        ("make $X", vec![]),
        ("make 'unclosed", vec![]),
        ("echo ${x@P}", vec![]),
        ("make > Cargo.toml", vec![]),
    ] {
        let world = World::new(&[]);
        let suggested_rules = suggested_rules(&world, Default, SHELL, line);
        assert_eq!(format_rules(&suggested_rules), expected, "{line}");
        for rule in suggested_rules {
            let policy_engine = world.policy.with_rule(&rule).expect("a rule");
            let decide = |line: &str| {
                world.query(Default, SHELL, line, |query| policy_engine.evaluate(query)).kind
            };
            assert_eq!(decide(line), Decision::Allow, "{line} {rule:?}");
            let first = line.split(" >").next().expect("text");
            if rule.command_prefix.iter().any(|prefix| prefix.ends_with(" $")) {
                for more in [" x", " -e 2", " --x"] {
                    assert_eq!(decide(&format!("{first}{more}")), Decision::Ask, "{line}{more}");
                }
            }
            if rule.allow_redirection {
                assert_eq!(decide(&format!("{first} > src/main.rs")), Decision::Ask, "{line}");
            }
            for other in ["touch x", "ls && touch x"] {
                assert_eq!(decide(other), Decision::Ask, "{other} {rule:?}");
            }
            let redirected = format!("{first} > log");
            let allowed = decide(&redirected) == Decision::Allow;
            assert_eq!(allowed, rule.allow_redirection, "{redirected} {rule:?}");
            // The saved rule means the same.
            let saved = World::new(&[file(Tier::User, &suggested_rule_toml(&rule))]);
            assert!(saved.policy.problems().is_empty(), "{:?}", saved.policy.problems());
            assert_eq!(saved.evaluate(Default, SHELL, line).kind, Decision::Allow);
        }
    }
}

#[test]
fn missing_suggestion_has_a_reason() {
    let world = World::new(&[]);
    let many: Vec<String> = (0..30).map(|part| format!("echo part{part}")).collect();
    for (line, reason) in [
        (format!("{} | sort > out.txt", many.join(" && ")), "it runs 31 commands, but a rule"),
        ("ls $(x) | tee $Y".to_owned(), "known only at run time"),
        ("cat ~/.ssh/id_rsa".to_owned(), "a rule cannot name `~` and patterns"),
    ] {
        assert!(suggested_rules(&world, Default, SHELL, &line).is_empty(), "{line}");
        let output = world.query(Default, SHELL, &line, |query| {
            world.policy.no_rule_reason(query, &Permissions::default())
        });
        assert!(output.contains(reason), "{line}: {output}");
    }
}

#[test]
fn file_tools_are_narrowed_to_paths() {
    let world = World::new(&[]);
    let offered = suggested_rules(&world, Default, "write_file", "src/a [1].rs");
    assert_eq!(format_rules(&offered), ["src/a [[]1[]].rs", "src/**"]);
    let exact = world.policy.with_rule(offered.first().expect("a draft")).expect("a rule");
    for (path, decision) in [("src/a [1].rs", Decision::Allow), ("src/a 1.rs", Decision::Ask)] {
        let policy_decision =
            world.query(Default, "write_file", path, |query| exact.evaluate(query));
        assert_eq!(policy_decision.kind, decision, "{path}");
    }
    let policy_decision =
        world.query(Default, "write_file", "src/a [1].rs", |query| exact.evaluate(query));
    assert_eq!(policy_decision.rule, "always write_file src/a [[]1[]].rs (this session, 3.950)");
    assert!(suggested_rules(&world, Default, "write_file", ".git/config").is_empty());
    assert!(suggested_rules(&world, Default, "write_file", "Cargo.toml").is_empty());
    let blanket = SuggestedRule { tool_name: "write_file".into(), ..SuggestedRule::default() };
    assert!(world.policy.with_rule(&blanket).is_err());
    assert!(matches!(add_to_file("", &blanket), Err(AddRuleError::Refused(_))));
}

#[test]
fn known_server_is_suggested() {
    let mut world = World::new(&[]);
    assert_eq!(suggested_rules(&world, Default, "mcp_git_push", "").len(), 1);
    world.environment.server = Some("git");
    let offered = suggested_rules(&world, Default, "mcp_git_push", "");
    let servers: Vec<_> = offered.iter().map(|rule| rule.mcp_name.as_deref()).collect();
    assert_eq!(servers, [None, Some("git")]);
    assert_eq!(offered.first().expect("one").modes, [Default, AutoEdit, Yolo]);
}

#[test]
fn disabled_always_allow_offers_no_rule() {
    let options = PolicyOptions {
        disable_always_allow: true,
        files: vec![file(
            Tier::User,
            "[[rule]]\ntoolName = \"web_fetch\"\ndecision = \"allow\"\npriority = 950",
        )],
        ..PolicyOptions::default()
    };
    let world = World::with(&options);
    assert!(suggested_rules(&world, Default, "mcp_git_push", "").is_empty());
    assert_eq!(world.evaluate(Default, "web_fetch", "").kind, Decision::Ask);
    let rule = SuggestedRule { tool_name: "web_fetch".into(), ..SuggestedRule::default() };
    assert!(Policy::new(&options).with_rule(&rule).is_err());
}

#[test]
fn protected_path_can_only_be_allowed_once() {
    let world = World::new(&[]);
    let offered = |mode, path: &str| {
        let write = vec![path.into()];
        let file_system = FilePermissions { read: vec![], write };
        let permissions = Permissions { file_system, ..Permissions::default() };
        let line = "git remote add x y";
        world
            .query(mode, SHELL, line, |query| world.policy.suggested_rules(query, &permissions))
            .len()
    };
    assert_eq!(offered(Default, "/w/.git/config"), 0);
    assert_eq!(offered(AutoEdit, "/w/.vscode/tasks.json"), 0);
    assert_eq!(offered(Yolo, "/home/u/.bashrc"), 0);
    assert!(offered(Default, "/data/x") > 0 && offered(Yolo, "/data/x") > 0);
}

#[test]
fn existing_rule_file_content_is_preserved() {
    let rule = SuggestedRule {
        tool_name: SHELL.into(),
        command_prefix: vec!["cargo test".into(), "echo 'a \"b\"\\'".into()],
        allow_redirection: true,
        permissions: Permissions {
            network: true,
            file_system: FilePermissions { read: vec![], write: vec!["/data/x".into()] },
            ..Permissions::default()
        },
        modes: vec![Default, AutoEdit],
        ..SuggestedRule::default()
    };
    assert_eq!(
        suggested_rule_toml(&rule),
        "[[rule]]\n\
         name = \"always cargo test, echo 'a \\\"b\\\"\\\\'\"\n\
         toolName = \"run_shell_command\"\n\
         commandPrefix = [\"cargo test\", \"echo 'a \\\"b\\\"\\\\'\"]\n\
         allowRedirection = true\n\
         permissions = { network = true, fileSystem = { write = [\"/data/x\"] } }\n\
         modes = [\"default\", \"autoEdit\"]\n\
         decision = \"allow\"\n\
         priority = 950\n"
    );
    let existing = "# mine\n[[rule]]\ntoolName = \"glob\"\ndecision = \"deny\"\npriority = 1";
    let added = add_to_file(existing, &rule).expect("added");
    assert!(added.starts_with(existing) && added.ends_with(&suggested_rule_toml(&rule)));
    assert_eq!(add_to_file(&added, &rule).expect("the same"), added);
    let renamed = added.replace("always cargo", "my cargo");
    assert_eq!(add_to_file(&renamed, &rule).expect("the same"), renamed);
    assert!(matches!(add_to_file("[[rule", &rule), Err(AddRuleError::Corrupt(_))));
    assert!(matches!(add_to_file("rule = 3", &rule), Err(AddRuleError::Corrupt(_))));
    let world = World::new(&[file(Tier::User, &added)]);
    assert!(world.policy.problems().is_empty());
    let policy_decision = world.evaluate(Default, SHELL, "cargo test > log");
    assert_eq!(policy_decision.kind, Decision::Allow);
    assert_eq!(policy_decision.grants, rule.permissions);
}
