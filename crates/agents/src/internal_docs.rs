//! Parallax's own documentation, read by the help agent and shown by `/docs`.

use parallax_tools::get_internal_docs::Pages;

/// All pages of `docs/` by relative path.
pub const PAGES: Pages = include!(concat!(env!("OUT_DIR"), "/pages.rs"));

#[cfg(test)]
mod tests {
    #[test]
    fn internal_docs_are_embedded() {
        for path_expected in ["index.md", "agents.md", "decisions/0001-raw-parts.md"] {
            let page = super::PAGES.iter().find(|(path, _)| *path == path_expected);
            assert!(page.is_some_and(|(_, text)| text.starts_with("# ")), "{path_expected}");
        }
    }
}
