//! The current plan of an open session.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use parallax_files::{Access, ExpectedState, atomic_write, read_capped};

use crate::open::OpenSession;

/// Maximum bytes of a displayed plan.
const MAX_BYTES: u64 = 256 * 1024;
/// A plan file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanFile {
    /// Path of the file.
    pub path: PathBuf,
    /// The Markdown text.
    pub text: String,
}

impl OpenSession {
    /// Returns the plan that was changed last. Blocks briefly.
    pub fn plan(&self) -> Option<PlanFile> {
        let path = newest_plan(&self.plans)?;
        let file = self.workspace.confine(&path, Access::Read).ok()?;
        let (bytes, _) = read_capped(&file, MAX_BYTES).ok()?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        (!text.trim().is_empty()).then_some(PlanFile { path, text })
    }

    /// Replaces the text of a plan file, as edited by the user. Blocks briefly.
    ///
    /// # Errors
    /// Returns an error if the file is not in the directory for plans or cannot be written.
    pub fn write_plan(&self, path: &Path, text: &str) -> Result<(), String> {
        let file =
            self.workspace.confine(path, Access::Write).map_err(|error| error.to_string())?;
        if !file.path().starts_with(&self.plans) {
            return Err(format!("`{}` is not a plan", path.display()));
        }
        atomic_write(&file, text.as_bytes(), ExpectedState::Anything)
            .map(drop)
            .map_err(|error| error.to_string())
    }
}

/// Returns the Markdown file of the directory that was changed last.
fn newest_plan(directory: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?.flatten();
    let plans = entries.filter_map(|entry| {
        let metadata = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
        let path = entry.path();
        let is_plan = path.extension().is_some_and(|end| end == "md");
        is_plan.then(|| (metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), path))
    });
    plans.max().map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::newest_plan;

    #[test]
    fn latest_changed_plan_is_chosen() {
        let directory = tempfile::tempdir().expect("tempdir");
        assert_eq!(newest_plan(&directory.path().join("missing")), None);
        let start = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        for (name, age) in [("a.md", 2), ("b.md", 3), ("c.txt", 9)] {
            let file = std::fs::File::create(directory.path().join(name)).expect("file");
            file.set_modified(start + Duration::from_secs(age)).expect("time");
        }
        assert_eq!(newest_plan(directory.path()), Some(directory.path().join("b.md")));
    }
}
