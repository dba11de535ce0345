//! Creates missing paths that a command may write: only existing paths can be opened in a sandbox,
//! and opening the parent directory would exceed the approval.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use parallax_policy::bash::ShellLine;

/// An empty file or directory that was created.
#[derive(Debug)]
pub(super) struct PrecreatedPath {
    path: PathBuf,
    /// The marker time of a file, which shows whether it was written; `None` for a directory.
    marker_time: Option<SystemTime>,
}

/// Creates the missing `paths`, with their parents: as a directory if the line creates one there,
/// else as an empty file. Failures are left for the command to report. Blocking.
pub(super) fn create(paths: &[PathBuf], line: &ShellLine, directory: &Path) -> Vec<PrecreatedPath> {
    let mut created = Vec::new();
    for path in paths {
        if path.symlink_metadata().is_ok() {
            continue;
        }
        let is_directory = creates_directory(line, path, directory);
        let parent = if is_directory { path.as_path() } else { path.parent().unwrap_or(path) };
        let missing: Vec<&Path> = parent
            .ancestors()
            .take_while(|directory| directory.symlink_metadata().is_err())
            .collect();
        for directory in missing.into_iter().rev() {
            if std::fs::create_dir(directory).is_ok() {
                created.push(PrecreatedPath { path: directory.to_owned(), marker_time: None });
            }
        }
        if is_directory {
            continue;
        }
        // `create_new` follows no link.
        if let Ok(file) = OpenOptions::new().write(true).create_new(true).open(path) {
            created.push(PrecreatedPath {
                path: path.clone(),
                marker_time: Some(set_untouched_time(&file)),
            });
        }
    }
    created
}

/// Sets a modification time that no write would produce.
fn set_untouched_time(file: &File) -> SystemTime {
    let _ = file.set_modified(SystemTime::UNIX_EPOCH);
    SystemTime::UNIX_EPOCH
}

/// Whether the line creates a directory at the path.
fn creates_directory(line: &ShellLine, path: &Path, directory: &Path) -> bool {
    line.commands.iter().filter(|command| command.name() == Some("mkdir")).any(|command| {
        command.words.iter().skip(1).filter_map(|word| word.text.as_deref()).any(|word| {
            let word = Path::new(word);
            directory.join(word).starts_with(path)
        })
    })
}

/// Removes unused paths, so that a denial or a failure leaves nothing behind.
pub(super) async fn remove_unused(made: Vec<PrecreatedPath>) {
    if made.is_empty() {
        return;
    }
    let remove_task = tokio::task::spawn_blocking(move || {
        let mut unused = false;
        for PrecreatedPath { path, marker_time } in made.iter().rev() {
            match marker_time {
                Some(time) => {
                    let data = path.symlink_metadata().ok().filter(std::fs::Metadata::is_file);
                    unused = data.is_some_and(|data| {
                        data.len() == 0 && data.modified().is_ok_and(|at| at == *time)
                    });
                    if unused {
                        let _ = std::fs::remove_file(path);
                    }
                }
                // Only an empty directory is removed, and only together with the file that it was
                // created for.
                None if unused => {
                    let _ = std::fs::remove_dir(path);
                }
                None => {}
            }
        }
    });
    let _ = remove_task.await;
}

#[cfg(test)]
mod tests {
    use parallax_policy::bash;

    use super::*;

    #[tokio::test]
    async fn named_path_is_precreated_and_removed_when_unused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("aa/bb/c.txt");
        let line = bash::analyze("true");
        let created = create(std::slice::from_ref(&file), &line, directory.path());
        assert!(file.is_file() && created.len() == 3);
        remove_unused(created).await;
        assert!(!directory.path().join("aa").exists());
        // A file that a command wrote, even without content, is kept.
        let created = create(std::slice::from_ref(&file), &line, directory.path());
        std::fs::write(&file, "").unwrap();
        remove_unused(created).await;
        assert!(file.is_file());
        // An existing file is left alone.
        assert!(create(&[file], &line, directory.path()).is_empty());
    }

    #[tokio::test]
    async fn precreated_directory_is_kept_when_the_line_creates_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new");
        let line = bash::analyze("mkdir -p new/inner && echo x > new/inner/a");
        let created = create(std::slice::from_ref(&path), &line, directory.path());
        assert!(path.is_dir());
        remove_unused(created).await;
        assert!(path.is_dir());
    }
}
