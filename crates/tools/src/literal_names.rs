//! Directory names that are special in globs: frameworks use names such as `[id]` and `[...all]`
//! for the routes of a web application.

use std::path::Path;

/// Characters that are special in a glob.
const SPECIAL: [char; 6] = ['*', '?', '[', ']', '{', '}'];

/// Escapes the names in a glob that are those of existing files or directories below a root, as far
/// as the names before them are plain. Also escapes names such as `[...all]`, which are never
/// character classes.
pub(crate) fn escape_existing(root: &Path, glob: &str) -> String {
    let mut directory = Some(root.to_path_buf());
    let names = glob.split('/').map(|name| {
        let path = directory.as_ref().map(|directory| directory.join(name));
        let is_special = name.contains(SPECIAL);
        let is_there = is_special && path.as_ref().is_some_and(|it| it.symlink_metadata().is_ok());
        directory = path.filter(|_| is_there || !is_special);
        match is_there || name.starts_with("[...") && name.ends_with(']') {
            true => globset::escape(name),
            false => name.to_owned(),
        }
    });
    names.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_existing_directories_are_literal() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        std::fs::create_dir_all(root.join("app/[slug]/{x}")).expect("folders");
        for (glob, expected) in [
            ("app/[slug]/*/page.tsx", "app/[[]slug[]]/*/page.tsx"),
            ("app/[slug]/{x}/*.ts", "app/[[]slug[]]/[{]x[}]/*.ts"),
            ("app/[...all]/*.ts", "app/[[]...all[]]/*.ts"),
            ("**/[...all]/*.ts", "**/[[]...all[]]/*.ts"),
            ("app/[abc]/*.ts", "app/[abc]/*.ts"),
            ("*/[slug]/a", "*/[slug]/a"),
            ("src/{a,b}/*.rs", "src/{a,b}/*.rs"),
            ("plain", "plain"),
        ] {
            assert_eq!(escape_existing(root, glob), expected, "{glob}");
        }
    }
}
