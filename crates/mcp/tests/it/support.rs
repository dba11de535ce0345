//! A set of servers in a temporary directory.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parallax_config::mcp::{McpServer, McpSource};
use parallax_exec::Processes;
use parallax_exec::environment::Redaction;
use parallax_http::ClientOptions;
use parallax_mcp::{Sampling, SchemaFormat, Servers, ServersOptions, UserRequestHandler};
use parallax_protocol::CancellationToken;
use parallax_protocol::ids::CallId;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::tool::{
    NoProgress, PrepareContext, Progress, RunContext, Tool, ToolResult, ToolSource,
};
use serde_json::{Value, json};

pub struct World {
    pub folder: tempfile::TempDir,
    pub servers: Servers,
    pub processes: Processes,
}

impl World {
    pub fn new(r#do: &str, asker: Option<Arc<dyn UserRequestHandler>>) -> Self {
        Self::with_model(r#do, asker, None)
    }

    /// Like [`Self::new`], with a model that answers for servers.
    pub fn with_model(
        r#do: &str,
        asker: Option<Arc<dyn UserRequestHandler>>,
        sampling: Option<Sampling>,
    ) -> Self {
        Self::start_servers(r#do, &json!({}), asker, sampling, None)
    }

    /// Like [`Self::with_model`], with a timeout in milliseconds.
    pub fn start(
        r#do: &str,
        timeout: u64,
        asker: Option<Arc<dyn UserRequestHandler>>,
        sampling: Option<Sampling>,
    ) -> Self {
        Self::start_servers(r#do, &json!({"timeout": timeout}), asker, sampling, None)
    }

    /// Creates servers with additional settings and a token limit for tool declarations.
    pub fn start_servers(
        r#do: &str,
        more: &Value,
        prompter: Option<Arc<dyn UserRequestHandler>>,
        sampling: Option<Sampling>,
        tool_budget: Option<u64>,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/mcp/server.py");
        let script = script.canonicalize().expect("the server");
        let log = folder.path().join("log");
        let mut value = json!({"command": "python3", "args": [script, "--do", r#do, "--log", log]});
        let fields = value.as_object_mut().expect("an object");
        fields.extend(more.as_object().cloned().expect("an object"));
        let server = McpServer::read("s", &value, McpSource::User).expect("a server");
        let processes = Processes::new(folder.path().join("processes"));
        let root = folder.path().to_owned();
        let servers = Servers::new(ServersOptions {
            servers: vec![server],
            home: folder.path().join("home"),
            tokens_of_others: Vec::new(),
            keychain: parallax_keychain::Keychain::default(),
            directory: folder.path().to_owned(),
            variables: std::env::vars_os().collect(),
            redaction: Redaction::default(),
            processes: processes.clone(),
            sandboxed: false,
            confine: Arc::new(|_, _| Err("the tests confine nothing".to_owned())),
            watch: None,
            http: ClientOptions::default(),
            roots: Arc::new(move || vec![root.clone()]),
            prompter,
            sampling,
            lazy: true,
            first_wait: Duration::from_secs(20),
            schemas: SchemaFormat::Verbatim,
            longest_text: 40_000,
            tool_budget: Arc::new(move || tool_budget),
            observer: None,
        });
        Self { folder, servers, processes }
    }

    /// Starts the server and waits for it.
    pub async fn started(r#do: &str) -> Self {
        let world = Self::new(r#do, None);
        world.servers.connect("s").await.expect("connected");
        world
    }

    pub fn names(&self) -> Vec<String> {
        self.servers.tools().iter().map(|tool| tool.spec().name.clone()).collect()
    }

    fn tool(&self, name: &str) -> Arc<dyn Tool> {
        let tools = self.servers.tools();
        tools.into_iter().find(|tool| tool.spec().name == name).expect("the tool")
    }

    pub async fn call(&self, tool: &str, args: Value) -> ToolResult {
        self.call_with(tool, args, Arc::new(NoProgress)).await
    }

    pub async fn call_with(
        &self,
        tool: &str,
        args: Value,
        progress: Arc<dyn Progress>,
    ) -> ToolResult {
        let scope = PrepareContext {
            call: CallId::new("c"),
            name: tool.to_owned(),
            mode: ApprovalMode::Default,
            interactive: true,
        };
        let args = args.as_object().cloned().expect("an object");
        match self.tool(tool).prepare(args, &scope) {
            Ok(call) => call.run(RunContext::new(CancellationToken::new(), progress)).await,
            Err(error) => ToolResult::failure(error),
        }
    }

    pub async fn end(self) {
        self.servers.close().await;
        self.processes.shutdown().await;
    }
}
