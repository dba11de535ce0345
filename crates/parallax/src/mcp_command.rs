//! `parallax mcp`: lists and changes MCP servers.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use parallax_config::mcp::{
    EditResult, EnablementFiles, Endpoint, McpScope, McpServer, McpSource, StartBlock, add_server,
    is_same_name, remove_server, scope_file,
};
use parallax_headless::{ExitCode, OutputFormat, json_document, one_line};
use parallax_protocol::Object;
use parallax_protocol::code_text::code_text;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_sdk::{LaunchOptions, McpProbe, ProbeState, SessionConfig};
use serde_json::{Value, json};

use crate::command_result::input_failure;
use crate::extension_commands::{enable_log, launch_options, prepare};
use crate::mcp_arguments::{AddArguments, McpAction};
use crate::mcp_sign_in::SignInTerminal;

/// Runs the subcommand, prints its result, and returns the exit code. Must run on a runtime.
///
/// # Errors
/// Returns an error if arguments are invalid or settings cannot be read or written.
pub(crate) async fn run(action: McpAction) -> Result<ExitCode, Failure> {
    match action {
        McpAction::Add { words } => match AddArguments::read(&words) {
            Ok(add) => {
                if add.debug {
                    enable_log();
                }
                write(&add.name, add.scope, &object(&add)?)
            }
            Err(error) if !error.use_stderr() => Ok(print_text(&error.to_string())),
            Err(error) => {
                Err(input_failure(error.to_string().trim_start_matches("error: ").to_owned()))
            }
        },
        McpAction::AddJson { name, json, scope } => {
            let value: Value = serde_json::from_str(&json)
                .map_err(|error| input_failure(format!("Invalid JSON: {error}")))?;
            let server = value
                .as_object()
                .ok_or_else(|| input_failure("The server must be a JSON object".to_owned()))?;
            write(&name, scope, server)
        }
        McpAction::Remove { name, scope } => remove(&name, scope),
        McpAction::Get { name, json } => get(&name, json),
        McpAction::List { json } => list(json).await,
        McpAction::Enable { name, session } => set_enabled(&name, session, true),
        McpAction::Disable { name, session } => set_enabled(&name, session, false),
        McpAction::Auth { name, forget, no_browser } => auth(&name, forget, no_browser).await,
    }
}

/// Returns the format in which failures are printed.
pub(crate) fn format(action: &McpAction) -> OutputFormat {
    match action {
        McpAction::List { json: true } | McpAction::Get { json: true, .. } => OutputFormat::Json,
        _ => OutputFormat::Text,
    }
}

fn launch() -> Result<SessionConfig, Failure> {
    // Sandboxed servers are tested in the sandbox in which they will run.
    prepare(LaunchOptions { calls_sandbox_main: true, ..launch_options()? })
}

/// Prepares the configuration of a session for commands that start no servers, without warnings
/// about other settings.
fn prepare_without_warnings() -> Result<SessionConfig, Failure> {
    SessionConfig::prepare(launch_options()?)
}

/// Returns the transport of a server in the format of the settings.
fn transport(server: &Object) -> &str {
    let type_from_url =
        || ["httpUrl", "url"].iter().find(|key| server.contains_key(**key)).map(|_| "http");
    server.get("type").and_then(Value::as_str).or_else(type_from_url).unwrap_or("stdio")
}

/// Returns the object of a server in the format of the settings.
fn object(add: &AddArguments) -> Result<Object, Failure> {
    let mut fields = Object::new();
    let mut set = |key: &str, value: Value| {
        fields.insert(key.to_owned(), value);
    };
    if add.transport == "stdio" {
        if ["http://", "https://"].iter().any(|start| add.command_or_url.starts_with(start)) {
            return Err(input_failure(format!(
                "`{}` is a URL, not a program; use `--transport http` or `--transport sse`",
                one_line(&add.command_or_url)
            )));
        }
        set("command", json!(add.command_or_url));
        if !add.args.is_empty() {
            set("args", json!(add.args));
        }
        if !add.env.is_empty() {
            set("env", Value::Object(pairs(&add.env, '=', "--env NAME=value")?));
        }
        if let Some(cwd) = &add.cwd {
            set("cwd", json!(cwd.to_string_lossy()));
        }
        if !add.header.is_empty() {
            return Err(input_failure(
                "`--header` requires `--transport http` or `--transport sse`".to_owned(),
            ));
        }
    } else {
        if !add.args.is_empty() {
            let words = add.args.join(" ");
            return Err(input_failure(format!(
                "A server with a URL takes no arguments: `{words}`"
            )));
        }
        if !add.env.is_empty() || add.cwd.is_some() {
            return Err(input_failure("`--env` and `--cwd` apply only to programs".to_owned()));
        }
        set("url", json!(add.command_or_url));
        set("type", json!(add.transport));
        if !add.header.is_empty() {
            set("headers", Value::Object(pairs(&add.header, ':', "--header \"Name: value\"")?));
        }
    }
    if let Some(timeout) = add.timeout {
        set("timeout", json!(timeout));
    }
    if add.trust {
        set("trust", json!(true));
    }
    if let Some(description) = &add.description {
        set("description", json!(description));
    }
    if !add.include_tools.is_empty() {
        set("includeTools", json!(add.include_tools));
    }
    if !add.exclude_tools.is_empty() {
        set("excludeTools", json!(add.exclude_tools));
    }
    Ok(fields)
}

/// Parses `NAME=value` strings, split at the first `separator`.
fn pairs(texts: &[String], separator: char, form: &str) -> Result<Object, Failure> {
    let pair = |text: &String| {
        let (name, value) =
            text.split_once(separator).filter(|(name, _)| !name.trim().is_empty()).ok_or_else(
                || input_failure(format!("`{}` must have the form `{form}`", one_line(text))),
            )?;
        Ok((name.trim().to_owned(), json!(if separator == ':' { value.trim() } else { value })))
    };
    texts.iter().map(pair).collect()
}

fn write(name: &str, scope: McpScope, server: &Object) -> Result<ExitCode, Failure> {
    if name.starts_with('-') {
        return Err(input_failure(format!(
            "Invalid server name `{}`: it must not begin with `-`",
            one_line(name)
        )));
    }
    McpServer::read(name, &Value::Object(server.clone()), McpSource::User)
        .map_err(|error| input_failure(error.to_string()))?;
    let launch = prepare_without_warnings()?;
    let file =
        scope_file(scope, &launch.config().dirs, launch.directory(), name).ok_or_else(|| {
            input_failure("The home directory is not a project; use `--scope user`".to_owned())
        })?;
    let edited = add_server(&file, name, server).map_err(|error| config_failure(&error))?;
    let verb = if edited == EditResult::Updated { "updated in" } else { "added to" };
    let mut text = format!(
        "MCP server \"{}\" {verb} {} settings. ({})\n",
        one_line(name),
        scope_name(scope),
        transport(server)
    );
    if scope == McpScope::Project && server.get("trust") == Some(&Value::Bool(true)) {
        text.push_str(
            "Its `trust` takes effect after you accept the project's settings: `parallax trust \
             add --settings`.\n",
        );
    }
    let settings = launch.mcp_manager().servers();
    if let Some(existing) =
        settings.servers.iter().find(|it| it.name == name && it.source == McpSource::User)
        && scope == McpScope::Project
    {
        let _ = writeln!(
            text,
            "The user settings also have a server \"{}\", which takes precedence over the \
             project's.",
            one_line(&existing.name)
        );
    }
    Ok(print_text(&text))
}

fn remove(name: &str, scope: McpScope) -> Result<ExitCode, Failure> {
    let launch = prepare_without_warnings()?;
    let file = scope_file(scope, &launch.config().dirs, launch.directory(), name);
    let edited = match &file {
        Some(file) => remove_server(file, name).map_err(|error| config_failure(&error))?,
        None => EditResult::NotFound,
    };
    let left = if edited == EditResult::Removed { prepare_without_warnings()? } else { launch };
    let unread = left.mcp_manager().ignored_servers();
    let unread = unread.into_iter().filter(|(it, _)| it == name).map(|(_, file)| file);
    let unread: Vec<_> = unread.collect();
    let left = settings_files(&left, name);
    let name = one_line(name);
    let mut text = match edited {
        EditResult::Removed => {
            format!("Server \"{name}\" removed from {} settings.\n", scope_name(scope))
        }
        _ => format!("Server \"{name}\" not found in {} settings.\n", scope_name(scope)),
    };
    if !left.is_empty() {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "It is still configured in {}. Remove it there, or disable it with `parallax mcp \
             disable {name}`.",
            left.join(" and in ")
        );
    }
    for file in unread {
        let _ = writeln!(
            text,
            "It is still configured in `{}`, which is ignored because the folder is not trusted. \
             Remove it there.",
            one_line(&file.display().to_string())
        );
    }
    Ok(print_text(&text))
}

/// Returns the settings files that contain a server, for display.
fn settings_files(launch: &SessionConfig, name: &str) -> Vec<String> {
    let found = launch.mcp_manager().servers();
    let Some(server) = found.servers.iter().find(|server| server.name == name) else {
        return Vec::new();
    };
    let files = launch.mcp_manager().files_of(name).into_iter();
    let mut locations: Vec<String> =
        files.map(|file| format!("`{}`", one_line(&file.display().to_string()))).collect();
    if locations.is_empty() {
        locations.push(source(&server.source));
    }
    locations
}

fn scope_name(scope: McpScope) -> &'static str {
    match scope {
        McpScope::User => "user",
        McpScope::Project => "project",
    }
}

fn find(launch: &SessionConfig, name: &str) -> Result<McpServer, Failure> {
    let found = launch.mcp_manager().servers();
    found.servers.into_iter().find(|server| is_same_name(name, &server.name)).ok_or_else(|| {
        input_failure(format!(
            "Unknown MCP server `{}`. Run `parallax mcp list` to list the servers.",
            one_line(name)
        ))
    })
}

/// Signs in, or deletes stored credentials.
///
/// # Errors
/// Returns an error if the server is unknown or the sign-in fails.
async fn auth(name: &str, forget: bool, no_browser: bool) -> Result<ExitCode, Failure> {
    let launch = launch()?;
    let server = find(&launch, name)?;
    let name = one_line(&server.name);
    let files = launch.mcp_manager().token_files();
    if forget {
        let forgotten = files.delete(&server.name);
        let forgotten = forgotten
            .map_err(|error| input_failure(format!("Failed to delete the tokens: {error}")))?;
        return Ok(print_text(&match forgotten {
            true => format!("Signed out of \"{name}\".\n"),
            false => format!("Not signed in to \"{name}\".\n"),
        }));
    }
    if server.start_block == StartBlock::Untrusted {
        return Err(input_failure("The folder is not trusted (see `parallax trust`)".to_owned()));
    }
    let port = launch.mcp_manager().oauth_port();
    let terminal =
        SignInTerminal { no_browser: no_browser || launch.mcp_manager().without_browser() };
    parallax_mcp::sign_in(&server, &files, port, &launch.client_options(), &terminal)
        .await
        .map_err(|reason| input_failure(format!("Failed to sign in to `{name}`: {reason}")))?;
    Ok(print_text(&format!("Signed in to \"{name}\".\n")))
}

fn get(name: &str, json: bool) -> Result<ExitCode, Failure> {
    let server = find(&launch()?, name)?;
    if json {
        return Ok(print_text(&json_document(&server_json(&server))));
    }
    let mut text = format!("{} ({})\n", one_line(&server.name), source(&server.source));
    let _ =
        writeln!(text, "  {}: {}", server.endpoint.kind(), code_text(&server.endpoint.target()));
    for (label, value) in details(&server.endpoint) {
        let _ = writeln!(text, "  {label}: {value}");
    }
    let _ = writeln!(text, "  timeout: {} ms", server.timeout.as_millis());
    if let Some(description) = &server.description {
        let _ = writeln!(text, "  description: {}", one_line(description));
    }
    text.push_str(match server.trust {
        true => "  trust: true (its tools run without approval)\n",
        false => "  trust: false\n",
    });
    for note in &server.notes {
        let _ = writeln!(text, "  {}", one_line(note));
    }
    Ok(print_text(&text))
}

/// Returns what is set of a server besides its program or URL: of variables and headers only the
/// names, because their values may be secrets.
fn details(endpoint: &Endpoint) -> Vec<(&'static str, String)> {
    let label = if endpoint.url().is_some() { "headers" } else { "variables" };
    let names = Some(endpoint.names()).filter(|names| !names.is_empty());
    let names = names.map(|names| (label, code_text(&names.join(", ")).into_owned()));
    let directory = endpoint
        .directory()
        .map(|path| ("directory", code_text(&path.to_string_lossy()).into_owned()));
    directory.into_iter().chain(names).collect()
}

/// Lists only the names of variables and headers, because their values may be secrets.
fn server_json(server: &McpServer) -> Value {
    json!({
        "name": server.name,
        "source": source(&server.source),
        "type": server.endpoint.kind(),
        "target": server.endpoint.target(),
        "directory": server.endpoint.directory(),
        "names": server.endpoint.names(),
        "timeout": u64::try_from(server.timeout.as_millis()).unwrap_or(u64::MAX),
        "trust": server.trust,
        "description": server.description,
        "includeTools": server.include,
        "excludeTools": server.exclude,
        "notes": server.notes,
    })
}

fn source(source: &McpSource) -> String {
    match source {
        McpSource::ConfigFile => "mcp-config.json".to_owned(),
        McpSource::Extension(name) => format!("from {}", one_line(name)),
        McpSource::System => "system settings".to_owned(),
        McpSource::User => "user settings".to_owned(),
        McpSource::Workspace => "project settings".to_owned(),
        McpSource::ServerCommand => "mcp.serverCommand".to_owned(),
    }
}

async fn list(json: bool) -> Result<ExitCode, Failure> {
    let launch = launch()?;
    let (probes, warnings) = launch.mcp_manager().probe().await;
    for warning in &warnings {
        warn(warning);
    }
    // The warnings describe what is wrong with these.
    let unusable = launch.mcp_manager().servers().errors;
    let unread = launch.mcp_manager().ignored_servers();
    if json {
        let unusable = unusable.iter().map(|error| {
            json!({"name": error.name, "status": "unusable", "error": error.reason, "tools": 0})
        });
        let unread = unread.iter().map(|(name, file)| {
            let reason = "the folder is not trusted";
            json!({"name": name, "status": "disabled", "error": reason, "source": file, "tools": 0})
        });
        let list: Vec<Value> =
            probes.iter().map(probe_json).chain(unusable).chain(unread).collect();
        return Ok(print_text(&json_document(&list)));
    }
    if probes.is_empty() && unusable.is_empty() && unread.is_empty() {
        return Ok(print_text("No MCP servers configured.\n"));
    }
    if !launch.is_trusted() {
        warn("The folder is not trusted, so no MCP servers are started (see `parallax trust`)");
    }
    let mut text = "Configured MCP servers:\n\n".to_owned();
    for probe in &probes {
        let server = &probe.server;
        let (marker, state) = describe(probe.state);
        let owner = match &server.source {
            McpSource::Extension(name) => format!(" (from {})", one_line(name)),
            _ => String::new(),
        };
        let _ = writeln!(
            text,
            "{marker} {}{owner}: {} ({}) - {state}",
            one_line(&server.name),
            code_text(&server.endpoint.target()),
            server.endpoint.kind()
        );
        for (label, value) in details(&server.endpoint) {
            let _ = writeln!(text, "    {label}: {value}");
        }
        if let Some(error) = &probe.error {
            let _ = writeln!(text, "    {}", one_line(error));
        }
        if probe.state == ProbeState::NeedsSignIn {
            let name = one_line(&probe.server.name);
            let _ = writeln!(text, "    To sign in, run: parallax mcp auth {name}");
        }
    }
    for error in &unusable {
        let _ = writeln!(text, "✗ {} - Invalid configuration", one_line(&error.name));
        let _ = writeln!(text, "    {}", one_line(&error.reason));
    }
    for (name, file) in &unread {
        let file = file.display().to_string();
        let _ = writeln!(text, "○ {}: in {} - Disabled", one_line(name), one_line(&file));
    }
    Ok(print_text(&text))
}

fn describe(state: ProbeState) -> (&'static str, &'static str) {
    match state {
        ProbeState::Connected => ("✓", "Connected"),
        ProbeState::Disconnected => ("✗", "Disconnected"),
        ProbeState::NeedsSignIn => ("✗", "Authentication required"),
        ProbeState::Disabled => ("○", "Disabled"),
        ProbeState::Blocked => ("⛔", "Blocked"),
    }
}

fn probe_json(probe: &McpProbe) -> Value {
    let mut value = server_json(&probe.server);
    if let Value::Object(fields) = &mut value {
        fields.insert("status".to_owned(), json!(describe(probe.state).1.to_lowercase()));
        fields.insert("error".to_owned(), json!(probe.error));
        fields.insert("tools".to_owned(), json!(probe.tools));
    }
    value
}

fn set_enabled(name: &str, session: bool, on: bool) -> Result<ExitCode, Failure> {
    let verb = if on { "enable" } else { "disable" };
    if session {
        return Err(input_failure(format!(
            "`--session` works only inside a session: use `/mcp {verb} {name} --session` there"
        )));
    }
    let launch = prepare_without_warnings()?;
    let server = find(&launch, name)?;
    let files = EnablementFiles::for_user(&launch.config().dirs);
    files.set(&server.name, on).map_err(|error| config_failure(&error))?;
    let mut text = format!("MCP server \"{}\" {verb}d.\n", one_line(&server.name));
    let blocked = server.start_block == parallax_config::mcp::StartBlock::Blocked;
    if on && blocked {
        text.push_str(
            "It still does not start, because `mcp.allowed` or `mcp.excluded` blocks it.\n",
        );
    }
    Ok(print_text(&text))
}

fn print_text(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode(1),
    }
}

fn warn(text: &str) {
    // A failed write to stderr cannot be reported.
    let _ = writeln!(io::stderr(), "warning: {}", one_line(text));
}

fn config_failure(error: &parallax_config::ConfigError) -> Failure {
    Failure { kind: FailureKind::Config, message: error.to_string(), status: None }
}
