//! Finds the executable files of an extension: scripts and programs that hooks, servers, skills,
//! and the model may start. Their behavior cannot be summarized in a line, so versions are compared
//! by content.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use parallax_config::extensions::{files_of, is_executable_name, is_program};
use sha2::{Digest as _, Sha256};

/// Maximum number of names that are shown.
const MAX_SHOWN: usize = 12;

/// Magic bytes of programs: a shebang, ELF, Mach-O, PE, and a zip file that Python runs.
const BEGINNINGS: &[&[u8]] = &[
    b"#!",
    b"\x7fELF",
    b"MZ",
    b"\xcf\xfa\xed\xfe",
    b"\xce\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
    b"PK\x03\x04",
    b"\0asm",
];

/// Returns the executable files with their hashes. A file counts as executable by its name, first
/// bytes, or mode, or if a line of the review names it. Blocking.
///
/// # Errors
/// Returns an error if a file cannot be read.
pub(super) fn programs(directory: &Path, lines: &[String]) -> io::Result<BTreeMap<String, String>> {
    let is_end = |char: char| char.is_whitespace() || "\"'`;|&()<>=,".contains(char);
    let words = || lines.iter().flat_map(|line| line.split(is_end));
    let mut found = BTreeMap::new();
    for file in files_of(directory)? {
        let path = directory.join(&file);
        let Ok(metadata) = path.metadata() else { continue };
        if !metadata.is_file() {
            continue;
        }
        let name = file.to_string_lossy().replace('\\', "/");
        let last = name.rsplit('/').next().unwrap_or_default().to_lowercase();
        let is_text_of_ours = [".md", ".toml"].iter().any(|end| last.ends_with(end))
            && ["commands/", "agents/", "policies/"].iter().any(|place| name.starts_with(place));
        let suffixes = [format!("/{name}"), format!("}}{name}")];
        let is_name = |word: &str| word == name || suffixes.iter().any(|end| word.ends_with(end));
        let mut content = OpenedFile::open(&path)?;
        let runs = !is_text_of_ours
            && (is_executable_name(&last)
                || is_program(&metadata)
                || BEGINNINGS.iter().any(|beginning| content.head.starts_with(beginning))
                || words().any(is_name));
        if runs {
            found.insert(name, content.hash()?);
        }
    }
    Ok(found)
}

/// Formats the line of the review that lists the programs.
pub(super) fn format_programs(programs: &BTreeMap<String, String>) -> Option<String> {
    (!programs.is_empty())
        .then(|| format!("executable files: {}", names(programs.keys().map(String::as_str))))
}

/// Returns a line each for the programs that are new and those that changed.
pub(super) fn program_changes(
    now: &BTreeMap<String, String>,
    before: &BTreeMap<String, String>,
) -> Vec<String> {
    let line = |what: &str, is_meant: &dyn Fn(Option<&String>, &String) -> bool| {
        let changed: Vec<&str> = now
            .iter()
            .filter(|(name, hash)| is_meant(before.get(*name), hash))
            .map(|(name, _)| name.as_str())
            .collect();
        (!changed.is_empty()).then(|| format!("{what}: {}", names(changed.into_iter())))
    };
    let new = line("new executable files", &|before, _| before.is_none());
    let others =
        line("changed executable files", &|before, now| before.is_some_and(|before| before != now));
    new.into_iter().chain(others).collect()
}

fn names<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(MAX_SHOWN);
    let listed: Vec<String> = names.take(MAX_SHOWN).map(|name| format!("`{name}`")).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", listed.join(", "))
}

/// Returns the SHA-256 hash of bytes in hexadecimal.
pub(super) fn hash(bytes: &[u8]) -> String {
    to_hex(&Sha256::digest(bytes))
}

fn to_hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// An open file with its first bytes.
struct OpenedFile {
    file: File,
    head: Vec<u8>,
}

impl OpenedFile {
    fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut head = Vec::new();
        file.by_ref().take(8).read_to_end(&mut head)?;
        Ok(Self { file, head })
    }

    fn hash(&mut self) -> io::Result<String> {
        let mut hash = Sha256::new();
        hash.update(&self.head);
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let count = self.file.read(&mut buffer)?;
            let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else { break };
            hash.update(bytes);
        }
        Ok(to_hex(&hash.finalize()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executable_files_are_distinguished_from_text_files() {
        let directory = tempfile::tempdir().expect("directory");
        for (path, text) in [
            ("h.sh", "x"),
            ("skills/s/run", "#!/bin/sh"),
            ("skills/s/SKILL.md", "x"),
            ("lib/a.mjs", "x"),
            ("bin/tool", "\x7fELF"),
            ("serve.xyz", "x"),
            ("package.json", "{}"),
            ("README.md", "# no program"),
            ("commands/a.toml", "#!x"),
            ("data.json", "{}"),
        ] {
            let path = directory.path().join(path);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("directory");
            std::fs::write(path, text).expect("written");
        }
        let lines = ["MCP server `s`: runs `odd ${extensionPath}/serve.xyz`".to_owned()];
        let found = programs(directory.path(), &lines).expect("read");
        let found_names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(
            found_names,
            ["bin/tool", "h.sh", "lib/a.mjs", "package.json", "serve.xyz", "skills/s/run"]
        );
        std::fs::write(directory.path().join("h.sh"), "y").expect("written");
        let later = programs(directory.path(), &lines).expect("read");
        assert_eq!(program_changes(&later, &found), ["changed executable files: `h.sh`"]);
        assert_eq!(program_changes(&found, &found), Vec::<String>::new());
        std::fs::write(directory.path().join("new.py"), "y").expect("written");
        let later = programs(directory.path(), &lines).expect("read");
        assert_eq!(program_changes(&later, &found)[0], "new executable files: `new.py`");
    }
}
