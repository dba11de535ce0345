//! Tools that a user-configured command lists and another one runs (`tools.discoveryCommand`,
//! `tools.callCommand`).

mod declarations;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parallax_exec::{MAX_PIPED_OUTPUT, PipedCommand, PipedOutput, ProcessExit, Processes};
use parallax_protocol::checkpoint::WriteScope;
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::tool::{
    Concurrency, Display, Effects, Invocation, PrepareContext, RunContext, Tool, ToolError,
    ToolErrorKind, ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, CancellationToken, Object};
use parallax_sandbox::{Support, Tier};
use serde_json::json;

use crate::ShellOptions;
use crate::arguments::validate_unchanged;
use crate::run_shell_command::{mounts, prepare_sandbox, write_scope};
use declarations::{Declaration, declarations};

/// Time limit of a call.
const CALL_TIME: Duration = Duration::from_secs(10 * 60);
/// Maximum output of the discovery command in bytes.
const MAX_BYTES: usize = 10 * 1000 * 1000;
/// Time limit of the discovery command.
const DISCOVERY_TIME: Duration = Duration::from_secs(30);
/// The name prefix of such tools.
pub const PREFIX: &str = "discovered_tool_";

/// The two commands and how they run.
#[derive(Clone)]
pub struct Discovery {
    /// `tools.discoveryCommand`, split into words.
    pub discover: Vec<String>,
    /// `tools.callCommand`, split into words.
    pub call: Vec<String>,
    /// The working directory of both: the project.
    pub directory: PathBuf,
    /// The environment and sandbox of commands.
    pub shell: ShellOptions,
    /// The processes of the session.
    pub processes: Processes,
    /// Whether output on stderr is a failure even if the exit code is 0.
    pub strict: bool,
}

impl Discovery {
    /// Runs the discovery command. Returns the valid declarations in the format that
    /// [`Self::tools`] reads.
    ///
    /// # Errors
    /// Returns the reason for the user.
    pub async fn ask(
        &self,
        mode: ApprovalMode,
        cancel: &CancellationToken,
    ) -> Result<Vec<u8>, String> {
        let to_error = |reason: String| {
            format!("`tools.discoveryCommand` (`{}`): {reason}", self.discover.join(" "))
        };
        let (end, _) = self
            .run(&self.discover, Vec::new(), (DISCOVERY_TIME, MAX_BYTES + 1), mode, cancel)
            .await
            .map_err(to_error)?;
        match &end.exit {
            Some(ProcessExit::Exited { code: 0 }) => {}
            _ => {
                return Err(to_error(format!(
                    "it failed ({})",
                    describe_end(&end, DISCOVERY_TIME)
                )));
            }
        }
        if end.stdout.len() > MAX_BYTES {
            return Err(to_error("its output is larger than 10 MB".to_owned()));
        }
        declarations::serialize(&declarations(&end.stdout).map_err(to_error)?).map_err(to_error)
    }

    /// Returns the tools of the declarations, in their order.
    ///
    /// # Errors
    /// Returns an error if these are not declarations.
    pub fn tools(self: &Arc<Self>, output: &[u8]) -> Result<Vec<Arc<dyn Tool>>, String> {
        let tool = |declaration| -> Arc<dyn Tool> {
            Arc::new(DiscoveredTool::new(declaration, Arc::clone(self)))
        };
        Ok(declarations(output)?.into_iter().map(tool).collect())
    }

    /// Runs the words as one program, without a shell.
    async fn run(
        &self,
        words: &[String],
        input: Vec<u8>,
        (timeout, max_bytes): (Duration, usize),
        mode: ApprovalMode,
        cancel: &CancellationToken,
    ) -> Result<(PipedOutput, WriteScope), String> {
        let text = format!("exec {}", shell_words::join(words));
        let environment = self.shell.environment().variables;
        let sandbox = self.shell.sandbox.clone().filter(|options| options.enabled);
        let (sandbox, environment, write_scope) = match sandbox {
            None => (None, environment, WriteScope::default()),
            Some(options) => {
                let (text, directory) = (text.clone(), self.directory.clone());
                let prepare_task = tokio::task::spawn_blocking(move || {
                    let roots = [directory.clone()];
                    let none = Permissions::default();
                    let (plan, environment) = prepare_sandbox(
                        &options,
                        &text,
                        &directory,
                        &roots,
                        mode,
                        &none,
                        environment,
                    )?;
                    // Without mounts, existing files are not known to be protected.
                    let tier = Support::probe().map_or(Tier::Nothing, |support| support.tier());
                    let write_scope = write_scope(&plan, mounts(options.tier.max(tier)));
                    Ok::<_, String>((plan, environment, write_scope))
                });
                let (plan, environment, write_scope) =
                    prepare_task.await.map_err(|error| error.to_string())??;
                (Some(plan), environment, write_scope)
            }
        };
        let directory = self.directory.clone();
        let command = PipedCommand {
            text,
            directory,
            environment,
            input,
            timeout,
            max_bytes,
            sandbox,
            allows_background: false,
        };
        let end =
            self.processes.run_piped(command, cancel).await.map_err(|error| error.to_string())?;
        Ok((end, write_scope))
    }
}

/// A tool declared by the discovery command.
struct DiscoveredTool {
    spec: ToolSpec,
    /// The words of the program and the tool's original name.
    command: Vec<String>,
    discovery: Arc<Discovery>,
}

impl DiscoveredTool {
    fn new(declaration: Declaration, discovery: Arc<Discovery>) -> Self {
        let Declaration { name, description, parameters } = declaration;
        let mut command = discovery.call.clone();
        command.push(name.clone());
        let spec = ToolSpec {
            name: format!("{PREFIX}{name}"),
            display_name: name,
            description: format!(
                "{description}\n\nThis tool was discovered in the project. A call runs `{}` with \
                 the arguments as JSON on stdin and returns its output.",
                command.join(" ")
            )
            .trim()
            .to_owned(),
            parameters,
            kind: ToolKind::Other,
            concurrency: Concurrency::Exclusive,
            aliases: Vec::new(),
        };
        Self { spec, command, discovery }
    }
}

impl Tool for DiscoveredTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(
        &self,
        args: Object,
        _scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        // The schema may be arbitrary: the program checks what is not understood here.
        validate_unchanged(&args, &self.spec)?;
        Ok(Box::new(DiscoveredToolCall {
            args,
            command: self.command.clone(),
            effects: Effects {
                runs: vec![shell_words::join(&self.command)],
                directory: Some(self.discovery.directory.clone()),
                ..Effects::default()
            },
            discovery: Arc::clone(&self.discovery),
        }))
    }
}

struct DiscoveredToolCall {
    args: Object,
    command: Vec<String>,
    effects: Effects,
    discovery: Arc<Discovery>,
}

impl Invocation for DiscoveredToolCall {
    fn title(&self) -> String {
        let args = serde_json::to_string(&self.args).unwrap_or_default();
        let args: String = args.chars().take(200).collect();
        format!("Run `{}` with {args}", self.command.join(" "))
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn run(self: Box<Self>, run: RunContext) -> BoxFuture<'static, ToolResult> {
        let Self { args, command, discovery, .. } = *self;
        Box::pin(async move {
            let input = serde_json::to_vec(&args).unwrap_or_default();
            let end = discovery
                .run(&command, input, (CALL_TIME, MAX_PIPED_OUTPUT), run.mode, &run.cancel)
                .await;
            match end {
                Ok((end, write_scope)) => {
                    let longest = discovery.shell.truncate_threshold;
                    ToolResult { write_scope, ..outcome(&end, discovery.strict, longest) }
                }
                Err(reason) => error_result(format!("the call failed to start: {reason}")),
            }
        })
    }
}

fn error_result(message: String) -> ToolResult {
    ToolResult::failure(ToolError::new(ToolErrorKind::DiscoveredToolExecutionError, message))
}

/// Returns the tool result of a call.
fn outcome(end: &PipedOutput, strict: bool, limit: usize) -> ToolResult {
    let text = |bytes: &[u8]| truncate(&String::from_utf8_lossy(bytes), limit);
    let (stdout, stderr) = (text(&end.stdout), text(&end.stderr));
    let complains = strict && !stderr.trim().is_empty();
    let exit = match &end.exit {
        Some(ProcessExit::Exited { code: 0 }) if !complains => {
            return ToolResult {
                data: Some(json!({"exitCode": 0})),
                ..ToolResult::text(stdout.clone()).with_display(Display::text(stdout))
            };
        }
        Some(ProcessExit::Exited { code }) => (code.to_string(), "(none)".to_owned(), "(none)"),
        Some(ProcessExit::Signalled { signal }) => {
            ("(none)".to_owned(), signal.to_string(), "(none)")
        }
        None if end.timed_out => ("(none)".to_owned(), "(none)".to_owned(), "it timed out"),
        None => ("(none)".to_owned(), "(none)".to_owned(), "it was interrupted"),
    };
    let or_empty = |text: String| if text.is_empty() { "(empty)".to_owned() } else { text };
    let (code, signal, error) = exit;
    error_result(format!(
        "Stdout: {}\nStderr: {}\nError: {error}\nExit Code: {code}\nSignal: {signal}",
        or_empty(stdout),
        or_empty(stderr),
    ))
}

/// Returns the beginning of a string; 0 means no limit.
fn truncate(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit).filter(|_| limit > 0) {
        Some((at, _)) => format!("{}\n[… the rest is omitted]", &text[..at]),
        None => text.to_owned(),
    }
}

fn describe_end(end: &PipedOutput, limit: Duration) -> String {
    let complaint = String::from_utf8_lossy(&end.stderr);
    let complaint: String = complaint.trim().chars().take(300).collect();
    let how = match &end.exit {
        Some(ProcessExit::Exited { code }) => format!("exit code {code}"),
        Some(ProcessExit::Signalled { signal }) => format!("signal {signal}"),
        None if end.timed_out => format!("it timed out after {} s", limit.as_secs()),
        None => "it was interrupted".to_owned(),
    };
    if complaint.is_empty() { how } else { format!("{how}: {complaint}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{object, scope};

    fn discovery(directory: &std::path::Path, discover: &[&str], call: &[&str]) -> Arc<Discovery> {
        Arc::new(Discovery {
            discover: discover.iter().map(|word| (*word).to_owned()).collect(),
            call: call.iter().map(|word| (*word).to_owned()).collect(),
            directory: directory.to_owned(),
            shell: ShellOptions::new(directory.join("out"), directory.join("background")),
            processes: Processes::new(directory.join("background")),
            strict: false,
        })
    }

    async fn discover_tools(discovery: &Arc<Discovery>) -> Result<Vec<Arc<dyn Tool>>, String> {
        let output = discovery.ask(ApprovalMode::Default, &CancellationToken::new()).await?;
        discovery.tools(&output)
    }

    async fn run(tool: &dyn Tool, cancel: CancellationToken) -> ToolResult {
        let args = object(json!({"text": "it's $HOME"}));
        let call = tool.prepare(args, &scope("x")).expect("a call");
        call.run(RunContext::new(cancel, Arc::new(parallax_protocol::tool::NoProgress))).await
    }

    #[tokio::test]
    async fn discovered_tools_can_be_called() {
        let directory = tempfile::tempdir().expect("directory");
        std::fs::write(
            directory.path().join("call.sh"),
            "case $1 in echo) cat; echo careful >&2;; fail) echo so; echo bad >&2; exit 3;; \
             *) sleep 60;; esac",
        )
        .expect("written");
        let output = r#"[{"function_declarations":[{"name":"echo","description":"Says it."}]},
            {"name":"fail"},{"name":"hang"}]"#;
        std::fs::write(directory.path().join("tools.json"), output).expect("written");
        let discovery = discovery(directory.path(), &["cat", "tools.json"], &["sh", "call.sh"]);
        let tools = discover_tools(&discovery).await.expect("tools");
        let names: Vec<&str> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
        assert_eq!(names, ["discovered_tool_echo", "discovered_tool_fail", "discovered_tool_hang"]);
        let echoed = run(tools[0].as_ref(), CancellationToken::new()).await;
        assert_eq!(echoed.for_model.output, r#"{"text":"it's $HOME"}"#);
        let failed = run(tools[1].as_ref(), CancellationToken::new()).await.error.expect("failed");
        assert_eq!(failed.kind, ToolErrorKind::DiscoveredToolExecutionError);
        assert!(failed.message.contains("Stdout: so\n") && failed.message.contains("Exit Code: 3"));
        let cancel = CancellationToken::new();
        cancel.cancel();
        let ended = run(tools[2].as_ref(), cancel).await.error.expect("ended");
        assert!(ended.message.contains("interrupted"), "{}", ended.message);
    }

    #[tokio::test]
    async fn stderr_output_fails_the_call_only_if_configured() {
        let end = PipedOutput {
            exit: Some(ProcessExit::Exited { code: 0 }),
            timed_out: false,
            stdout: b"x".to_vec(),
            stderr: b"hm".to_vec(),
        };
        assert!(outcome(&end, false, 0).error.is_none());
        assert!(outcome(&end, true, 0).error.is_some());
    }

    #[tokio::test]
    async fn failed_discovery_names_the_cause() {
        let directory = tempfile::tempdir().expect("directory");
        for (command, part) in [
            (&["sh", "-c", "echo no >&2; exit 4"][..], "exit code 4: no"),
            (&["echo", "{}"][..], "array"),
            (&["no such program"][..], "exit code 127"),
        ] {
            let discovery = discovery(directory.path(), command, &["x"]);
            let reason = discover_tools(&discovery).await.err().expect("failed");
            assert!(reason.contains(part), "{command:?}: {reason}");
        }
    }
}
