//! What the sandbox would refuse a command, seen before it runs: so one question
//! about it is enough.

use std::path::{Path, PathBuf};

use parallax_policy::bash::{self, Command, Line, Redirection, RedirectionKind, Word};
use parallax_protocol::paths::lexical;
use parallax_protocol::permissions::FilePermissions;
use parallax_sandbox::Plan;

use super::confined::{Ran, exact};
use super::refusal::{Access, Confinement};

/// Programs that read the files whose names are their operands.
const READERS: &[&str] = &[
    "cat",
    "cut",
    "diff",
    "grep",
    "head",
    "less",
    "md5sum",
    "more",
    "nl",
    "sed",
    "sha256sum",
    "sort",
    "source",
    "tac",
    "tail",
    "wc",
    ".",
];

/// Programs that change a folder, not what is in a file: leave for the file would
/// not do, and the run tells what they need.
const OF_FOLDERS: [&str; 7] = ["install", "ln", "mkdir", "mv", "rm", "rmdir", "unlink"];

/// Paths that are asked for at once.
const MOST: usize = 8;

/// The files that the line's words name and the plan closes. Blocking: it looks
/// whether they are there.
pub(super) fn files(line: &Line, directory: &Path, home: &Path, plan: Plan) -> FilePermissions {
    let mut found = FilePermissions::default();
    let moves = |command: &Command| {
        matches!(command.name(), None | Some("cd" | "pushd" | "popd" | "eval" | "builtin"))
    };
    // Only the run tells where it is by then.
    if line.trouble.is_some() || line.commands.iter().any(moves) {
        return found;
    }
    let ran = Ran { plan, missed_network: false };
    let mut note = |word: &Word, access: Access| {
        let Some(path) = place(word, directory, home) else { return };
        let list = match access {
            Access::Read => &mut found.read,
            Access::Write => &mut found.write,
        };
        let closed = ran.refuses(&path, access) && (access == Access::Write || path.exists());
        if let Some(path) = exact(&path, home).filter(|path| closed && !list.contains(path))
            && list.len() < MOST
        {
            list.push(path);
        }
    };
    let targets = |kinds: &[RedirectionKind]| -> Vec<&Redirection> {
        let of_kind = |found: &&Redirection| kinds.contains(&found.kind);
        let counts = |found: &&Redirection| !bash::redirects_nowhere(found);
        line.redirections.iter().filter(of_kind).filter(counts).collect()
    };
    for written in targets(&[RedirectionKind::Write, RedirectionKind::Append]) {
        note(&written.target, Access::Write);
    }
    for read in targets(&[RedirectionKind::Read]) {
        note(&read.target, Access::Read);
    }
    // What git itself writes and reads is another matter.
    for command in line.commands.iter().filter(|command| command.name() != Some("git")) {
        if !command.name().is_some_and(|name| OF_FOLDERS.contains(&name)) {
            bash::written(command).iter().for_each(|word| note(word, Access::Write));
        }
        if command.name().is_some_and(|name| READERS.contains(&name)) {
            command.arguments().iter().for_each(|word| note(word, Access::Read));
        }
    }
    found
}

/// Names what is hidden and to be written as read too: who may rename a secret may
/// read it under its new name.
pub(super) fn name_hidden(files: &mut FilePermissions, plan: Plan) {
    let ran = Ran { plan, missed_network: false };
    for path in &files.write {
        if ran.refuses(path, Access::Read) && !files.read.contains(path) {
            files.read.push(path.clone());
        }
    }
}

/// The place that the word names, when its text alone tells.
fn place(word: &Word, directory: &Path, home: &Path) -> Option<PathBuf> {
    let text = word.text.as_deref().filter(|text| !text.is_empty() && !text.starts_with('-'))?;
    if let Some(below) = text.strip_prefix("~/").filter(|_| !word.quoted) {
        let plain = !below.contains(['*', '?', '[', '{']);
        return plain.then(|| lexical(home, Path::new(below)));
    }
    (!word.glob).then(|| lexical(directory, Path::new(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_words_name_and_the_sandbox_closes_is_asked_for_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("a path");
        let (work, home) = (root.join("w"), root.join("home"));
        for place in [&work, &home, &root.join("other")] {
            std::fs::create_dir(place).expect("a folder");
        }
        for path in [work.join(".env"), work.join("a"), home.join(".npmrc")] {
            std::fs::write(path, "x").expect("a file");
        }
        let asked = |command: &str| {
            let mut plan = Plan::new(root.join("tmp"));
            plan.confine = true;
            plan.writable.push(work.clone());
            plan.read_only.push(work.join(".mcp.json"));
            plan.hidden.extend([work.join(".env"), home.join(".npmrc")]);
            let found = files(&bash::analyse(command), &work, &home, plan);
            let shown = |paths: Vec<PathBuf>| {
                let short = |path: &PathBuf| path.strip_prefix(&root).map(Path::to_path_buf);
                let texts = paths.iter().filter_map(|path| short(path).ok());
                texts.map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
            };
            (shown(found.read), shown(found.write))
        };
        for (command, read, write) in [
            ("cat .env", "w/.env", ""),
            ("cat a; head -n 3 ~/.npmrc", "home/.npmrc", ""),
            ("wc -l < .env", "w/.env", ""),
            ("echo x > ../other/z", "", "other/z"),
            ("echo x > .mcp.json", "", "w/.mcp.json"),
            ("echo x > b 2>/dev/null; cp a b", "", ""),
            ("cp a ../other/b; rm .env; mkdir ../other/c", "", "other/b"),
            // It need not be read for that, or only the run tells what it is.
            ("echo .env", "", ""),
            ("cd sub && cat .env", "", ""),
            ("cat \"$X\"; cat none", "", ""),
        ] {
            assert_eq!(asked(command), (read.to_owned(), write.to_owned()), "{command}");
        }
    }
}
