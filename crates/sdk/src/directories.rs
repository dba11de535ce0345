//! Additional workspace directories: restoring them on resume, and describing them to the model
//! when they are added.

use std::path::PathBuf;
use std::sync::Arc;

use parallax_config::{SessionContext, session_context};
use parallax_context_files::TREE_ENTRIES;
use parallax_engine::DescribeDirectories;
use parallax_files::{Workspace, folder_tree_of};
use parallax_protocol::event::FailureKind;
use parallax_protocol::store::{Record, directories};

use crate::session_config::{SessionConfig, failure};

/// Returns the directories of a resumed session that are not among the `requested` ones, with
/// notices. Trust is checked again: an untrusted or missing directory is skipped with a notice.
/// Blocking.
pub(crate) fn restored_directories(
    launch: &SessionConfig,
    records: &[Record],
    requested: &[PathBuf],
) -> (Vec<PathBuf>, Vec<String>) {
    let real = |path: &PathBuf| {
        let path = launch.options.directory.join(path);
        std::fs::canonicalize(&path).unwrap_or(path)
    };
    let requested: Vec<PathBuf> = requested.iter().map(real).collect();
    let (mut directories_in_use, mut notices) = (Vec::new(), Vec::new());
    for directory in directories(records).iter().filter(|directory| !requested.contains(directory))
    {
        // Directories were recorded with links resolved. If the path is a link now, it is a
        // different directory, and an agent may have created the link.
        let moved = std::fs::canonicalize(directory).is_ok_and(|now| now != *directory);
        let restored = match moved {
            true => Err(failure(
                FailureKind::Input,
                format!("`{}` is now a link to another directory", directory.display()),
            )),
            false => launch.trust_manager().folder_to_add(&directory.display().to_string()),
        };
        match restored {
            Ok(directory) => directories_in_use.push(directory),
            Err(failure) => notices.push(format!(
                "a directory of this session was not added: {}; `/directory add {}` adds it \
                 again",
                failure.message,
                directory.display()
            )),
        }
    }
    (directories_in_use, notices)
}

/// Returns the function that describes added directories to the model.
pub(crate) fn describe_directories(
    launch: &SessionConfig,
    workspace: &Arc<Workspace>,
) -> DescribeDirectories {
    let with_tree = launch.config.settings.include_directory_tree();
    let workspace = Arc::clone(workspace);
    Arc::new(move |added| build_directories_block(&workspace, added, with_tree))
}

/// Builds the context block about directories of the workspace.
fn build_directories_block(workspace: &Workspace, added: &[PathBuf], with_tree: bool) -> String {
    session_context(&SessionContext {
        directories: workspace.roots(),
        tree: match with_tree {
            true => folder_tree_of(workspace, added, TREE_ENTRIES),
            false => String::new(),
        },
        ..SessionContext::default()
    })
}
