//! Tests that every key of git's documentation that names a program is overridden, rejected, or not
//! read from a repository.

use std::path::Path;

use super::{is_first_wins, push_override};

/// Keys whose values git runs, with a sample name in place of the documentation's placeholder.
const PROGRAMS: &[&str] = &[
    "alias.x",
    "alias.x.command",
    "browser.x.cmd",
    "browser.x.path",
    "core.alternateRefsCommand",
    "core.askPass",
    "core.editor",
    "core.fsmonitor",
    "core.gitProxy",
    "core.hooksPath",
    "core.pager",
    "core.sshCommand",
    "credential.helper",
    "credential.x.helper",
    "diff.external",
    "diff.x.command",
    "diff.x.textconv",
    "difftool.x.cmd",
    "difftool.x.path",
    "filter.x.clean",
    "filter.x.process",
    "filter.x.smudge",
    "gc.recentObjectsHook",
    "gpg.program",
    "gpg.ssh.defaultKeyCommand",
    "gpg.ssh.program",
    "gpg.x509.program",
    "guitool.x.cmd",
    "hook.x.command",
    "imap.tunnel",
    "instaweb.browser",
    "instaweb.httpd",
    "instaweb.modulePath",
    "interactive.diffFilter",
    "man.viewer",
    "man.x.cmd",
    "man.x.path",
    "merge.x.driver",
    "mergetool.x.cmd",
    "mergetool.x.path",
    "pager.x",
    "remote.x.receivepack",
    "remote.x.uploadpack",
    "remote.x.vcs",
    "sendemail.ccCmd",
    "sendemail.headerCmd",
    "sendemail.smtpServer",
    "sendemail.toCmd",
    "sequence.editor",
    "submodule.x.update",
    "svn.authorsProg",
    "tar.tgz.command",
    "tar.x.command",
    "trailer.x.cmd",
    "trailer.x.command",
    "uploadpack.packObjectsHook",
    "web.browser",
];

/// Keys whose names resemble those of programs but that start none by themselves.
const HARMLESS: &[&str] = &[
    "commit.cleanup",
    "completion.commands",
    "core.fsmonitorhookversion",
    "gitcvs.dbdriver",
    "help.browser",
    "rebase.abbreviatecommands",
];

/// Keys that are overridden for every command, regardless of the repository.
const ALWAYS: &[&str] = &["core.fsmonitor", "core.hookspath"];

fn is_covered(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let (mut environment, mut pairs) = (Vec::new(), Vec::new());
    push_override(&key, "!evil", Path::new("/"), &mut environment, &mut pairs);
    ALWAYS.contains(&key.as_str())
        || is_first_wins(&key)
        || pairs.iter().any(|(set, value)| *set == key && !value.contains("evil"))
        || environment.iter().any(|(name, _)| name == "GIT_SSH_COMMAND")
}

#[test]
fn every_program_key_is_covered_and_checked() {
    for key in PROGRAMS {
        assert!(is_covered(key), "{key}");
        let directory = tempfile::tempdir().expect("a directory");
        let git = |arguments: &[&str]| {
            let output = parallax_exec::program::output(
                "git",
                arguments,
                directory.path(),
                &[],
                super::SIZE,
                super::TIME,
            );
            assert!(output.is_some(), "{arguments:?}");
        };
        git(&["init", "-q"]);
        git(&["config", key, "!evil"]);
        let found = super::repository::configurations(directory.path());
        // A configuration that seems to name no program is not read at all.
        assert!(
            ALWAYS.contains(&&*key.to_ascii_lowercase()) || !found.program_files.is_empty(),
            "{key}"
        );
    }
}

#[test]
fn program_like_keys_of_the_installed_git_are_known() {
    const LOOKS: [&str; 20] = [
        "command", "cmd", "program", "hook", "helper", "editor", "pager", "askpass", "external",
        "textconv", "clean", "smudge", "process", "driver", "viewer", "browser", "tunnel", "httpd",
        "gitproxy", "vcs",
    ];
    let arguments = ["help", "--config-for-completion"];
    let root = Path::new("/");
    let listed =
        parallax_exec::program::output("git", arguments, root, &[], super::SIZE, super::TIME);
    let listed = String::from_utf8(listed.expect("the keys")).expect("text");
    let known: Vec<String> = PROGRAMS.iter().map(|key| key.to_ascii_lowercase()).collect();
    for key in listed.lines().map(str::to_ascii_lowercase) {
        let last = key.rsplit('.').next().unwrap_or_default();
        let looks = LOOKS.iter().any(|word| last.contains(word));
        let is_setting = key.starts_with("advice.")
            || key.starts_with("color.")
            || key.starts_with("clean.")
            || key.starts_with("column.");
        let ends = |known: &String| {
            let (section, name) = (known.split('.').next(), known.rsplit('.').next());
            section == key.split('.').next() && name == Some(last)
        };
        let harmless = HARMLESS.contains(&key.as_str());
        assert!(!looks || is_setting || harmless || known.iter().any(ends), "unknown key `{key}`");
    }
}
