//! How long one decision takes. The aim is below 50 µs.

use std::path::PathBuf;

use parallax_policy::{Policy, PolicyOptions};
use parallax_protocol::Object;
use parallax_protocol::policy::{ApprovalMode, Judge, Query};
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
    let workspace = [PathBuf::from("/home/somebody/project")];
    bencher.bench_local(|| {
        policy.judge(&Query {
            tool: "run_shell_command",
            aliases: &[],
            kind: ToolKind::Execute,
            args: &args,
            effects: &effects,
            mode: ApprovalMode::Default,
            interactive: false,
            workspace: &workspace,
            trusted: true,
        })
    });
}
