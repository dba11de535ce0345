//! Measures policy decisions. The target is below 50 µs.

use std::path::PathBuf;

use parallax_policy::{Policy, PolicyOptions, RuleFile, Tier};
use parallax_protocol::Object;
use parallax_protocol::policy::{ApprovalMode, Origin, PolicyEngine, Query, Taint};
use parallax_protocol::tool::{Effects, ToolKind};

fn main() {
    divan::main();
}

#[divan::bench(args = ["git status", "grep -rn 'fn main' src | head -5", "cargo test --all && rm -rf target > log"])]
fn shell(bencher: divan::Bencher<'_, '_>, command: &str) {
    let policy = Policy::new(&PolicyOptions {
        allowed: vec!["run_shell_command(git)".into(), "run_shell_command(cargo test)".into()],
        exclude: vec!["run_shell_command(curl)".into(), "web_fetch".into()],
        ..PolicyOptions::default()
    });
    let effects = Effects { runs: vec![command.to_owned()], ..Effects::default() };
    let args = Object::new();
    let workspace = [PathBuf::from("/home/user/project")];
    bencher.bench_local(|| {
        policy.evaluate(&Query {
            tool: "run_shell_command",
            aliases: &[],
            kind: ToolKind::Execute,
            args: &args,
            effects: &effects,
            mode: ApprovalMode::Default,
            interactive: false,
            workspace: &workspace,
            trusted: true,
            created_paths: &[],
            taint: &Taint::default(),
            origin: Origin::default(),
        })
    });
}

/// The cost at every start: the built-in rules and no rule file.
#[divan::bench]
fn load() -> Policy {
    Policy::new(&PolicyOptions::default())
}

/// Loads a file with fifty rules.
#[divan::bench]
fn load_a_file(bencher: divan::Bencher<'_, '_>) {
    let rule = |number: usize| {
        format!(
            "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = [\"tool{number} run\", \"make\"]\n\
             decision = \"allow\"\npriority = 100\nmodes = [\"default\", \"autoEdit\"]\n"
        )
    };
    let file = RuleFile {
        tier: Tier::User,
        path: PathBuf::from("/home/user/.parallax/policies/rules.toml"),
        text: Ok((0..50).map(rule).collect()),
    };
    let options = PolicyOptions { files: vec![file], ..PolicyOptions::default() };
    bencher.bench_local(|| Policy::new(&options));
}
