//! Detects whether a command failed because of a sandbox denial, and of what: a path in the output
//! counts only if the sandbox actually restricts it.

use std::path::{Path, PathBuf};

use parallax_protocol::paths::join_lexically;
use parallax_protocol::permissions::Permissions;

use super::denied_access::{Confinement, DeniedAccess};
use super::granted_paths::is_too_broad;

/// Number of lines examined at the end of the output.
const LINES: usize = 400;
/// Maximum number of paths in one approval request.
const MAX_COUNT: usize = 8;

const DENIED: [&str; 8] = [
    "permission denied",
    "read-only file system",
    "operation not permitted",
    // A mount point cannot be replaced.
    "device or resource busy",
    "eacces",
    "erofs",
    "eperm",
    "not writable",
];

/// The denied operation changes the directory, so permission for the file alone does not help.
const OF_FOLDERS: [&str; 8] = [
    "cannot remove",
    "unable to remove",
    "cannot create directory",
    "cannot move",
    "cannot create symbolic link",
    "cannot create hard link",
    "failed to create symbolic link",
    "failed to create hard link",
];

const UNREACHED: [&str; 12] = [
    "could not resolve",
    "couldn't resolve",
    "name resolution",
    "name or service not known",
    "network is unreachable",
    "enotfound",
    "enetunreach",
    "eai_again",
    "getaddrinfo",
    "no address associated with hostname",
    "dns error",
    "unable to connect to",
];

/// Git prints this if no credential helper knew the user, which is not a network failure.
const UNKNOWN_USER: [&str; 2] = ["could not read username for", "could not read password for"];

/// How many parts of a message before the reason may name the path: `tar: ../a.tar: Cannot open:`.
const SEGMENTS: usize = 3;

/// Files of git's own credential helper and of curl, relative to the home directory.
const CREDENTIALS: [&str; 3] = [".git-credentials", ".config/git/credentials", ".netrc"];

/// Git prints this if it could not write a repository. It omits the reason, which the other end of
/// a push swallows.
const UNWRITTEN: [&str; 6] = [
    "unpacker error",
    "unable to create temporary object directory",
    "unable to create temporary file",
    "insufficient permission for adding an object",
    "failed to write object",
    "unable to migrate objects to permanent storage",
];

/// Whether git failed to write a repository that its output does not name.
pub(super) fn reports_repository_write_failure(output: &str) -> bool {
    output.lines().rev().take(LINES).any(|line| {
        let lower = line.to_lowercase();
        UNWRITTEN.iter().any(|words| lower.contains(words))
    })
}

/// Whether a program could not move or remove something because a mount is in its place.
pub(super) fn is_mount_point(output: &str) -> bool {
    const BUSY: [&str; 2] = ["device or resource busy", "ebusy"];
    let mut lines = output.lines().rev().take(LINES).map(str::to_lowercase);
    lines.any(|line| BUSY.iter().any(|words| line.contains(words)))
}

/// Whether git could not open the object directory of another repository.
pub(super) fn is_unreachable_alternate(output: &str) -> bool {
    output.contains("unable to normalize alternate object path")
}

/// Whether the output says that something was read-only. Outside of a sandbox, almost no file
/// system is, so the sandbox is the cause even where the output does not name the path. `failed`:
/// whether the exit code indicates a failure; otherwise only an error message near the end counts.
pub(super) fn is_read_only(output: &str, failed: bool) -> bool {
    const TAIL_LINES: usize = 5;
    output.lines().rev().take(if failed { LINES } else { TAIL_LINES }).any(|line| {
        let lower = line.to_lowercase();
        let message =
            [": ", "] "].iter().any(|before| lower.contains(&format!("{before}{READ_ONLY}")));
        message
            || lower.starts_with(READ_ONLY)
            // Programs may print the code alone.
            || lower.trim() == "erofs"
            || lower.contains("code: 'erofs'")
            || failed && (lower.contains(READ_ONLY) || lower.contains("erofs"))
    })
}

/// The message for `EROFS`.
const READ_ONLY: &str = "read-only file system";

/// Package managers for Node print this if a registry requires a login that they do not have.
const NO_LOGIN_AT_REGISTRY: [&str; 5] = [
    "npm error code e401",
    "npm err! code e401",
    "npm error code eneedauth",
    "npm err! code eneedauth",
    "err_pnpm_fetch_401",
];

/// Their login file, relative to the home directory.
const REGISTRY_LOGIN: &str = ".npmrc";

/// The GitHub CLI prints this if it finds no login.
const UNKNOWN_LOGIN: [&str; 2] = ["gh auth login", "gh_token environment variable"];

/// The login file of the GitHub CLI, relative to the home directory.
const LOGIN: &str = ".config/gh/hosts.yml";

const OUTSIDE: [&str; 6] = [
    "no new privileges",
    "cannot connect to the docker daemon",
    "cannot connect to podman",
    "must be run as root",
    "cannot open display",
    "failed to connect to bus",
];

/// Whether the line ends like an error message. Then it counts even if the command as a whole
/// succeeded (`… | tail`).
fn is_denial_message(line: &str) -> bool {
    DENIED.iter().take(4).any(|words| line.trim_end().ends_with(words))
}

/// Messages about an unreachable server.
const NO_SERVER: [&str; 5] =
    ["refused", "failed to connect", "couldn't connect", "could not connect", "can't connect"];

/// Returns the missing permissions, as far as the output and the sandbox show. `command` is its
/// text, `failed` whether its exit code indicates a failure, and `directories` are its possible
/// working directories.
pub(super) fn missing_permissions(
    command: &str,
    output: &str,
    failed: bool,
    directories: &[PathBuf],
    home: &Path,
    confinement: &dyn Confinement,
) -> Permissions {
    let mut missing = Permissions::default();
    let command = command.to_lowercase();
    let lines: Vec<&str> = output.lines().rev().take(LINES).collect();
    for line in lines.into_iter().rev() {
        let lower = line.to_lowercase();
        // File permissions do not help: a path that is opened individually is a separate file
        // system.
        let linked = lower.contains("hard link") && lower.contains("cross-device link");
        if failed && (linked || OUTSIDE.iter().any(|words| lower.contains(words))) {
            missing.outside = true;
        }
        if confinement.is_offline() && UNREACHED.iter().any(|words| lower.contains(words)) {
            missing.network = true;
        }
        // Some programs report a refused connection without the address.
        if confinement.has_private_network()
            && !missing.host_loopback
            && NO_SERVER.iter().any(|words| lower.contains(words))
            && local_ports(&lower)
                .chain(local_ports(&command).filter(|_| failed))
                .any(|port| confinement.has_outside_listener(port))
        {
            missing.host_loopback = true;
        }
        // Behind a pipe, the exit code is that of another program.
        let is_fatal = failed || lower.starts_with("fatal: ");
        if is_fatal && UNKNOWN_USER.iter().any(|words| lower.contains(words)) {
            for path in CREDENTIALS.map(|name| home.join(name)) {
                if path.is_file() && confinement.denies(&path, DeniedAccess::Read) {
                    add_missing_permission(&path, &lower, home, confinement, &mut missing);
                }
            }
        }
        if NO_LOGIN_AT_REGISTRY.iter().any(|words| lower.contains(words)) {
            let path = home.join(REGISTRY_LOGIN);
            if path.is_file() && confinement.denies(&path, DeniedAccess::Read) {
                add_missing_permission(&path, &lower, home, confinement, &mut missing);
            }
        }
        if failed && UNKNOWN_LOGIN.iter().any(|words| lower.contains(words)) {
            let path = home.join(LOGIN);
            if path.is_file() && confinement.denies(&path, DeniedAccess::Read) {
                add_missing_permission(&path, &lower, home, confinement, &mut missing);
            }
        }
        // No ordinary directory is on a read-only file system.
        let counts = failed || is_denial_message(&lower) || lower.contains(READ_ONLY);
        if counts && DENIED.iter().any(|words| lower.contains(words)) {
            // Text in quotes is one path, including spaces.
            let is_quote = |letter| ['\'', '"', '`', '‘', '’', '“', '”'].contains(&letter);
            let quoted = line.split(is_quote).skip(1).step_by(2);
            let mut any = false;
            for path in paths(quoted, directories, home) {
                let path = confinement.first_missing_directory(&path);
                any |= add_missing_permission(&path, &lower, home, confinement, &mut missing);
            }
            // `program: path: Permission denied`: the path is right before the message.
            let offset = DENIED.iter().filter_map(|words| lower.find(words)).min();
            let before = offset.and_then(|offset| line.get(..offset)).unwrap_or_default();
            let before = before.trim_end().trim_end_matches(':');
            let segments = before.rsplit(": ").take(SEGMENTS).map(str::trim);
            // `tar: path: Cannot mknod`.
            let segments = segments.filter(|part| !part.starts_with("Cannot "));
            // `fatal: cannot mkdir a`: the last word comes before the whole part.
            let words = segments
                .flat_map(|part| [part.rsplit(char::is_whitespace).next().unwrap_or(""), part]);
            for piece in words {
                if !any {
                    for path in paths(std::iter::once(piece), directories, home) {
                        any |=
                            add_missing_permission(&path, &lower, home, confinement, &mut missing);
                    }
                }
            }
        }
    }
    if failed && confinement.is_offline() && confinement.needed_network() {
        missing.network = true;
    }
    missing
}

/// Returns the hidden files that a copy of their directory encountered: their placeholders cannot
/// be copied, and programs name only the destination.
pub(super) fn copied_hidden_files(output: &str, hidden: &[PathBuf]) -> Vec<PathBuf> {
    const SPECIAL: [&str; 3] = ["cannot create special file", "mknod ", "mknod("];
    let lines = output.lines().rev().take(LINES).filter(|line| {
        let lower = line.to_lowercase();
        SPECIAL.iter().any(|words| lower.contains(words))
            && DENIED.iter().any(|words| lower.contains(words))
    });
    let created: Vec<&str> = lines
        .flat_map(|line| line.split(['\'', '"', '‘', '’', '“', '”']).skip(1).step_by(2))
        .collect();
    let is_copied = |path: &&PathBuf| {
        created
            .iter()
            .any(|created| Path::new(created).file_name().is_some_and(|it| path.ends_with(it)))
    };
    hidden.iter().filter(is_copied).take(MAX_COUNT).cloned().collect()
}

/// Adds the missing permission if the sandbox restricts the path.
fn add_missing_permission(
    path: &Path,
    line: &str,
    home: &Path,
    confinement: &dyn Confinement,
    missing: &mut Permissions,
) -> bool {
    let only_writing = ["read-only file system", "device or resource busy"];
    // A program that may rename a hidden file could read it under its new name.
    let to_read = confinement.denies(path, DeniedAccess::Read);
    let to_write = !to_read || only_writing.iter().any(|words| line.contains(words));
    if !to_read && !confinement.denies(path, DeniedAccess::Write) {
        return false;
    }
    let mut path = path;
    // In the workspace, files are protected and opened individually.
    if !to_read
        && OF_FOLDERS.iter().any(|words| line.contains(words))
        && let Some(folder) = path.parent()
        && confinement.denies(folder, DeniedAccess::Write)
    {
        if is_too_broad(folder, home) {
            missing.outside = true;
            return true;
        }
        path = folder;
    }
    let files = &mut missing.file_system;
    for (paths, is_read) in [(to_read, true), (to_write, false)] {
        let full = files.read.len() + files.write.len() >= MAX_COUNT;
        let list = if is_read { &mut files.read } else { &mut files.write };
        if paths && !full && !list.iter().any(|known| known == path) {
            list.push(path.to_owned());
        }
    }
    true
}

/// Returns the local ports that the line mentions.
fn local_ports(line: &str) -> impl Iterator<Item = u16> + '_ {
    let is_local =
        ["127.0.0.1", "localhost", "::1", "0.0.0.0"].iter().any(|name| line.contains(name));
    line.split(|letter: char| !letter.is_ascii_digit())
        .filter(move |word| is_local && (2..=5).contains(&word.len()))
        .filter_map(|word| word.parse().ok())
}

/// Returns the possible paths in the line, resolved.
fn paths<'a>(
    pieces: impl Iterator<Item = &'a str>,
    directories: &[PathBuf],
    home: &Path,
) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for piece in pieces {
        let piece = piece.trim_matches(|letter: char| {
            matches!(letter, ':' | ',' | ';' | '(' | ')' | '[' | ']' | '<' | '>')
        });
        // `program: /path: Permission denied` and `open:/path`.
        let piece =
            piece.rsplit_once(":/").map_or(piece.to_owned(), |(_, rest)| format!("/{rest}"));
        if piece.is_empty() || piece.len() > 4_096 || piece.contains("://") {
            continue;
        }
        for directory in directories {
            let path = match piece.strip_prefix("~/") {
                Some(rest) => home.join(rest),
                None => directory.join(&piece),
            };
            let path = join_lexically(directory, &path);
            if !found.contains(&path) {
                found.push(path);
            }
        }
        if found.len() >= 32 {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TestSandbox {
        offline: bool,
    }

    impl Confinement for TestSandbox {
        fn denies(&self, path: &Path, access: DeniedAccess) -> bool {
            match access {
                DeniedAccess::Read => {
                    path.starts_with("/home/u/.ssh") || path == Path::new("/w/.env")
                }
                DeniedAccess::Write => !path.starts_with("/w") || path.starts_with("/w/.git"),
            }
        }
        fn is_offline(&self) -> bool {
            self.offline
        }
        fn has_private_network(&self) -> bool {
            true
        }
        fn needed_network(&self) -> bool {
            false
        }
        fn has_outside_listener(&self, port: u16) -> bool {
            port == 5432
        }
    }

    #[test]
    fn only_sandbox_denials_are_requested() {
        for (output, expected) in [
            ("cat: /home/u/.ssh/id_rsa: Permission denied", &["to read /home/u/.ssh/id_rsa"][..]),
            ("cat: .env: Permission denied", &["to read /w/.env"]),
            ("touch: cannot touch '/etc/x y': Read-only file system", &["to write /etc/x y"]),
            ("bash: line 1: ../out: Permission denied", &["to write /out"]),
            ("bash: /w/mine: Permission denied", &[]),
            ("Error: EACCES: permission denied, open '/opt/a'", &["to write /opt/a"]),
            (
                "error: could not lock config file .git/config: Read-only file system",
                &["to write /w/.git/config"],
            ),
            (
                "error: could not write config file .git/config: Device or resource busy",
                &["to write /w/.git/config"],
            ),
            ("curl: (6) Could not resolve host: example.com", &["network"]),
            ("npm error code EAI_AGAIN", &["network"]),
            ("connect ECONNREFUSED 127.0.0.1:5432", &["servers on this machine"]),
            ("connect ECONNREFUSED 127.0.0.1:9999", &[]),
            ("sudo: The \"no new privileges\" flag is set", &["to run outside the sandbox"]),
            (
                "ln: failed to create hard link 'a' => '/opt/a': Invalid cross-device link",
                &["to run outside the sandbox"],
            ),
            ("test failed: expected permission denied", &[]),
            ("/usr/bin/bash: line 1: /opt/out: Permission denied", &["to write /opt/out"]),
            ("mkdir: cannot create directory ‘/opt/x’: Read-only file system", &["to write /opt"]),
            ("rm: cannot remove '/opt/a/x': Read-only file system", &["to write /opt/a"]),
            ("rm: cannot remove '.git/x': Read-only file system", &["to write /w/.git"]),
            (
                "rm: cannot remove '/home/u/x': Read-only file system",
                &["to run outside the sandbox"],
            ),
            (
                "rm: cannot remove '.env': Device or resource busy",
                &["to write /w/.env", "to read /w/.env"],
            ),
            ("PermissionError: [Errno 13] Permission denied: '/opt/b'", &["to write /opt/b"]),
            ("tar: ../a/.env: Cannot mknod: Read-only file system", &["to write /a/.env"]),
            ("tar: a: Cannot change ownership to uid 0, gid 0: Operation not permitted", &[]),
            ("all fine", &[]),
        ] {
            let missing = missing_permissions(
                "x",
                output,
                true,
                &["/w".into()],
                Path::new("/home/u"),
                &TestSandbox { offline: true },
            );
            assert_eq!(missing.descriptions(), expected, "{output}");
        }
        // Also if the command as a whole succeeded.
        let busy = "error: could not write config file .git/config: Device or resource busy\nfine";
        let well = missing_permissions(
            "x",
            busy,
            false,
            &["/w".into()],
            Path::new("/h"),
            &TestSandbox { offline: false },
        );
        assert_eq!(well.descriptions(), ["to write /w/.git/config"]);
        let led = "touch: cannot touch 'z': Read-only file system";
        let directories = ["/w".into(), "/opt".into()];
        let led = missing_permissions(
            "x",
            led,
            true,
            &directories,
            Path::new("/h"),
            &TestSandbox { offline: false },
        );
        assert_eq!(led.descriptions(), ["to write /opt/z"]);
        let online = missing_permissions(
            "x",
            "Could not resolve host",
            true,
            &["/w".into()],
            Path::new("/h"),
            &TestSandbox { offline: false },
        );
        assert!(online.is_empty());
        for (command, output, is_server) in [
            ("node x.js", "connect ECONNREFUSED 127.0.0.1:5432", true),
            ("curl x", "curl: (7) Failed to connect to 127.0.0.1 port 5432 after 0 ms", true),
            ("curl x", "curl: (7) Failed to connect to 127.0.0.1 port 5433 after 0 ms", false),
            (
                "py 'open(\"http://localhost:5432\")'",
                "URLError: [Errno 111] Connection refused",
                true,
            ),
            (
                "py 'open(\"http://localhost:1\")'",
                "URLError: [Errno 111] Connection refused",
                false,
            ),
            ("curl http://1.1.1.1:5432", "Connection refused", false),
        ] {
            let directories = ["/w".into()];
            let found = missing_permissions(
                command,
                output,
                true,
                &directories,
                Path::new("/h"),
                &TestSandbox { offline: false },
            );
            assert_eq!(found.host_loopback, is_server, "{command}: {output}");
        }
    }

    #[test]
    fn failed_copy_of_a_hidden_file_names_it() {
        let hidden = ["/w/a/.env", "/w/b.key", "/h/.ssh"].map(PathBuf::from);
        let output = "cp: cannot create special file 'c/a/.env': Operation not permitted\n\
                    rsync: [generator] mknod \"/w/c/b.key\" failed: Operation not permitted (1)\n\
                    cp: cannot create special file 'c/fifo': No space left on device";
        assert_eq!(copied_hidden_files(output, &hidden), &hidden[..2]);
        assert!(copied_hidden_files("cat: 'a/.env': Permission denied", &hidden).is_empty());
    }
}
