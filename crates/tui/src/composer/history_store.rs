//! Earlier inputs on the disk: one JSON text a line, so that line breaks do no
//! harm. Several processes may add at once; none loses what another added.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Entries longer than this are not kept.
const MAX_ENTRY: usize = 256 * 1024;
/// What is read of a file at most: its end.
const MAX_READ: u64 = 16 * 1024 * 1024;

/// One file of earlier inputs.
#[derive(Debug, Clone)]
pub struct HistoryStore {
    folder: PathBuf,
    name: &'static str,
    limit: usize,
}

impl HistoryStore {
    /// The prompts of a project, in `folder`.
    pub fn prompts(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), name: "prompt_history.jsonl", limit: super::HISTORY }
    }

    /// The shell commands of a project, in `folder`.
    pub fn commands(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), name: "shell_history.jsonl", limit: 100 }
    }

    fn path(&self) -> PathBuf {
        self.folder.join(self.name)
    }

    /// The entries, the oldest first. A missing file is an empty one; lines
    /// that are no JSON text are passed over. Reads the disk.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn load(&self) -> io::Result<Vec<String>> {
        let file = match File::open(self.path()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut entries = read(file)?;
        entries.drain(..entries.len().saturating_sub(self.limit));
        Ok(entries)
    }

    /// Adds an entry, unless it is the last one already. Blank and very long
    /// ones are not kept. Waits for other processes that add; writes the disk.
    ///
    /// # Errors
    /// When the file or its folder cannot be written.
    pub fn append(&self, entry: &str) -> io::Result<()> {
        if entry.trim().is_empty() || entry.len() > MAX_ENTRY {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        // The lock is a file of its own: the other one may be exchanged.
        let lock = private()
            .write(true)
            .create(true)
            .open(self.folder.join(format!("{}.lock", self.name)))?;
        lock.lock()?;
        let mut file = private().read(true).append(true).create(true).open(self.path())?;
        let entries = read(file.try_clone()?)?;
        if entries.last().is_some_and(|last| last == entry) {
            return Ok(());
        }
        let mut line = serde_json::to_string(entry)?;
        line.push('\n');
        if entries.len() >= self.limit * 2 {
            return self.rewrite(&entries, &line);
        }
        if is_torn(&mut file)? {
            line.insert(0, '\n');
        }
        file.write_all(line.as_bytes())
    }

    /// Writes only the newest entries and `line`, into a file that takes the
    /// place of the other.
    fn rewrite(&self, entries: &[String], line: &str) -> io::Result<()> {
        let new = self.folder.join(format!("{}.new", self.name));
        let mut text = String::new();
        for entry in entries.iter().skip(entries.len().saturating_sub(self.limit - 1)) {
            text.push_str(&serde_json::to_string(entry)?);
            text.push('\n');
        }
        text.push_str(line);
        private().write(true).create(true).truncate(true).open(&new)?.write_all(text.as_bytes())?;
        std::fs::rename(new, self.path())
    }
}

/// Files that only their owner reads.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Whether the last line has no end: its writer was killed.
fn is_torn(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

fn read(mut file: File) -> io::Result<Vec<String>> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MAX_READ)))?;
    let mut bytes = Vec::new();
    file.take(MAX_READ).read_to_end(&mut bytes)?;
    let mut entries: Vec<String> = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Ok(entry) = serde_json::from_slice::<String>(line)
            && entries.last() != Some(&entry)
        {
            entries.push(entry);
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn entries_come_back_whole_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let store = HistoryStore::prompts(&folder.path().join("a/b"));
        assert_eq!(store.load().unwrap(), [] as [String; 0]);
        for entry in ["one", "two\nrows \u{2028}\"x\"", "two\nrows \u{2028}\"x\"", " ", "one"] {
            store.append(entry).unwrap();
        }
        assert_eq!(store.load().unwrap(), ["one", "two\nrows \u{2028}\"x\"", "one"]);
        let mode = std::fs::metadata(store.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_torn_line_costs_only_itself() {
        let folder = tempfile::tempdir().unwrap();
        let store = HistoryStore::commands(folder.path());
        store.append("one").unwrap();
        let mut text = std::fs::read(store.path()).unwrap();
        text.extend(b"\"tor");
        std::fs::write(store.path(), text).unwrap();
        store.append("two").unwrap();
        assert_eq!(store.load().unwrap(), ["one", "two"]);
    }

    #[test]
    fn only_the_newest_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let store = HistoryStore::commands(folder.path());
        for number in 0..450 {
            store.append(&number.to_string()).unwrap();
        }
        let entries = store.load().unwrap();
        assert_eq!((entries.len(), entries.last().unwrap().as_str()), (100, "449"));
        let lines = std::fs::read_to_string(store.path()).unwrap().lines().count();
        assert!((100..=200).contains(&lines), "{lines}");
    }

    #[test]
    fn several_writers_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let store = HistoryStore::prompts(folder.path());
                scope.spawn(move || {
                    for number in 0..100 {
                        store.append(&format!("{writer}-{number}")).unwrap();
                    }
                });
            }
        });
        let entries = HistoryStore::prompts(folder.path()).load().unwrap();
        for writer in 0..8 {
            let own: Vec<&String> =
                entries.iter().filter(|entry| entry.starts_with(&format!("{writer}-"))).collect();
            assert_eq!(own.len(), 100);
            assert_eq!(own[99], &format!("{writer}-99"));
        }
    }
}
