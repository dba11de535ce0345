//! Queries for a fictional workspace `/w`, with plans in `/plans`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use parallax_policy::{BuildFileGuard, Policy, PolicyOptions, RuleFile, Tier};
use parallax_protocol::Object;
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{ApprovalMode, Origin, PolicyDecision, PolicyEngine, Query, Taint};
use parallax_protocol::tool::{Effects, ToolKind};

#[derive(Clone, Copy)]
pub(crate) struct TestQuery<'a> {
    pub(crate) mode: ApprovalMode,
    pub(crate) interactive: bool,
    pub(crate) trusted: bool,
    pub(crate) tool: &'a str,
    /// A command, or the file that is written or read.
    pub(crate) target: &'a str,
}

pub(crate) fn evaluate(policy: &Policy, ask: TestQuery<'_>) -> PolicyDecision {
    with_query(ask, &TestEnvironment::default(), |query| policy.evaluate(query))
}

/// Parts of a query that most tests leave empty.
#[derive(Default)]
pub(crate) struct TestEnvironment {
    pub(crate) created_paths: Vec<PathBuf>,
    pub(crate) taint: Taint,
    pub(crate) creates: bool,
    pub(crate) permissions: Permissions,
    pub(crate) server: Option<&'static str>,
    pub(crate) agent: Option<&'static str>,
    pub(crate) annotations: Option<Object>,
    pub(crate) git_aliases: BTreeMap<String, String>,
}

/// Creates a query and passes it to the closure.
pub(crate) fn with_query<T>(
    ask: TestQuery<'_>,
    environment: &TestEnvironment,
    then: impl FnOnce(&Query<'_>) -> T,
) -> T {
    let mut args = Object::new();
    let mut effects =
        Effects { permissions: environment.permissions.clone(), ..Effects::default() };
    let workspace = [PathBuf::from("/w")];
    let path = || {
        let mut out = PathBuf::new();
        for part in Path::new("/w").join(ask.target).components() {
            match part {
                std::path::Component::ParentDir => drop(out.pop()),
                part => out.push(part),
            }
        }
        out
    };
    let kind = match ask.tool {
        "run_shell_command" => {
            // `dir@@command` runs in another directory.
            let command = match ask.target.split_once("@@") {
                Some((folder, command)) => {
                    args.insert("dir_path".into(), folder.into());
                    command
                }
                None => ask.target,
            };
            // `command => path,path`: paths that the caller found for its words.
            let (command, reads) = command.split_once(" => ").unwrap_or((command, ""));
            let reads = reads.split(',').filter(|path| !path.is_empty());
            for read in reads {
                // `path->path`: a link and its target.
                if let Some((link, to)) = read.split_once("->") {
                    effects.links.insert(link.into(), to.into());
                }
                effects.reads.push(read.rsplit("->").next().unwrap_or(read).into());
            }
            args.insert("command".into(), command.into());
            effects.runs.push(command.into());
            effects.git_aliases = environment.git_aliases.clone();
            ToolKind::Execute
        }
        "write_file" | "replace" => {
            effects.writes.push(path());
            if environment.creates {
                effects.creates.push(path());
            }
            args.insert("file_path".into(), ask.target.into());
            ToolKind::Edit
        }
        "invoke_agent" => {
            args.insert("agent_name".into(), ask.target.into());
            ToolKind::Agent
        }
        "web_fetch" => ToolKind::Fetch,
        _ => {
            if !ask.target.is_empty() {
                effects.reads.push(path());
                args.insert("file_path".into(), ask.target.into());
            }
            ToolKind::Read
        }
    };
    then(&Query {
        tool: ask.tool,
        aliases: &[],
        kind,
        args: &args,
        effects: &effects,
        mode: ask.mode,
        interactive: ask.interactive,
        workspace: &workspace,
        trusted: ask.trusted,
        created_paths: &environment.created_paths,
        taint: &environment.taint,
        origin: Origin {
            agent: environment.agent,
            server: environment.server,
            annotations: environment.annotations.as_ref(),
        },
    })
}

/// Returns a rule file `/p/rules.toml`.
pub(crate) fn file(tier: Tier, text: &str) -> RuleFile {
    RuleFile { tier, path: "/p/rules.toml".into(), text: Ok(text.to_owned()) }
}

/// A policy with the context of its calls; a user is available.
pub(crate) struct World {
    pub(crate) policy: Policy,
    pub(crate) environment: TestEnvironment,
}

impl World {
    pub(crate) fn new(files: &[RuleFile]) -> Self {
        Self::with(&PolicyOptions { files: files.to_vec(), ..PolicyOptions::default() })
    }

    pub(crate) fn with(options: &PolicyOptions) -> Self {
        Self { policy: Policy::new(options), environment: TestEnvironment::default() }
    }

    pub(crate) fn evaluate(&self, mode: ApprovalMode, tool: &str, target: &str) -> PolicyDecision {
        self.query(mode, tool, target, |query| self.policy.evaluate(query))
    }

    pub(crate) fn query<T>(
        &self,
        mode: ApprovalMode,
        tool: &str,
        target: &str,
        then: impl FnOnce(&Query<'_>) -> T,
    ) -> T {
        let ask = TestQuery { mode, interactive: true, trusted: true, tool, target };
        with_query(ask, &self.environment, then)
    }
}

/// Parses options from a short text: `exclude=a;b allowed=c core=d confirm=e guard=off` (spaces
/// inside parentheses belong to an entry).
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
