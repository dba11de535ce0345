//! Plan mode in the tools that change files: they may write only plans, and a relative path may
//! name a file in the plan directory.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use parallax_files::Workspace;
use parallax_protocol::policy::ApprovalMode;

/// The plan directory, if there is one.
#[derive(Debug, Clone, Default)]
pub(crate) struct PlanFiles {
    folder: Option<PathBuf>,
}

impl PlanFiles {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { folder: Some(directory) }
    }

    /// Resolves the path: in plan mode, a relative path of a missing file is relative to the plan
    /// directory.
    pub(crate) fn resolve_path<'a>(
        &self,
        text: &'a str,
        mode: ApprovalMode,
        workspace: &Workspace,
    ) -> Cow<'a, str> {
        let path = Path::new(text);
        let is_plan = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("md"));
        let Some(folder) = self.folder.as_ref().filter(|_| mode == ApprovalMode::Plan) else {
            return Cow::Borrowed(text);
        };
        let path_from_root = parallax_files::join_lexically(workspace.root(), path);
        if !is_plan
            || path.is_absolute()
            || path_from_root.starts_with(folder)
            || path_from_root.exists()
        {
            return Cow::Borrowed(text);
        }
        Cow::Owned(folder.join(path).to_string_lossy().into_owned())
    }

    /// Returns the tool description for the mode.
    pub(crate) fn describe<'a>(&self, usual: &'a str, mode: ApprovalMode) -> Cow<'a, str> {
        match self.folder.as_ref().filter(|_| mode == ApprovalMode::Plan) {
            None => Cow::Borrowed(usual),
            Some(folder) => Cow::Owned(format!(
                "PLAN MODE: this tool may only write plans, `.md` files in `{}` (a relative path \
                 starts there); every other file is rejected. {usual}",
                folder.display()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use parallax_files::WorkspaceOptions;
    use parallax_protocol::policy::ApprovalMode::{Default, Plan};

    use super::*;

    #[test]
    fn plan_path_in_its_directory_is_accepted() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("a path");
        std::fs::write(root.join("README.md"), "").expect("a file");
        let options = WorkspaceOptions { root: root.clone(), ..WorkspaceOptions::default() };
        let workspace = Workspace::new(options).expect("a workspace");
        let files = PlanFiles::new(root.join("plans"));
        let within = root.join("plans/p.md").display().to_string();
        for (text, mode, expected) in [
            ("p.md", Plan, within.as_str()),
            ("p.md", Default, "p.md"),
            ("plans/p.md", Plan, "plans/p.md"),
            ("README.md", Plan, "README.md"),
            ("main.rs", Plan, "main.rs"),
            ("/x/p.md", Plan, "/x/p.md"),
        ] {
            assert_eq!(files.resolve_path(text, mode, &workspace), expected, "{text}");
        }
        assert!(files.describe("Writes.", Plan).starts_with("PLAN MODE:"));
        assert_eq!(files.describe("Writes.", Default), "Writes.");
    }
}
