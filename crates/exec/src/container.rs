//! Runs the whole program in a container: the Parallax binary, mounted into any image. A pure
//! function builds the command line, and [`run`] starts it.

mod loader;
mod request;
mod run;

use std::ffi::{OsStr, OsString};
use std::path::Path;

pub use request::{ContainerRequest, Mount};
pub use run::run;
pub(crate) use run::supervise;

use crate::program_sandbox::{CommandLine, Engine, ProgramSandboxError};

/// The path of the Parallax binary in the container.
const BINARY: &str = "/opt/parallax/parallax";
/// The network without external access.
const NETWORK: &str = "gemini-cli-sandbox";
/// The name of the proxy container and of its second network.
const PROXY: &str = "gemini-cli-sandbox-proxy";
/// The port of the proxy.
const PROXY_PORT: u16 = 8877;

/// Variables that are forwarded if set. Only their names appear on the command line, which other
/// users of the host can read.
const FORWARDED_VARIABLES: &[&str] = &[
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_GEMINI_BASE_URL",
    "GOOGLE_VERTEX_BASE_URL",
    "GOOGLE_GENAI_USE_VERTEXAI",
    "GOOGLE_GENAI_USE_GCA",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GEMINI_MODEL",
    "GEMINI_CLI_TRUST_WORKSPACE",
    "GEMINI_CLI_IDE_SERVER_PORT",
    "GEMINI_CLI_IDE_WORKSPACE_PATH",
    "GEMINI_CLI_IDE_AUTH_TOKEN",
    "GEMINI_CLI_SURFACE",
    "TERM_PROGRAM",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
];

/// Directories of `~/.parallax` that the program writes during its work. Everything else is
/// configuration, now or in future versions, which the program in the container must not change.
pub const WRITABLE_DIRECTORIES: &[&str] =
    &["sessions", "checkpoints", "tmp", "inputs", "images", "chats", "logs"];

/// Returns the user and group of this process if the container should run as them: on Linux by
/// default, unless `SANDBOX_SET_UID_GID` says otherwise (a rootless engine already maps root to the
/// user).
pub fn own_user(variables: &[(String, String)]) -> Option<(u32, u32)> {
    let output = variables.iter().find(|(name, _)| name == "SANDBOX_SET_UID_GID");
    let mode = match output.map(|(_, value)| value.to_lowercase()).as_deref() {
        Some("true" | "1") => true,
        Some("false" | "0") => false,
        _ => cfg!(target_os = "linux"),
    };
    mode.then(|| (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw()))
}

/// What to start, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerPlan {
    /// Networks to create if they do not exist: name, and whether the network is internal.
    pub networks: Vec<(&'static str, bool)>,
    /// The command line of the proxy container.
    pub proxy: Option<CommandLine>,
    /// The command line of the program's container.
    pub main: CommandLine,
    /// Whether it uses the terminal.
    pub terminal: bool,
}

/// Builds the command lines for a request.
///
/// # Errors
/// Returns an error if there is no image, or a variable or path cannot be used.
pub fn plan(request: &ContainerRequest) -> Result<ContainerPlan, ProgramSandboxError> {
    let image = request.image().ok_or(ProgramSandboxError::NoImage)?;
    let proxy = request.variable("GEMINI_SANDBOX_PROXY_COMMAND");
    let closed = request.network == Some(false) || proxy.is_some();
    let mut line = LineBuilder::new(request.engine);
    for word in ["run", "-i", "--rm", "--init"] {
        line.push_word(word);
    }
    if request.terminal {
        line.push_word("-t");
    }
    if request.engine == Engine::Runsc {
        line.push_word("--runtime=runsc");
    }
    line.push_pair("--workdir", &request.directory);
    line.push_pair("--entrypoint", "");
    line.push_pair("--name", &request.name);
    line.push_pair("--hostname", &request.name);
    line.map_user(request);
    for word in flags(request)? {
        line.push_word(word);
    }
    line.push_pair("--add-host", "host.docker.internal:host-gateway");
    if closed {
        line.push_pair("--network", NETWORK);
    }
    mounts(request, &mut line)?;
    for port in request.list("SANDBOX_PORTS") {
        if port.parse::<u16>().is_err() {
            let reason = format!("`{port}` is not a port");
            return Err(ProgramSandboxError::Setting { name: "SANDBOX_PORTS", reason });
        }
        line.push_pair("--publish", format!("{port}:{port}"));
    }
    environment(request, proxy.is_some(), &mut line)?;
    line.push_word(image);
    line.push_word(BINARY);
    for argument in &request.arguments {
        line.push_word(argument);
    }
    let mut networks = Vec::new();
    if closed {
        networks.push((NETWORK, true));
    }
    if proxy.is_some() {
        networks.push((PROXY, false));
    }
    Ok(ContainerPlan {
        networks,
        proxy: proxy.map(|command| proxy_line(request, image, command)).transpose()?,
        main: line.finish(),
        terminal: request.terminal,
    })
}

fn proxy_line(
    request: &ContainerRequest,
    image: &str,
    command: &str,
) -> Result<CommandLine, ProgramSandboxError> {
    let mut line = LineBuilder::new(request.engine);
    for word in ["run", "--rm", "--init", "--detach"] {
        line.push_word(word);
    }
    line.map_user(request);
    line.push_pair("--name", PROXY);
    line.push_pair("--network", PROXY);
    line.push_pair("--publish", format!("{PROXY_PORT}:{PROXY_PORT}"));
    line.mount(&request.directory, &request.directory, "rw")?;
    line.push_pair("--workdir", &request.directory);
    line.push_word(image);
    for word in shell_words::split(command).map_err(|reason| ProgramSandboxError::Setting {
        name: "GEMINI_SANDBOX_PROXY_COMMAND",
        reason: reason.to_string(),
    })? {
        line.push_word(word);
    }
    Ok(line.finish())
}

fn flags(request: &ContainerRequest) -> Result<Vec<String>, ProgramSandboxError> {
    let Some(flags) = request.variable("SANDBOX_FLAGS") else { return Ok(Vec::new()) };
    shell_words::split(flags).map_err(|reason| ProgramSandboxError::Setting {
        name: "SANDBOX_FLAGS",
        reason: reason.to_string(),
    })
}

fn mounts(request: &ContainerRequest, line: &mut LineBuilder) -> Result<(), ProgramSandboxError> {
    line.mount(&request.binary, Path::new(BINARY), "ro")?;
    line.mount(&request.directory, &request.directory, "rw")?;
    let existing = |path: &Path| request.existing.iter().any(|known| known == path);
    // This program never writes there, so the program in the container must not either.
    if existing(&request.gemini) {
        line.mount(&request.gemini, &request.gemini, "ro")?;
    }
    line.mount(&request.parallax, &request.parallax, "ro")?;
    for name in WRITABLE_DIRECTORIES {
        let path = request.parallax.join(name);
        line.mount(&path, &path, "rw")?;
    }
    line.mount(&request.temporary, &request.temporary, "rw")?;
    let gcloud = request.home.join(".config/gcloud");
    if existing(&gcloud) {
        line.mount(&gcloud, &gcloud, "ro")?;
    }
    if let Some(file) = request.variable("GOOGLE_APPLICATION_CREDENTIALS").map(Path::new)
        && existing(file)
    {
        line.mount(file, file, "ro")?;
    }
    for mount in request.sandbox_mounts()? {
        if !existing(&mount.from) {
            let reason = format!("`{}` does not exist", mount.from.display());
            return Err(ProgramSandboxError::Setting { name: "SANDBOX_MOUNTS", reason });
        }
        line.mount(&mount.from, &mount.to, &mount.options)?;
    }
    for path in &request.allowed_paths {
        if !path.is_absolute() || !existing(path) {
            let reason = format!("`{}` does not exist or is not absolute", path.display());
            return Err(ProgramSandboxError::Setting {
                name: "tools.sandbox.allowedPaths",
                reason,
            });
        }
        line.mount(path, path, "ro")?;
    }
    Ok(())
}

fn environment(
    request: &ContainerRequest,
    proxied: bool,
    line: &mut LineBuilder,
) -> Result<(), ProgramSandboxError> {
    for name in FORWARDED_VARIABLES {
        let ours = name.strip_prefix("GEMINI_").map(|rest| format!("PARALLAX_{rest}"));
        for name in ours.as_deref().into_iter().chain([*name]) {
            if request.variable(name).is_some() {
                line.push_pair("--env", name);
            }
        }
    }
    // Home directories have the same paths inside and outside, regardless of the image.
    line.set("GEMINI_CLI_HOME", &request.home);
    line.set("PARALLAX_HOME", &request.parallax);
    line.set("SANDBOX", &request.name);
    if proxied {
        let proxy = format!("http://{PROXY}:{PROXY_PORT}");
        for name in ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"] {
            line.set(name, &proxy);
        }
        let without = request.variable("NO_PROXY").or_else(|| request.variable("no_proxy"));
        for name in ["NO_PROXY", "no_proxy"] {
            if let Some(without) = without {
                line.set(name, without);
            }
        }
    }
    for pair in request.list("SANDBOX_ENV") {
        if pair.split_once('=').is_none_or(|(name, _)| name.trim().is_empty()) {
            let reason = "it must be `NAME=value` entries separated by commas".to_owned();
            return Err(ProgramSandboxError::Setting { name: "SANDBOX_ENV", reason });
        }
        line.push_pair("--env", pair);
    }
    Ok(())
}

/// A command line under construction.
struct LineBuilder(CommandLine);

impl LineBuilder {
    fn new(engine: Engine) -> Self {
        Self(CommandLine { program: engine.program(), ..CommandLine::default() })
    }

    fn push_word(&mut self, word: impl AsRef<OsStr>) {
        self.0.arguments.push(word.as_ref().to_owned());
    }

    fn push_pair(&mut self, flag: &str, value: impl AsRef<OsStr>) {
        self.push_word(flag);
        self.push_word(value);
    }

    fn set(&mut self, name: &str, value: impl AsRef<OsStr>) {
        let mut pair = OsString::from(name);
        pair.push("=");
        pair.push(value);
        self.push_pair("--env", pair);
    }

    fn mount(&mut self, from: &Path, to: &Path, options: &str) -> Result<(), ProgramSandboxError> {
        for path in [from, to] {
            let bytes = path.as_os_str().as_encoded_bytes();
            if bytes.iter().any(|byte| matches!(byte, b':' | b'\n' | b'\r')) {
                return Err(ProgramSandboxError::Path(path.to_owned()));
            }
        }
        let mut volume = from.as_os_str().to_owned();
        volume.push(":");
        volume.push(to);
        volume.push(":");
        volume.push(options);
        self.push_pair("--volume", volume);
        Ok(())
    }

    /// Makes files created inside belong to the user outside.
    fn map_user(&mut self, request: &ContainerRequest) {
        let Some((user, group)) = request.user else { return };
        if request.engine == Engine::Podman && user != 0 {
            self.push_word("--userns=keep-id");
        }
        self.push_pair("--user", format!("{user}:{group}"));
    }

    fn finish(self) -> CommandLine {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn request(engine: Engine) -> ContainerRequest {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        ContainerRequest {
            engine,
            binary: "/usr/bin/parallax".into(),
            arguments: ["-p", "a b"].map(OsString::from).to_vec(),
            directory: "/project".into(),
            home: "/home/jo".into(),
            gemini: "/home/jo/.gemini".into(),
            parallax: "/home/jo/.parallax".into(),
            temporary: "/tmp".into(),
            variables: vec![("GEMINI_SANDBOX_IMAGE".to_owned(), "img".to_owned())],
            existing: paths(&["/home/jo/.gemini", "/data"]),
            image: None,
            allowed_paths: Vec::new(),
            network: None,
            user: Some((1000, 100)),
            terminal: false,
            name: "parallax-1".to_owned(),
        }
    }

    fn set(request: &mut ContainerRequest, name: &str, value: &str) {
        request.variables.push((name.to_owned(), value.to_owned()));
    }

    fn format_line(line: &CommandLine) -> String {
        let words: Vec<_> = line.arguments.iter().map(|word| word.to_string_lossy()).collect();
        format!("{} {}", line.program, words.join(" "))
    }

    #[test]
    fn container_command_line_has_the_documented_form() {
        let plan = plan(&request(Engine::Docker)).expect("plan");
        let ours = "--volume /home/jo/.parallax:/home/jo/.parallax:ro ".to_owned();
        let written = WRITABLE_DIRECTORIES.iter().map(|name| {
            format!("--volume /home/jo/.parallax/{name}:/home/jo/.parallax/{name}:rw ")
        });
        let ours: String = std::iter::once(ours).chain(written).collect();
        assert_eq!(
            format_line(&plan.main).replacen(&ours, "OURS ", 1),
            "docker run -i --rm --init --workdir /project --entrypoint  --name parallax-1 --hostname \
             parallax-1 --user 1000:100 --add-host host.docker.internal:host-gateway --volume \
             /usr/bin/parallax:/opt/parallax/parallax:ro --volume /project:/project:rw --volume \
             /home/jo/.gemini:/home/jo/.gemini:ro OURS --volume /tmp:/tmp:rw --env GEMINI_CLI_HOME=/home/jo --env PARALLAX_HOME=/home/jo/.parallax \
             --env SANDBOX=parallax-1 img /opt/parallax/parallax -p a b"
        );
        assert!(plan.networks.is_empty() && plan.proxy.is_none());
    }

    #[test]
    fn container_variables_are_placed_and_no_secret_is_on_the_line() {
        let mut container_request = request(Engine::Runsc);
        container_request.terminal = true;
        container_request.allowed_paths = vec!["/data".into()];
        for (name, value) in [
            ("SANDBOX_FLAGS", "--cpus 2 --label 'a b'"),
            ("SANDBOX_MOUNTS", "/data,/data:/d:rw"),
            ("SANDBOX_PORTS", "80, 8080"),
            ("SANDBOX_ENV", "A=1,B=x=y"),
            ("GEMINI_API_KEY", "hidden-value"),
            ("PARALLAX_API_KEY", "hidden-value"),
        ] {
            set(&mut container_request, name, value);
        }
        let line = format_line(&plan(&container_request).expect("plan").main);
        for part in [
            " -t --runtime=runsc ",
            " --cpus 2 --label a b ",
            " --volume /data:/data:ro --volume /data:/d:rw --volume /data:/data:ro ",
            " --publish 80:80 --publish 8080:8080 ",
            " --env PARALLAX_API_KEY --env GEMINI_API_KEY ",
            " --env A=1 --env B=x=y ",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
        assert!(!line.contains("hidden-value"));
        assert!(format_line(&plan(&request(Engine::Podman)).expect("plan").main)
            .starts_with("podman run -i --rm --init --workdir /project --entrypoint  --name parallax-1 --hostname parallax-1 --userns=keep-id --user 1000:100"));
    }

    #[test]
    fn closed_network_uses_a_proxy() {
        let mut container_request = request(Engine::Docker);
        container_request.network = Some(false);
        let closed = plan(&container_request).expect("plan");
        assert_eq!(closed.networks, [(NETWORK, true)]);
        assert!(format_line(&closed.main).contains(" --network gemini-cli-sandbox "));
        container_request.network = None;
        set(&mut container_request, "GEMINI_SANDBOX_PROXY_COMMAND", "proxy --port '8877'");
        let proxied = plan(&container_request).expect("plan");
        assert_eq!(proxied.networks, [(NETWORK, true), (PROXY, false)]);
        let line = format_line(&proxied.main);
        assert!(line.contains("--env HTTPS_PROXY=http://gemini-cli-sandbox-proxy:8877 "), "{line}");
        let proxy = format_line(&proxied.proxy.expect("proxy"));
        assert!(
            proxy.starts_with(
                "docker run --rm --init --detach --user 1000:100 --name gemini-cli-sandbox-proxy "
            ),
            "{proxy}"
        );
        assert!(proxy.ends_with(" img proxy --port 8877"), "{proxy}");
    }

    #[test]
    fn container_image_follows_precedence_and_is_required() {
        let mut container_request = request(Engine::Docker);
        container_request.variables.clear();
        assert!(matches!(plan(&container_request), Err(ProgramSandboxError::NoImage)));
        container_request.image = Some("setting".to_owned());
        assert_eq!(container_request.image(), Some("setting"));
        set(&mut container_request, "GEMINI_SANDBOX_IMAGE_DEFAULT", "default");
        assert_eq!(container_request.image(), Some("default"));
        set(&mut container_request, "GEMINI_SANDBOX_IMAGE", "variable");
        assert_eq!(container_request.image(), Some("variable"));
        container_request.variables =
            vec![("GEMINI_SANDBOX_IMAGE".to_owned(), "--privileged".to_owned())];
        assert!(matches!(plan(&container_request), Err(ProgramSandboxError::NoImage)));
    }

    #[test]
    fn unusable_container_settings_are_reported() {
        for (name, value) in [
            ("SANDBOX_MOUNTS", "relative"),
            ("SANDBOX_MOUNTS", "/gone"),
            ("SANDBOX_MOUNTS", "/data:/d:rw:x"),
            ("SANDBOX_PORTS", "http"),
            ("SANDBOX_ENV", "novalue"),
            ("SANDBOX_FLAGS", "'open"),
        ] {
            let mut container_request = request(Engine::Docker);
            set(&mut container_request, name, value);
            let error = plan(&container_request).expect_err("refused").to_string();
            assert!(error.contains(name), "{error}");
        }
        let mut container_request = request(Engine::Docker);
        container_request.directory = "/a:b".into();
        assert!(matches!(plan(&container_request), Err(ProgramSandboxError::Path(_))));
    }
}
