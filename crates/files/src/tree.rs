//! The directory tree that is shown to the model at the start.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use crate::confined::EntryKind;
use crate::ignore_rules::{IgnoreFlags, IgnoreRules};
use crate::workspace::{Access, Workspace};

/// Maximum number of entries read per directory; a directory with more is shown as truncated.
const MAX_ENTRIES: usize = 5_000;
/// Directories that are listed but never entered.
const NOT_ENTERED: [&str; 4] = ["node_modules", ".git", "dist", "__pycache__"];

#[derive(Default)]
struct TreeNode {
    name: String,
    files: Vec<String>,
    folders: Vec<usize>,
    /// Whether it contains more than is shown.
    is_truncated: bool,
}

/// Draws the workspace directories, breadth first, with at most `max_items` files and
/// directories in total. Directories end in `/`; `...` marks what is not shown. Ignored files
/// are omitted, ignored directories are not entered.
pub fn folder_tree(workspace: &Workspace, max_items: usize) -> String {
    folder_tree_of(workspace, &workspace.roots(), max_items)
}

/// Like [`folder_tree`], for some directories of the workspace.
pub fn folder_tree_of(workspace: &Workspace, roots: &[PathBuf], max_items: usize) -> String {
    let rules = workspace.ignore_rules(IgnoreFlags::from_settings(workspace.ignore_options()));
    let mut text = String::new();
    let mut is_cut = false;
    let mut remaining = max_items;
    for root in roots {
        let nodes = collect_nodes(workspace, &rules, root, &mut remaining);
        is_cut |= nodes.iter().any(|node| node.is_truncated);
        text.push_str(&format!("\n\n{}", root.display()));
        if !text.ends_with('/') {
            text.push('/');
        }
        text.push('\n');
        if let Some(top) = nodes.first() {
            draw(&nodes, top, "", &mut text);
        }
        text.truncate(text.trim_end().len());
    }
    let head = match is_cut {
        true => format!(
            "Files (`...` marks entries that are ignored, or omitted after {max_items} files and directories):"
        ),
        false => "Files:".to_owned(),
    };
    head + &text
}

/// Reads directories breadth first until the items are used up.
fn collect_nodes(
    workspace: &Workspace,
    rules: &IgnoreRules,
    root: &Path,
    remaining: &mut usize,
) -> Vec<TreeNode> {
    let mut nodes = vec![TreeNode::default()];
    let moved = workspace.moved_files();
    let mut queue: VecDeque<(usize, PathBuf)> = VecDeque::from([(0, root.to_path_buf())]);
    while let Some((index, path)) = queue.pop_front() {
        let listing = workspace
            .confine(&path, Access::Read)
            .ok()
            .filter(|_| *remaining > 0)
            .and_then(|directory| directory.list(MAX_ENTRIES).ok());
        let Some(listing) = listing else {
            if let Some(node) = nodes.get_mut(index) {
                node.is_truncated = true;
            }
            continue;
        };
        let mut cut = listing.is_truncated;
        let mut entries = listing.entries;
        entries.sort_by(|one, two| one.name.cmp(&two.name));
        let (folders, files): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|entry| entry.kind == EntryKind::Directory);
        let mut shown_files = Vec::new();
        for file in files {
            let path = path.join(&file.name);
            if rules.entry(&path, false).is_some() || moved.former_path(&path).is_some() {
                continue;
            }
            if *remaining == 0 {
                cut = true;
                break;
            }
            *remaining -= 1;
            shown_files.push(sanitize_name(&file.name));
        }
        let mut shown_directories = Vec::new();
        for directory in folders {
            if *remaining == 0 {
                cut = true;
                break;
            }
            *remaining -= 1;
            let path = path.join(&directory.name);
            let closed = NOT_ENTERED.iter().any(|name| directory.name == *name)
                || rules.entry(&path, true).is_some()
                || moved.former_path(&path).is_some();
            let child = nodes.len();
            nodes.push(TreeNode {
                name: sanitize_name(&directory.name),
                is_truncated: closed,
                ..TreeNode::default()
            });
            shown_directories.push(child);
            if !closed {
                queue.push_back((child, path));
            }
        }
        if let Some(node) = nodes.get_mut(index) {
            node.files = shown_files;
            node.folders = shown_directories;
            node.is_truncated = cut;
        }
    }
    nodes
}

/// Returns a name on one line, because control characters could fake further lines.
fn sanitize_name(name: &std::ffi::OsStr) -> String {
    name.to_string_lossy()
        .chars()
        .map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

fn draw(nodes: &[TreeNode], node: &TreeNode, indent: &str, text: &mut String) {
    let directories: Vec<&TreeNode> =
        node.folders.iter().filter_map(|child| nodes.get(*child)).collect();
    let mut rows = node.files.len() + directories.len() + usize::from(node.is_truncated);
    let mut branch = || {
        rows -= 1;
        if rows == 0 { ("└───", "    ") } else { ("├───", "│   ") }
    };
    for file in &node.files {
        text.push_str(&format!("{indent}{}{file}\n", branch().0));
    }
    for directory in directories {
        let (line, further) = branch();
        let closed =
            directory.is_truncated && directory.files.is_empty() && directory.folders.is_empty();
        let mark = if closed { "..." } else { "" };
        text.push_str(&format!("{indent}{line}{}/{mark}\n", directory.name));
        if !closed {
            draw(nodes, directory, &format!("{indent}{further}"), text);
        }
    }
    if node.is_truncated {
        text.push_str(&format!("{indent}{}...\n", branch().0));
    }
}
