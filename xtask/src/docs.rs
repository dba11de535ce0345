//! `cargo xtask docs`: the documentation site, built by mdBook from `docs/`.
//!
//! The pages stay where they are. A copy gets the table of contents that `docs/index.md` implies,
//! and links that leave `docs/` are adapted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::site_links;
use crate::tool::{command, output};
use crate::{product, report};

/// Pages outside `docs/` that belong to the site, and their names in it.
const OTHER_PAGES: &[(&str, &str)] = &[
    ("CONTRIBUTING.md", "contributing.md"),
    ("ARCHITECTURE.md", "architecture.md"),
    ("CHANGELOG.md", "changelog.md"),
];

/// Options of `cargo xtask docs`.
#[derive(Debug, clap::Args)]
pub struct DocsOptions {
    /// Directory of the site
    #[arg(long, value_name = "DIR", default_value = "target/site")]
    out: PathBuf,
    /// Address of the repository's files, for links to source code:
    /// https://HOST/OWNER/NAME/blob/COMMIT
    #[arg(long, value_name = "URL")]
    sources: Option<String>,
}

/// Builds the site and checks its links.
///
/// # Errors
/// Returns an error if mdBook is missing or fails, or the site has a dead link.
pub fn run(options: &DocsOptions) -> Result<()> {
    if output("mdbook", &["--version"]).is_none() {
        bail!("mdbook is not installed. Run `cargo install mdbook --locked`.");
    }
    let stage = tempfile::tempdir().context("Failed to create a temporary directory")?;
    let pages = stage_pages(stage.path(), options.sources.as_deref())?;
    let index = pages.get("index.md").context("docs/index.md is missing")?;
    let summary = summary(index);
    for page in pages.keys() {
        if page != "index.md" && !summary.contains(&format!("({page})")) {
            bail!("docs/{page} is not linked from docs/index.md");
        }
    }
    write(&stage.path().join("src/SUMMARY.md"), summary.as_bytes())?;
    for name in ["book.toml", "site.css"] {
        let source = product::root().join("packaging/site").join(name);
        fs::copy(&source, stage.path().join(name))
            .with_context(|| format!("Failed to copy {}", source.display()))?;
    }
    let out = std::path::absolute(&options.out).context("Invalid directory for the site")?;
    let mut mdbook = command("mdbook");
    mdbook.arg("build").arg("--dest-dir").arg(&out).arg(stage.path());
    if !mdbook.status().context("Failed to run mdbook")?.success() {
        bail!("mdbook failed");
    }
    let links = site_links::check(&out)?;
    report::print_line(&format!(
        "{}: {} pages, {links} links",
        out.join("index.html").display(),
        pages.len()
    ));
    Ok(())
}

/// Copies pages and pictures. Returns the text of the pages, by their paths in the site.
fn stage_pages(stage: &Path, sources: Option<&str>) -> Result<BTreeMap<String, String>> {
    let docs = product::root().join("docs");
    let mut pages = BTreeMap::new();
    for path in files_below(&docs)? {
        let name = path.strip_prefix(&docs).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        let target = stage.join("src").join(&name);
        if name.ends_with(".md") {
            let text = adapt_links(&read_text(&path)?, &format!("docs/{name}"), &name, sources);
            write(&target, text.as_bytes())?;
            pages.insert(name, text);
        } else {
            write(&target, &crate::package_files::read(&path)?)?;
        }
    }
    for (source, name) in OTHER_PAGES {
        let text = adapt_links(&read_text(&product::root().join(source))?, source, name, sources);
        write(&stage.join("src").join(name), text.as_bytes())?;
        pages.insert((*name).to_owned(), text);
    }
    Ok(pages)
}

/// Returns the table of contents: the sections and links of the index, in its order.
fn summary(index: &str) -> String {
    let mut summary = String::from("# Summary\n\n[Documentation](index.md)\n");
    let mut listed = Vec::new();
    for line in index.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            summary.push_str(&format!("\n# {title}\n\n"));
            continue;
        }
        for link in links(line) {
            let page = link.target.split('#').next().unwrap_or_default().to_owned();
            // The introduction links to a page that its section lists.
            let is_in_section = summary.contains("\n# ");
            if page.ends_with(".md") && is_in_section && !listed.contains(&page) {
                summary.push_str(&format!("- [{}]({page})\n", capitalize(link.text)));
                listed.push(page);
            }
        }
    }
    summary
}

fn capitalize(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    // Names of files keep the form of their page's title.
    match text {
        "CONTRIBUTING.md" => "Contributing".to_owned(),
        "ARCHITECTURE.md" => "Architecture".to_owned(),
        "CHANGELOG.md" => "Changelog".to_owned(),
        _ => first + characters.as_str(),
    }
}

/// A link in a line of Markdown.
struct MarkdownLink<'a> {
    text: &'a str,
    target: &'a str,
    /// Where the link begins and ends in the line.
    range: std::ops::Range<usize>,
}

/// Returns the inline links of a line, without pictures.
fn links(line: &str) -> Vec<MarkdownLink<'_>> {
    let mut links = Vec::new();
    let mut from = 0;
    while let Some(found) = line.get(from..).and_then(|rest| rest.find("](")) {
        let middle = from + found;
        let start = line.get(..middle).and_then(|before| before.rfind('[')).unwrap_or(middle);
        let end = line.get(middle..).and_then(|rest| rest.find(')')).map(|offset| middle + offset);
        let Some(end) = end else { break };
        let is_picture = line.get(..start).is_some_and(|before| before.ends_with('!'));
        let text = line.get(start + 1..middle).unwrap_or_default();
        let target = line.get(middle + 2..end).unwrap_or_default();
        if !is_picture && start < middle {
            links.push(MarkdownLink { text, target, range: start..end + 1 });
        }
        from = end + 1;
    }
    links
}

/// Makes links that leave `docs/` point to a page of the site or to the source, or leaves only
/// their text.
fn adapt_links(text: &str, source: &str, name: &str, sources: Option<&str>) -> String {
    let mut adapted = String::with_capacity(text.len());
    let mut in_code = false;
    for line in text.split_inclusive('\n') {
        in_code ^= line.trim_start().starts_with("```");
        let mut from = 0;
        for link in links(line).into_iter().filter(|_| !in_code) {
            let (path, anchor) = link
                .target
                .split_once('#')
                .map_or((link.target, None), |(path, anchor)| (path, Some(anchor)));
            if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
                continue;
            }
            let resolved = resolve(source, path);
            let other =
                OTHER_PAGES.iter().find(|(page, _)| *page == resolved).map(|(_, name)| *name);
            let page = other.or_else(|| resolved.strip_prefix("docs/"));
            let target = match (page, sources) {
                (Some(page), _) => Some(relative_link(name, page)),
                (None, Some(sources)) => Some(format!("{sources}/{resolved}")),
                (None, None) => None,
            };
            adapted.push_str(line.get(from..link.range.start).unwrap_or_default());
            match target {
                Some(target) => {
                    let anchor = anchor.map(|anchor| format!("#{anchor}")).unwrap_or_default();
                    adapted.push_str(&format!("[{}]({target}{anchor})", link.text));
                }
                None => adapted.push_str(link.text),
            }
            from = link.range.end;
        }
        adapted.push_str(line.get(from..).unwrap_or_default());
    }
    adapted
}

/// Returns the path in the repository that a link of a page names.
fn resolve(page: &str, link: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the link from one page of the site to another.
fn relative_link(from: &str, to: &str) -> String {
    "../".repeat(from.matches('/').count()) + to
}

fn files_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let failed = || format!("Failed to list {}", directory.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        if path.is_dir() {
            files.append(&mut files_below(&path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("Failed to read {}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = || format!("Failed to write {}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(path)).with_context(failed)?;
    fs::write(path, bytes).with_context(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_has_the_sections_and_pages_of_the_index() {
        let index = "# D\n\nStart with [Start](start.md).\n\n## Guides\n\n| [Start](start.md) | x |\n\n## Reference\n\n\
            [CONTRIBUTING.md](../CONTRIBUTING.md) · [keys](keys.md#x)\n";
        let adapted = adapt_links(index, "docs/index.md", "index.md", None);
        let expected = "# Summary\n\n[Documentation](index.md)\n\n# Guides\n\n- [Start](start.md)\n\n# Reference\n\n\
            - [Contributing](contributing.md)\n- [Keys](keys.md)\n";
        assert_eq!(summary(&adapted), expected);
    }

    #[test]
    fn links_that_leave_the_site_become_text_or_links_to_the_source() {
        let text = "See [`a`](../../crates/a.rs), [b](../b.md#c), ![p](../images/p.png), [w](https://x/y).\n";
        let page = "docs/guides/g.md";
        let adapted = adapt_links(text, page, "guides/g.md", None);
        assert_eq!(adapted, "See `a`, [b](../b.md#c), ![p](../images/p.png), [w](https://x/y).\n");
        let adapted = adapt_links(text, page, "guides/g.md", Some("https://h/o/n/blob/main"));
        assert!(
            adapted.starts_with("See [`a`](https://h/o/n/blob/main/crates/a.rs), "),
            "{adapted}"
        );
    }

    #[test]
    fn pages_outside_the_directory_link_into_it() {
        let adapted = adapt_links("[s](docs/style.md)", "CONTRIBUTING.md", "contributing.md", None);
        assert_eq!(adapted, "[s](style.md)");
    }
}
