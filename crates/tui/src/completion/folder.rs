//! Completes paths that are not in the project's list, from the entries of one directory.

use std::path::{Path, PathBuf};

/// Maximum number of directory entries examined.
const MAX_ENTRIES: usize = 10_000;

/// Whether a query is a path and not a search in the project.
pub fn is_path(query: &str) -> bool {
    ["/", "~/", "./", "../"].iter().any(|start| query.starts_with(start)) || query == ".."
}

/// Returns the paths with the prefix `query` in alphabetical order, directories with a trailing
/// `/`. Relative paths start in `root`. Hidden entries are included only if the query asks for
/// them. Reads the directory.
pub fn entries(root: &Path, query: &str, limit: usize) -> Vec<String> {
    let split = query.rfind('/').map_or(0, |offset| offset + 1);
    let (folder, name) = query.split_at(split);
    let directory = match folder.strip_prefix("~/") {
        Some(rest) => std::env::home_dir().map(|home| home.join(rest)),
        None => Some(root.join(folder)),
    };
    let Some(Ok(entries)) = directory.map(|directory: PathBuf| std::fs::read_dir(directory)) else {
        return Vec::new();
    };
    let mut found: Vec<String> = entries
        .take(MAX_ENTRIES)
        .flatten()
        .filter_map(|entry| {
            let own = entry.file_name().into_string().ok()?;
            let hidden = own.starts_with('.') && !name.starts_with('.');
            if hidden || !own.to_lowercase().starts_with(&name.to_lowercase()) {
                return None;
            }
            let end = if entry.path().is_dir() { "/" } else { "" };
            Some(format!("{folder}{own}{end}"))
        })
        .collect();
    found.sort();
    found.truncate(limit);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_is_completed_as_written() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("sub/Inner")).unwrap();
        std::fs::write(root.path().join("sub/index.md"), "").unwrap();
        std::fs::write(root.path().join("sub/.hidden"), "").unwrap();
        let list = |query: &str| entries(root.path(), query, 9);
        assert_eq!(list("./su"), ["./sub/"]);
        assert_eq!(list("sub/"), ["sub/Inner/", "sub/index.md"]);
        assert_eq!(list("sub/in"), ["sub/Inner/", "sub/index.md"]);
        assert_eq!(list("sub/."), ["sub/.hidden"]);
        assert_eq!(list("nothing/x"), [] as [String; 0]);
        let absolute = format!("{}/s", root.path().display());
        assert_eq!(list(&absolute), [format!("{absolute}ub/")]);
    }
}
