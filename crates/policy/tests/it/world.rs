//! Queries over a made-up workspace `/w`, with plans in `/plans`.

use std::path::{Path, PathBuf};

use parallax_policy::{BuildFileGuard, Policy, PolicyOptions};
use parallax_protocol::Object;
use parallax_protocol::policy::{ApprovalMode, Judge, Query, Verdict};
use parallax_protocol::tool::{Effects, ToolKind};

#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) mode: ApprovalMode,
    pub(crate) interactive: bool,
    pub(crate) trusted: bool,
    pub(crate) tool: &'a str,
    /// A command, or the file written or read.
    pub(crate) target: &'a str,
}

pub(crate) fn judge(policy: &Policy, ask: Ask<'_>) -> Verdict {
    let mut args = Object::new();
    let mut effects = Effects::default();
    let workspace = [PathBuf::from("/w")];
    let path = || Path::new("/w").join(ask.target);
    let kind = match ask.tool {
        "run_shell_command" => {
            // `dir: command` runs elsewhere.
            let command = match ask.target.split_once("@@") {
                Some((folder, command)) => {
                    args.insert("dir_path".into(), folder.into());
                    command
                }
                None => ask.target,
            };
            // `command => path,path`: what the caller found of its words.
            let (command, reads) = command.split_once(" => ").unwrap_or((command, ""));
            let reads = reads.split(',').filter(|path| !path.is_empty());
            effects.reads.extend(reads.map(PathBuf::from));
            args.insert("command".into(), command.into());
            effects.runs.push(command.into());
            ToolKind::Execute
        }
        "write_file" | "replace" => {
            effects.writes.push(path());
            args.insert("file_path".into(), ask.target.into());
            ToolKind::Edit
        }
        "invoke_agent" => {
            args.insert("agent_name".into(), ask.target.into());
            ToolKind::Agent
        }
        "web_fetch" => ToolKind::Fetch,
        _ => {
            effects.reads.push(path());
            ToolKind::Read
        }
    };
    policy.judge(&Query {
        tool: ask.tool,
        aliases: &[],
        kind,
        args: &args,
        effects: &effects,
        mode: ask.mode,
        interactive: ask.interactive,
        workspace: &workspace,
        trusted: ask.trusted,
    })
}

/// Options from a short text: `exclude=a;b allowed=c core=d confirm=e guard=off`
/// (spaces inside parentheses belong to an entry).
pub(crate) fn policy(text: &str) -> Policy {
    let mut options =
        PolicyOptions { plans_directory: Some("/plans".into()), ..PolicyOptions::default() };
    let mut depth = 0;
    let fields = text.split(|character| {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        character == ' ' && depth == 0
    });
    for field in fields.filter(|field| !field.is_empty()) {
        let (key, value) = field.split_once('=').expect("key=value");
        let list: Vec<String> =
            value.split(';').filter(|entry| !entry.is_empty()).map(str::to_owned).collect();
        match key {
            "exclude" => options.exclude = list,
            "allowed" => options.allowed = list,
            "core" => options.core = Some(list),
            "confirm" => options.confirmation_required = list,
            "guard" => options.build_file_guard = BuildFileGuard::Off,
            other => panic!("unknown option {other}"),
        }
    }
    Policy::new(&options)
}
