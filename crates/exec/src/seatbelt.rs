//! Profiles for `sandbox-exec` of macOS: everything that is not allowed explicitly is denied.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::ProcessExit;
use crate::program_sandbox::{CommandLine, ProgramSandboxError};

/// What a profile allows to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadScope {
    /// The whole disk.
    Permissive,
    /// The whole disk, but fewer system services.
    Restrictive,
    /// Only what is needed to work in the directory.
    Strict,
}

/// One of the six profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// What can be read.
    pub read_scope: ReadScope,
    /// Whether the only network access is a proxy on this host.
    pub proxied: bool,
}

impl Profile {
    /// Parses the value of `SEATBELT_PROFILE`.
    pub fn parse(name: &str) -> Option<Self> {
        let (read_scope, network) = name.split_once('-')?;
        Some(Self {
            read_scope: match read_scope {
                "permissive" => ReadScope::Permissive,
                "restrictive" => ReadScope::Restrictive,
                "strict" => ReadScope::Strict,
                _ => return None,
            },
            proxied: match network {
                "open" => false,
                "proxied" => true,
                _ => return None,
            },
        })
    }
}

/// The paths that a profile uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxPaths {
    /// The working directory.
    pub target: PathBuf,
    /// The directory for temporary files.
    pub temporary: PathBuf,
    /// The home directory.
    pub home: PathBuf,
    /// The user's cache directory.
    pub cache: PathBuf,
    /// `~/.parallax`.
    pub parallax: PathBuf,
    /// Paths that every profile must be able to read, such as this program.
    pub readable: Vec<PathBuf>,
    /// Additional workspace directories; only the first five are used.
    pub include: Vec<PathBuf>,
    /// Paths that are never readable or writable.
    pub hidden: Vec<PathBuf>,
    /// Paths that are never writable.
    pub read_only: Vec<PathBuf>,
}

/// Directories below the home directory that package managers write.
const TOOL_FOLDERS: [&str; 2] = [".npm", ".cache"];
/// Directories below the home directory that the strict profiles can read.
const READ_BY_STRICT: [&str; 5] = [".gemini", ".nvm", ".fnm", ".node", ".config"];
/// System directories.
const SYSTEM: [&str; 12] = [
    "/bin",
    "/sbin",
    "/usr",
    "/System",
    "/Library",
    "/opt",
    "/private/etc",
    "/private/var/db",
    "/private/var/select",
    "/etc",
    "/dev",
    "/Applications/Xcode.app",
];
/// Sockets and directories of container engines, access to which would allow escaping the sandbox.
const ENGINES: [&str; 5] = [
    "/var/run/docker.sock",
    "/private/var/run/docker.sock",
    "/Applications/Docker.app",
    "/Applications/OrbStack.app",
    "/Applications/Rancher Desktop.app",
];
/// The same, below the home directory.
const ENGINES_AT_HOME: [&str; 4] = [".docker", ".colima", ".orbstack", ".rd"];
const ENGINE_PROGRAMS: &str = "/(docker|colima|orbctl|orb|nerdctl|limactl|rdctl)$";

/// Returns the text of a profile. Paths are parameters (`-D`) or quoted.
pub fn profile_text(profile: Profile, paths: &SandboxPaths) -> String {
    let mut text = String::from("(version 1)\n(deny default)\n");
    let mut line = |rule: &str| {
        let _ = writeln!(text, "{rule}");
    };
    line("(allow process-exec)\n(allow process-fork)\n(allow signal (target same-sandbox))");
    line("(allow process-info* (target same-sandbox))\n(allow sysctl-read)");
    line("(allow pseudo-tty)\n(allow file-ioctl (regex #\"^/dev/tty.*\"))");
    line("(allow ipc-posix-sem)");
    line("(allow mach-lookup (global-name \"com.apple.system.opendirectoryd.libinfo\"))");
    line("(allow mach-lookup (global-name \"com.apple.trustd.agent\"))");
    if profile.read_scope == ReadScope::Permissive {
        line(
            "(allow mach-lookup)\n(allow ipc-posix-shm)\n(allow iokit-open)\n(allow system-socket)",
        );
    }
    let mut writable: Vec<String> =
        ["TARGET_DIR", "TMP_DIR", "CACHE_DIR", "PARALLAX_DIR"].map(parameter).to_vec();
    let include = paths.include.iter().take(5).enumerate();
    writable.extend(include.map(|(number, _)| parameter(&format!("INCLUDE_DIR_{number}"))));
    writable.extend(TOOL_FOLDERS.map(in_home));
    let writable_rules: String = writable.iter().map(|path| format!(" (subpath {path})")).collect();
    match profile.read_scope {
        ReadScope::Permissive | ReadScope::Restrictive => line("(allow file-read*)"),
        ReadScope::Strict => {
            line("(allow file-read-metadata)");
            let system: String =
                SYSTEM.iter().map(|path| format!(" (subpath {})", quote(path))).collect();
            let home: String =
                READ_BY_STRICT.map(in_home).map(|path| format!(" (subpath {path})")).concat();
            let paths = paths.readable.iter().map(|path| quote(&path.to_string_lossy()));
            let more: String = paths.map(|path| format!(" (subpath {path})")).collect();
            line(&format!(
                "(allow file-read* (literal \"/\"){writable_rules}{home}{more}{system})"
            ));
        }
    }
    line(&format!("(allow file-write*{writable_rules})"));
    line(
        "(allow file-write* (literal \"/dev/null\") (literal \"/dev/zero\") \
         (literal \"/dev/stdout\") (literal \"/dev/stderr\") (literal \"/dev/ptmx\") \
         (regex #\"^/dev/tty.*\"))",
    );
    if profile.proxied {
        line("(allow network-outbound (remote tcp \"localhost:8877\"))");
    } else {
        line("(allow network-outbound)\n(allow system-socket)");
    }
    if profile.proxied || profile.read_scope != ReadScope::Permissive {
        line("(allow network-inbound (local ip \"localhost:9229\"))");
    } else {
        line("(allow network-inbound)\n(allow network-bind)");
    }
    // Later rules take precedence.
    for path in &paths.read_only {
        line(&format!("(deny file-write* (subpath {}))", quote(&path.to_string_lossy())));
    }
    for path in &paths.hidden {
        let path = quote(&path.to_string_lossy());
        line(&format!("(deny file-read* file-write* (subpath {path}))"));
    }
    let engines = ENGINES.map(quote).into_iter().chain(ENGINES_AT_HOME.map(in_home));
    for engine in engines {
        line(&format!(
            "(deny file-read* file-write* process-exec network-outbound (subpath {engine}))"
        ));
    }
    line(&format!("(deny process-exec (regex #\"{ENGINE_PROGRAMS}\"))"));
    text
}

fn parameter(name: &str) -> String {
    format!("(param \"{name}\")")
}

fn in_home(name: &str) -> String {
    format!("(string-append (param \"HOME_DIR\") \"/{name}\")")
}

fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns the `sandbox-exec` command line for a profile text and a command.
pub fn command_line(
    text: &str,
    paths: &SandboxPaths,
    binary: &Path,
    arguments: &[OsString],
) -> CommandLine {
    let mut words: Vec<OsString> = vec!["-p".into(), text.into()];
    let mut define = |name: &str, path: &Path| {
        let mut pair = OsString::from(name);
        pair.push("=");
        pair.push(path);
        words.extend(["-D".into(), pair]);
    };
    define("TARGET_DIR", &paths.target);
    define("TMP_DIR", &paths.temporary);
    define("HOME_DIR", &paths.home);
    define("CACHE_DIR", &paths.cache);
    define("PARALLAX_DIR", &paths.parallax);
    for number in 0..5 {
        // A custom profile may use all five.
        let path = paths.include.get(number).map_or(Path::new("/dev/null"), PathBuf::as_path);
        define(&format!("INCLUDE_DIR_{number}"), path);
    }
    words.push(binary.into());
    words.extend(arguments.iter().cloned());
    CommandLine {
        program: "sandbox-exec",
        arguments: words,
        variables: vec![("SANDBOX".into(), "sandbox-exec".into())],
    }
}

/// Runs the command line with stdin, stdout, and stderr of this process.
///
/// # Errors
/// Returns an error if it could not be started (exit code 44).
pub async fn run(line: &CommandLine, terminal: bool) -> Result<ProcessExit, ProgramSandboxError> {
    crate::container::supervise(line, terminal).await
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 6] = [
        "permissive-open",
        "permissive-proxied",
        "restrictive-open",
        "restrictive-proxied",
        "strict-open",
        "strict-proxied",
    ];

    fn paths() -> SandboxPaths {
        SandboxPaths {
            target: "/project".into(),
            temporary: "/private/tmp".into(),
            home: "/Users/jo".into(),
            cache: "/private/cache".into(),
            parallax: "/Users/jo/.parallax".into(),
            readable: vec!["/Users/jo/bin/parallax".into()],
            include: vec!["/more".into()],
            hidden: vec!["/Users/jo/.ssh".into(), "/a \"b\"".into()],
            read_only: vec!["/project/.git/hooks".into()],
        }
    }

    #[test]
    fn seatbelt_profiles_match_the_expected_files() {
        for name in NAMES {
            let text = profile_text(Profile::parse(name).expect("known"), &paths());
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/seatbelt").join(name);
            let file = file.with_extension("sb");
            if std::env::var_os("UPDATE_PROFILES").is_some() {
                std::fs::write(&file, &text).expect("write");
            }
            assert_eq!(std::fs::read_to_string(&file).expect("written down"), text, "{name}");
        }
        for name in ["", "open", "strict", "strict-closed", "Strict-open"] {
            assert_eq!(Profile::parse(name), None, "{name}");
        }
    }

    #[test]
    fn seatbelt_profile_is_balanced_with_denials_last() {
        for name in NAMES {
            let text = profile_text(Profile::parse(name).expect("known"), &paths());
            let (mut depth, mut quoted, mut escaped) = (0, false, false);
            for character in text.chars() {
                match character {
                    _ if escaped => escaped = false,
                    '\\' => escaped = true,
                    '"' => quoted = !quoted,
                    '(' if !quoted => depth += 1,
                    ')' if !quoted => depth -= 1,
                    _ => {}
                }
                assert!(depth >= 0);
            }
            assert_eq!((depth, quoted), (0, false));
            let last_allow = text.rfind("(allow").expect("some");
            assert!(text.find("(deny file-write*").expect("some") > last_allow);
        }
    }

    #[test]
    fn seatbelt_paths_are_parameters() {
        let line = command_line("T", &paths(), Path::new("/bin/p"), &["-p".into(), "x".into()]);
        let words: Vec<_> = line.arguments.iter().map(|word| word.to_string_lossy()).collect();
        assert_eq!(words[..4], ["-p", "T", "-D", "TARGET_DIR=/project"]);
        assert!(words.contains(&"INCLUDE_DIR_0=/more".into()));
        assert!(words.contains(&"INCLUDE_DIR_4=/dev/null".into()));
        assert_eq!(words[words.len() - 3..], ["/bin/p", "-p", "x"]);
    }
}
