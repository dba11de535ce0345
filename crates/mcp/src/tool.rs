//! A tool of a server, as an engine tool.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parallax_config::mcp::Endpoint;
use parallax_protocol::coerce::coerce;
use parallax_protocol::event::Level;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::tool::{
    Concurrency, Effects, Invocation, McpOrigin, PrepareContext, Preview, RunContext, Tool,
    ToolError, ToolErrorKind, ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::untrusted::{sanitize, wrap};
use parallax_protocol::{BoxFuture, Object};
use rmcp::model::{CallToolRequest, CallToolRequestParams};
use serde_json::{Value, json};

use crate::blocks::ResultSource;
use crate::call::RequestOptions;
use crate::catalog::ToolEntry;
use crate::error::McpError;
use crate::names::{display_name, full_name};
use crate::schema_names::{restore_names, sanitize_schema};
use crate::server::Server;
use crate::{bounds, schema, tool_pinning};

/// Maximum characters of the arguments in a title.
const TITLE: usize = 200;
/// Interval at which message floods are checked for.
const LOOK: Duration = Duration::from_millis(500);

pub(crate) struct McpTool {
    spec: ToolSpec,
    origin: McpOrigin,
    tool: Arc<ToolShared>,
}

/// The state that a tool and its calls share.
struct ToolShared {
    server: Arc<Server>,
    entry: ToolEntry,
    hash: String,
    /// The schema as it is declared to the model, and its validator.
    check: OnceLock<(Value, Option<jsonschema::Validator>)>,
}

impl McpTool {
    /// Creates a tool that is declared as `name`.
    pub(crate) fn new(server: Arc<Server>, entry: ToolEntry, name: String) -> Self {
        let of = server.config.name.as_str();
        let full = full_name(of, &entry.name);
        let spec = ToolSpec {
            // Rules that specify server and tool refer to the long name.
            aliases: if full == name { Vec::new() } else { vec![full] },
            name,
            display_name: format!("{} ({of} MCP Server)", entry.name),
            description: sanitize(&entry.description).into_owned(),
            parameters: schema::declared_schema(&entry.schema, server.shared_servers.schemas),
            kind: ToolKind::Other,
            concurrency: Concurrency::Shared,
        };
        let origin = McpOrigin {
            server: of.to_owned(),
            tool: entry.name.clone(),
            annotations: entry.annotations.clone(),
            endpoint: endpoint(&server.config.endpoint),
        };
        let hash = tool_pinning::hash(&entry);
        Self {
            spec,
            origin,
            tool: Arc::new(ToolShared { server, entry, hash, check: OnceLock::new() }),
        }
    }
}

/// Returns how a server is reached: its program or its URL.
fn endpoint(endpoint: &Endpoint) -> Object {
    let fields = match endpoint {
        Endpoint::Stdio { command, args, cwd, .. } => {
            json!({"command": command, "args": args, "cwd": cwd})
        }
        Endpoint::Http { url, .. }
        | Endpoint::Sse { url, .. }
        | Endpoint::HttpThenSse { url, .. } => json!({"url": url}),
    };
    let mut fields = fields.as_object().cloned().unwrap_or_default();
    fields.retain(|_, value| !value.is_null());
    fields
}

impl McpTool {
    /// Returns the name of its server.
    pub(crate) fn server(&self) -> &str {
        &self.origin.server
    }

    /// Returns the size of its declaration in characters.
    pub(crate) fn size(&self) -> usize {
        bounds::size(&self.tool.entry)
    }
}

impl ToolShared {
    fn is_changed(&self) -> bool {
        self.server.shared_servers.pins.has_changed(
            &self.server.config.name,
            &self.entry.name,
            &self.hash,
        )
    }

    fn result_source(&self) -> ResultSource<'_> {
        ResultSource { server: &self.server.config.name, tool: &self.entry.name }
    }

    /// Saves the approved definition.
    async fn save_pin(self: &Arc<Self>, mode: ApprovalMode) {
        // A change that was not reviewed remains a change.
        if mode == ApprovalMode::Yolo && self.is_changed() {
            return;
        }
        let of = Arc::clone(self);
        let save_task = tokio::task::spawn_blocking(move || {
            of.server.shared_servers.pins.save(&of.server.config.name, &of.entry.name, &of.hash);
        });
        // The runtime reports a panic there.
        let _ = save_task.await;
    }

    /// Whether the server still describes the tool as it was declared and approved; `None` if it no
    /// longer has the tool.
    fn is_unchanged(&self) -> Option<bool> {
        let catalog = self.server.catalog();
        let current = catalog.tools.iter().find(|entry| entry.name == self.entry.name)?;
        Some(tool_pinning::hash(current) == self.hash)
    }

    async fn call(self: Arc<Self>, mut arguments: Object, run: RunContext) -> ToolResult {
        restore_names(&self.entry.schema, &mut arguments);
        self.save_pin(run.mode).await;
        // The declared definition may come from an earlier session.
        if let Err(error) = self.server.link().await {
            return self.failure(&error);
        }
        match self.is_unchanged() {
            // In every mode, because this is not the tool that was approved.
            Some(false) => {
                return self.rejected_call(
                    "was not called: its server changed the description. The new description is \
                     declared from now on; call it again if it still fits",
                );
            }
            None => return self.rejected_call("no longer exists"),
            Some(true) => {}
        }
        let request = || {
            let params = CallToolRequestParams::new(self.entry.name.clone())
                .with_arguments(arguments.clone());
            CallToolRequest::new(params).into()
        };
        let bounds = RequestOptions {
            timeout: self.server.config.timeout,
            cancel: run.cancel.clone(),
            progress: Some(Arc::clone(&run.progress)),
        };
        let repeatable = self.entry.hint("readOnlyHint") || self.entry.hint("idempotentHint");
        let (answered, note) = tokio::select! {
            answered = self.server.ask(request, bounds, repeatable) => answered,
            never = self.watch_for_floods(&run) => match never {},
        };
        let mut outcome = match answered {
            Ok(result) => self.result_source().outcome(&result),
            Err(error) => self.failure(&error),
        };
        if let Some(note) = note {
            let text = match &mut outcome.error {
                Some(error) => &mut error.message,
                None => &mut outcome.for_model.output,
            };
            text.push_str(&format!("\n[{note}]"));
        }
        outcome
    }

    /// Notifies the user during a call if the server floods Parallax with messages.
    async fn watch_for_floods(&self, run: &RunContext) -> Infallible {
        loop {
            tokio::time::sleep(LOOK).await;
            if self.server.stderr_tail.take_flood_notice() {
                let name = &self.server.config.name;
                let words =
                    format!("the MCP server `{name}` sends too many messages and is throttled");
                run.progress.notice(Level::Warning, &words);
                // Once per call.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Creates the failure for a call that was not made. The text does not come from the server.
    fn rejected_call(&self, reason: &str) -> ToolResult {
        let (tool, server) = (display_name(&self.entry.name), &self.server.config.name);
        let words = format!("The tool `{tool}` of the MCP server `{server}` {reason}.");
        ToolResult::failure(ToolError::new(ToolErrorKind::McpToolError, words))
    }

    fn failure(&self, error: &McpError) -> ToolResult {
        let name = &self.server.config.name;
        let words = match error {
            McpError::Server { code, message } => {
                return self.result_source().error(&format!("{message} (error {code})"));
            }
            McpError::SignIn { is_renewal } => format!(
                "The MCP server `{name}` requires authentication{}: ask the user to run \
                 `/mcp auth {name}` in the terminal, or `parallax mcp auth {name}`",
                if *is_renewal { " again (the last sign-in is no longer valid)" } else { "" }
            ),
            McpError::Cancelled => "The call was cancelled by the user".to_owned(),
            other => self.server.failure(other),
        };
        ToolResult::failure(ToolError::new(ToolErrorKind::McpToolError, words))
    }
}

impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn mcp_origin(&self) -> Option<&McpOrigin> {
        Some(&self.origin)
    }

    fn approval_reason(&self) -> Option<String> {
        self.tool.is_changed().then(|| {
            format!(
                "the MCP server `{}` changed the description of its tool `{}` since it was last \
                 allowed",
                self.origin.server,
                display_name(&self.origin.tool)
            )
        })
    }

    fn prepare(
        &self,
        args: Object,
        _scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let (schema, check) = self.tool.check.get_or_init(|| {
            let mut schema = self.tool.entry.schema.clone();
            sanitize_schema(&mut schema);
            let check = schema::validator(&schema);
            (schema, check)
        });
        let mut value = Value::Object(args);
        coerce(&mut value, schema);
        if let Some(check) = check {
            let problems: Vec<String> = check
                .iter_errors(&value)
                .take(5)
                .map(|error| match error.instance_path().to_string().as_str() {
                    "" => error.to_string(),
                    path => format!("{path}: {error}"),
                })
                .collect();
            if !problems.is_empty() {
                // The problems quote the server's schema.
                let problems: String = problems.join("\n").chars().take(2_000).collect();
                let message = format!(
                    "The arguments do not match the schema of the tool:\n{}",
                    wrap(&problems)
                );
                return Err(ToolError::new(ToolErrorKind::InvalidToolParams, message));
            }
        }
        let arguments = value.as_object_mut().map(std::mem::take).unwrap_or_default();
        let tool = Arc::clone(&self.tool);
        let reads = self.origin.annotations.get("readOnlyHint") == Some(&Value::Bool(true));
        let is_here = matches!(tool.server.config.endpoint, Endpoint::Stdio { .. });
        let effects = Effects { may_change_files: is_here && !reads, ..Effects::default() };
        Ok(Box::new(McpCall { tool, arguments, effects }))
    }
}

struct McpCall {
    tool: Arc<ToolShared>,
    arguments: Object,
    effects: Effects,
}

impl Invocation for McpCall {
    fn title(&self) -> String {
        let of = &self.tool;
        let arguments = Value::Object(self.arguments.clone()).to_string();
        let arguments: String = arguments.chars().take(TITLE).collect();
        format!("{} ({} MCP Server) {arguments}", of.entry.name, of.server.config.name)
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn preview(&self) -> Option<Preview> {
        Some(Preview::Mcp {
            server: self.tool.server.config.name.clone(),
            tool: self.tool.entry.name.clone(),
            description: self.tool.entry.description.clone(),
            arguments: self.arguments.clone(),
        })
    }

    fn run(self: Box<Self>, run: RunContext) -> BoxFuture<'static, ToolResult> {
        Box::pin(self.tool.call(self.arguments, run))
    }
}
