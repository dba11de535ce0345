//! The folders of a workspace beside the project's: taken back when a session is
//! resumed, and told to the model when they are added.

use std::path::PathBuf;
use std::sync::Arc;

use parallax_config::{SessionContext, session_context};
use parallax_engine::DescribeDirectories;
use parallax_files::{Workspace, folder_tree_of};
use parallax_protocol::event::FailureKind;
use parallax_protocol::store::{Record, directories};

use crate::launch::{Launch, failure};
use crate::memory::TREE_ENTRIES;

impl Launch {
    /// The folders that a resumed session had beside those that are `given` now.
    /// Trust is asked for anew: one that is not trusted, or not there, is told of
    /// and left out. Blocking.
    pub(crate) fn directories_of(
        &self,
        records: &[Record],
        given: &[PathBuf],
    ) -> (Vec<PathBuf>, Vec<String>) {
        let real = |path: &PathBuf| {
            let path = self.options.directory.join(path);
            std::fs::canonicalize(&path).unwrap_or(path)
        };
        let given: Vec<PathBuf> = given.iter().map(real).collect();
        let (mut kept, mut notices) = (Vec::new(), Vec::new());
        for folder in directories(records).iter().filter(|folder| !given.contains(folder)) {
            // They are kept as they were in truth: what leads elsewhere by now is
            // another folder, and an agent may have made the link.
            let moved = std::fs::canonicalize(folder).is_ok_and(|now| now != *folder);
            let taken = match moved {
                true => Err(failure(
                    FailureKind::Input,
                    format!("`{}` is a link to another folder now", folder.display()),
                )),
                false => self.folder_to_add(&folder.display().to_string()),
            };
            match taken {
                Ok(folder) => kept.push(folder),
                Err(failure) => notices.push(format!(
                    "a folder that this session worked in is left out: {}; `/directory add {}` \
                     takes it back",
                    failure.message,
                    folder.display()
                )),
            }
        }
        (kept, notices)
    }

    /// What the model is told of folders that were added.
    pub(crate) fn describe_directories(&self, workspace: &Arc<Workspace>) -> DescribeDirectories {
        let with_tree = self.config.settings.include_directory_tree();
        let workspace = Arc::clone(workspace);
        Arc::new(move |added| described(&workspace, added, with_tree))
    }
}

/// The context block on some folders of the workspace.
fn described(workspace: &Workspace, added: &[PathBuf], with_tree: bool) -> String {
    session_context(&SessionContext {
        directories: workspace.roots(),
        tree: match with_tree {
            true => folder_tree_of(workspace, added, TREE_ENTRIES),
            false => String::new(),
        },
        ..SessionContext::default()
    })
}
