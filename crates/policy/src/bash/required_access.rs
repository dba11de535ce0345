//! Access that a command requires: the network, or access outside the sandbox.

use super::git::git_subcommand;
use super::line::Command;

/// Whether the command is useless without the network.
pub fn needs_network(command: &Command) -> bool {
    let Some(name) = command.name() else { return false };
    let words: Vec<&str> =
        command.arguments().iter().filter_map(|word| word.text.as_deref()).collect();
    let verb = words.iter().find(|word| !word.starts_with('-')).copied();
    let second = words.iter().filter(|word| !word.starts_with('-')).nth(1).copied();
    match name {
        "ssh" | "scp" | "sftp" | "curl" | "wget" | "rsync" | "ftp" | "telnet" | "nc" | "ncat"
        | "netcat" | "ping" | "dig" | "nslookup" | "host" | "whois" | "traceroute" | "npx"
        | "bunx" | "uvx" | "aria2c" | "http" | "https" | "xh" | "gh" | "glab" | "aws"
        | "gcloud" | "az" | "kubectl" | "helm" | "terraform" | "apt" | "apt-get" | "dnf"
        | "yum" | "apk" | "brew" | "pacman" => true,
        "git" => git_subcommand(command).is_some_and(|call| {
            let sub = call
                .words
                .iter()
                .filter_map(|word| word.text.as_deref())
                .find(|word| !word.starts_with('-'));
            match call.name {
                "clone" | "fetch" | "pull" | "push" | "ls-remote" | "send-email" => true,
                "remote" => matches!(sub, Some("update" | "show" | "prune" | "set-head")),
                "submodule" => matches!(sub, Some("update" | "add")),
                "lfs" => matches!(sub, Some("pull" | "push" | "fetch")),
                _ => false,
            }
        }),
        "npm" | "yarn" | "pnpm" | "bun" => match verb {
            None => {
                name != "npm"
                    && words
                        .iter()
                        .all(|word| !matches!(*word, "--version" | "-v" | "--help" | "-h"))
            }
            Some(verb) => matches!(
                verb,
                "install"
                    | "i"
                    | "ci"
                    | "add"
                    | "update"
                    | "upgrade"
                    | "up"
                    | "publish"
                    | "audit"
                    | "outdated"
                    | "remove"
                    | "rm"
                    | "uninstall"
                    | "un"
                    | "exec"
                    | "x"
                    | "dlx"
                    | "create"
                    | "init"
                    | "login"
                    | "view"
                    | "info"
                    | "search"
            ),
        },
        "cargo" => matches!(
            verb,
            Some(
                "install"
                    | "fetch"
                    | "update"
                    | "publish"
                    | "add"
                    | "search"
                    | "login"
                    | "yank"
                    | "owner"
                    | "vendor"
                    | "generate-lockfile"
            )
        ),
        "pip" | "pip3" | "pipx" => {
            matches!(verb, Some("install" | "download" | "search" | "wheel" | "index" | "run"))
        }
        "python" | "python3" => {
            words.windows(2).any(|pair| pair == ["-m", "pip"]) && words.contains(&"install")
        }
        "uv" | "poetry" | "pdm" | "pipenv" => matches!(
            verb,
            Some(
                "add"
                    | "sync"
                    | "install"
                    | "lock"
                    | "update"
                    | "publish"
                    | "remove"
                    | "pip"
                    | "tool"
            )
        ),
        "go" => {
            matches!(verb, Some("get" | "install"))
                || (verb == Some("mod") && matches!(second, Some("download" | "tidy" | "vendor")))
        }
        "gem" | "bundle" | "bundler" => {
            matches!(verb, Some("install" | "update" | "push" | "outdated" | "fetch" | "add"))
        }
        "composer" => matches!(verb, Some("install" | "update" | "require")),
        "docker" | "podman" => matches!(verb, Some("pull" | "push" | "login" | "search" | "build")),
        "rustup" => {
            matches!(verb, Some("update" | "install" | "toolchain" | "component" | "target"))
        }
        "mvn" | "gradle" | "gradlew" | "mvnw" => {
            words.iter().any(|word| word.contains("depend") || *word == "deploy")
        }
        "dotnet" => matches!(verb, Some("restore" | "add" | "tool")),
        _ => false,
    }
}

/// Returns why the arguments do not show what the command does: it runs code from its arguments or
/// from files of the project.
pub fn runs_code(command: &Command) -> Option<&'static str> {
    let words: Vec<&str> =
        command.arguments().iter().filter_map(|word| word.text.as_deref()).collect();
    let asks = matches!(words[..], ["--version" | "-V" | "-v" | "--help" | "-h"]);
    let name = command.name()?;
    if asks {
        return None;
    }
    match name {
        "python" | "python2" | "python3" | "py" | "pypy3" | "perl" | "ruby" | "node" | "nodejs"
        | "deno" | "bun" | "php" | "lua" | "luajit" | "Rscript" | "R" | "julia" | "ghci"
        | "runghc" | "osascript" | "tclsh" | "wish" | "groovy" | "scala" | "jshell" | "elixir"
        | "erl" | "swift" | "guile" | "awk" | "gawk" | "mawk" | "nawk" | "psql" | "sqlite3"
        | "mysql" | "vim" | "ex" | "ed" | "emacs" | "m4" | "." | "source" => {
            Some("it runs code from its arguments or a file")
        }
        "sh" | "bash" | "dash" | "zsh" | "ksh" | "fish" => Some("it runs a script"),
        "make" | "gmake" | "ninja" | "cmake" | "just" | "task" | "rake" | "bazel" | "cargo"
        | "npm" | "npx" | "yarn" | "pnpm" | "bunx" | "mvn" | "gradle" | "gradlew" | "mvnw"
        | "pytest" | "tox" | "go" | "dotnet" | "composer" | "pip" | "pip3" | "uv" | "uvx"
        | "poetry" | "bundle" | "rails" | "mix" | "zig" | "meson" | "scons" | "ant" | "sbt" => {
            Some("it runs commands that the project defines")
        }
        _ => None,
    }
}

/// Returns why the command works only outside the sandbox: it becomes another user, communicates
/// with a system service, or opens a window.
pub fn needs_outside(command: &Command) -> Option<&'static str> {
    match command.name()? {
        "sudo" | "doas" | "su" | "pkexec" | "runuser" | "sg" | "newgrp" => {
            Some("it switches to another user")
        }
        "docker" | "podman" | "docker-compose" | "nerdctl" | "buildah" | "lxc" | "incus"
        | "kind" | "minikube" | "vagrant" => Some("it connects to the container engine"),
        "systemctl" | "service" | "loginctl" | "journalctl" | "systemd-run" | "initctl"
        | "launchctl" | "busctl" | "dbus-send" | "gdbus" => Some("it connects to system services"),
        "xdg-open" | "open" | "gnome-open" | "kde-open" | "x-www-browser" | "sensible-browser"
        | "firefox" | "chromium" | "google-chrome" | "code" | "notify-send" | "xclip" | "xsel"
        | "wl-copy" | "wl-paste" | "pbcopy" | "pbpaste" | "osascript" => {
            Some("it connects to the desktop")
        }
        "mount" | "umount" | "chroot" | "unshare" | "nsenter" | "modprobe" | "insmod"
        | "sysctl" | "iptables" | "nft" | "ip" | "useradd" | "usermod" | "passwd" | "visudo"
        | "crontab" | "at" => Some("it changes the system"),
        "apt" | "apt-get" | "dpkg" | "dnf" | "yum" | "rpm" | "apk" | "pacman" | "zypper"
        | "snap" | "flatpak" | "brew" => Some("it installs software on the system"),
        "tmux" | "screen" | "dtach" | "ssh-add" | "ssh-agent" | "gpg-agent" => {
            Some("it connects to a service of the user")
        }
        _ => None,
    }
}
