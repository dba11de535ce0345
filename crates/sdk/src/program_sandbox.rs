//! The sandbox around the whole program: which one a session requests, and the command line that
//! starts it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use parallax_exec::container::{self, ContainerRequest};
use parallax_exec::program_sandbox::{CommandLine, Engine, ProgramSandbox, ProgramSandboxError};
use parallax_exec::seatbelt::{self, Profile, SandboxPaths};
use parallax_exec::{ProcessExit, container::ContainerPlan};
use parallax_protocol::event::{Failure, FailureKind};

use crate::session_config::{SessionConfig, failure};

/// The sandboxed program, ready to start.
#[derive(Debug)]
pub struct SandboxedProgram(SandboxedProgramKind);

#[derive(Debug)]
enum SandboxedProgramKind {
    Container(ContainerPlan),
    Seatbelt { line: CommandLine, terminal: bool },
}

impl SandboxedProgram {
    /// Starts the program and waits for it. Returns the exit code, or 128 plus the signal number.
    /// Must be called on a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if it cannot be started.
    pub async fn run(&self) -> Result<u8, Failure> {
        let exit = match &self.0 {
            SandboxedProgramKind::Container(plan) => container::run(plan).await,
            SandboxedProgramKind::Seatbelt { line, terminal } => {
                seatbelt::run(line, *terminal).await
            }
        };
        Ok(match exit.map_err(|error| sandbox_failure(&error))? {
            ProcessExit::Exited { code } => u8::try_from(code).unwrap_or(1),
            ProcessExit::Signalled { signal } => {
                u8::try_from(signal.saturating_add(128)).unwrap_or(255)
            }
        })
    }
}

fn sandbox_failure(error: &ProgramSandboxError) -> Failure {
    failure(FailureKind::Sandbox, error.to_string())
}

/// Returns the requested sandbox if the program is not in it yet. `arguments` are those of this
/// process without its name; `terminal` is whether stdin is one.
///
/// # Errors
/// Returns an error if the sandbox is not available.
pub fn sandboxed_program(
    launch: &SessionConfig,
    arguments: Vec<OsString>,
    terminal: bool,
) -> Result<Option<SandboxedProgram>, Failure> {
    let kind = match launch.sandbox {
        ProgramSandbox::Unspecified | ProgramSandbox::Off | ProgramSandbox::BuiltIn => {
            return Ok(None);
        }
        ProgramSandbox::Container(engine) => container(launch, engine, arguments, terminal),
        ProgramSandbox::Seatbelt => seatbelt(launch, &arguments, terminal),
    };
    kind.map(|kind| Some(SandboxedProgram(kind))).map_err(|error| sandbox_failure(&error))
}

fn container(
    launch: &SessionConfig,
    engine: Engine,
    arguments: Vec<OsString>,
    terminal: bool,
) -> Result<SandboxedProgramKind, ProgramSandboxError> {
    let settings = launch.config.settings.program_sandbox();
    let dirs = &launch.config.dirs;
    // Directories created by the container engine would belong to root.
    container::WRITABLE_DIRECTORIES
        .iter()
        .try_for_each(|name| parallax_exec::create_private_folder(&dirs.parallax.join(name)))
        .map_err(|source| ProgramSandboxError::Start { program: engine.program(), source })?;
    let variables =
        launch.options.variables.iter().filter_map(|(name, value)| {
            Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))
        });
    let mut request = ContainerRequest {
        engine,
        binary: own_binary(engine.program())?,
        arguments,
        directory: launch.options.directory.clone(),
        home: dirs.user.clone(),
        gemini: dirs.gemini.clone(),
        parallax: dirs.parallax.clone(),
        temporary: resolve_links(&std::env::temp_dir()),
        variables: variables.collect(),
        existing: Vec::new(),
        image: settings.image,
        allowed_paths: expand_paths(launch, &settings.allowed_paths),
        network: settings.network,
        user: None,
        terminal,
        name: format!("parallax-sandbox-{}", std::process::id()),
    };
    request.user = container::own_user(&request.variables);
    request.existing = request.candidates().into_iter().filter(|path| path.exists()).collect();
    Ok(SandboxedProgramKind::Container(container::plan(&request)?))
}

fn seatbelt(
    launch: &SessionConfig,
    arguments: &[OsString],
    terminal: bool,
) -> Result<SandboxedProgramKind, ProgramSandboxError> {
    let config = &launch.config;
    if config.user_variable("GEMINI_SANDBOX_PROXY_COMMAND").is_some() {
        return Err(ProgramSandboxError::Setting {
            name: "GEMINI_SANDBOX_PROXY_COMMAND",
            reason: "proxies are supported only with containers; use `--sandbox=docker`".to_owned(),
        });
    }
    let binary = own_binary("sandbox-exec")?;
    let user = &config.dirs.user;
    let target = resolve_links(&launch.options.directory);
    let mut include = config.settings.include_directories();
    include.extend(launch.options.include_directories.iter().cloned());
    let paths = SandboxPaths {
        temporary: resolve_links(&std::env::temp_dir()),
        home: user.clone(),
        cache: user.join("Library/Caches"),
        parallax: config.dirs.parallax.clone(),
        readable: vec![binary.clone()],
        include: expand_paths(launch, &include).iter().map(|path| resolve_links(path)).collect(),
        hidden: expand_paths(launch, &config.settings.sandbox().hidden),
        read_only: [".git/hooks", ".gemini", ".parallax"].map(|name| target.join(name)).to_vec(),
        target,
    };
    let name = config.user_variable("SEATBELT_PROFILE").unwrap_or("permissive-open");
    let text = match Profile::parse(name) {
        Some(profile) => seatbelt::profile_text(profile, &paths),
        None => own_profile(launch, name)?,
    };
    let line = seatbelt::command_line(&text, &paths, &binary, arguments);
    Ok(SandboxedProgramKind::Seatbelt { line, terminal })
}

/// Reads a profile of the user. A project's profile is not used, because a project must not
/// control its own sandbox.
fn own_profile(launch: &SessionConfig, name: &str) -> Result<String, ProgramSandboxError> {
    let profile_error =
        |reason: String| ProgramSandboxError::Setting { name: "SEATBELT_PROFILE", reason };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if name.is_empty() || !name.bytes().all(plain) {
        return Err(profile_error(format!("invalid profile name `{name}`")));
    }
    let file = format!("sandbox-macos-{name}.sb");
    let dirs = [&launch.config.dirs.parallax, &launch.config.dirs.gemini];
    match dirs.map(|home| home.join(&file)).iter().find(|path| path.is_file()) {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| profile_error(format!("`{}`: {error}", path.display()))),
        None => Err(profile_error(format!("`{file}` not found in `~/.parallax` or `~/.gemini`"))),
    }
}

fn expand_paths(launch: &SessionConfig, paths: &[PathBuf]) -> Vec<PathBuf> {
    paths.iter().map(|path| launch.config.expand_home(path)).collect()
}

fn own_binary(program: &'static str) -> Result<PathBuf, ProgramSandboxError> {
    std::env::current_exe().map_err(|source| ProgramSandboxError::Start { program, source })
}

fn resolve_links(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
