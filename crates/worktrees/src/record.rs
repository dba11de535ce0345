//! Writes the records of worktrees.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use parallax_config::worktrees::{WorktreeRecord, read_record, record_file};
use parallax_protocol::event::Failure;
use rustix::fs::{FlockOperation, flock};

use crate::{failure, manage};

/// Writes and locks the record of a new worktree. A record that exists is never empty or partial.
pub(super) fn write(project: &Path, record: &WorktreeRecord) -> Result<File, Failure> {
    let file = record_file(project, &record.name);
    if file.exists() {
        remove_damaged(&file, record)?;
    }
    create(project, &file, record).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => failure(format!(
            "The worktree `{0}` already exists; continue with `parallax worktrees open {0}`",
            record.name
        )),
        _ => failure(format!("Failed to write `{}`: {error}", file.display())),
    })
}

/// Removes a record that cannot be read, unless its worktree exists or a process is using it.
fn remove_damaged(file: &Path, record: &WorktreeRecord) -> Result<(), Failure> {
    if read_record(file).is_ok() {
        return Ok(());
    }
    let Some(_lock) = manage::lock_if_unused(file) else { return Ok(()) };
    if record.path.symlink_metadata().is_ok() {
        return Err(failure(format!(
            "The record `{}` of the worktree `{}` is damaged; choose another name, or remove both",
            file.display(),
            record.path.display()
        )));
    }
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failure(format!("Failed to remove `{}`: {error}", file.display())))
        }
        _ => Ok(()),
    }
}

fn create(project: &Path, file: &Path, record: &WorktreeRecord) -> io::Result<File> {
    let text = serde_json::to_string(record)?;
    let id = uuid::Uuid::new_v4().simple();
    // No worktree has a name with a dot at its start.
    let part = project.join(format!(".{}.{id}.part", record.name));
    let mut opened = OpenOptions::new().write(true).create_new(true).open(&part)?;
    let written = opened.write_all(text.as_bytes()).and_then(|()| {
        flock(&opened, FlockOperation::NonBlockingLockExclusive)?;
        // A link, unlike a rename, replaces no other record.
        match fs::hard_link(&part, file) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists && !file.exists() => {
                // The file system has no links.
                fs::rename(&part, file)
            }
            linked => linked,
        }
    });
    // It is gone after a rename.
    let _ = fs::remove_file(&part);
    written.map(|()| opened)
}
