//! Checks the links of a built site: every local link points to a file, and to an element if it
//! names one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// Returns the number of links.
///
/// # Errors
/// Returns an error if a link is dead, or a page cannot be read.
pub fn check(site: &Path) -> Result<usize> {
    let mut pages = BTreeMap::new();
    collect(site, &mut pages)?;
    let identifiers: BTreeMap<&PathBuf, BTreeSet<&str>> =
        pages.iter().map(|(path, text)| (path, attributes(text, "id").collect())).collect();
    let (mut count, mut dead) = (0, Vec::new());
    for (path, text) in &pages {
        for link in attributes(text, "href").chain(attributes(text, "src")) {
            if link.contains(':') || link.starts_with("//") || link.is_empty() {
                continue;
            }
            count += 1;
            let (file, anchor) =
                link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
            let target = if file.is_empty() { path.clone() } else { normalized(path, file) };
            let is_dead = match (identifiers.get(&target), anchor) {
                (Some(known), Some(anchor)) => !anchor.is_empty() && !known.contains(anchor),
                (Some(_), None) => false,
                (None, _) => !target.is_file(),
            };
            if is_dead {
                let page = path.strip_prefix(site).unwrap_or(path);
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    if !dead.is_empty() {
        bail!("Dead links in the site:\n{}", dead.join("\n"));
    }
    Ok(count)
}

fn collect(directory: &Path, pages: &mut BTreeMap<PathBuf, String>) -> Result<()> {
    let failed = || format!("Failed to read {}", directory.display());
    for entry in fs::read_dir(directory).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        if path.is_dir() {
            collect(&path, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "html") {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("Failed to read {}", path.display()))?;
            // The page for unknown addresses has links from the root of the server; the print page
            // has them all.
            if path.file_name().is_some_and(|name| name != "404.html" && name != "print.html") {
                pages.insert(path, text);
            }
        }
    }
    Ok(())
}

/// Returns the values of an attribute, as the generator quotes them.
fn attributes<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let opening = format!(" {name}=\"");
    let mut rest = text;
    std::iter::from_fn(move || {
        let offset = rest.find(&opening)?;
        let value = rest.get(offset + opening.len()..)?;
        let end = value.find('"')?;
        rest = value.get(end..)?;
        value.get(..end)
    })
}

fn normalized(page: &Path, link: &str) -> PathBuf {
    let mut path = page.parent().map(PathBuf::from).unwrap_or_default();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                path.pop();
            }
            part => path.push(part),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(link: &str) -> Result<usize> {
        let directory = tempfile::tempdir().expect("a directory");
        fs::create_dir(directory.path().join("guides")).expect("a directory");
        fs::write(directory.path().join("a.html"), "<h1 id=\"top\">A</h1>").expect("a page");
        let page = format!("<a href=\"{link}\">x</a><a href=\"https://x/y\">y</a>");
        fs::write(directory.path().join("guides/b.html"), page).expect("a page");
        check(directory.path())
    }

    #[test]
    fn local_links_to_pages_and_elements_are_found() {
        assert_eq!(site("../a.html").expect("no dead link"), 1);
        assert_eq!(site("../a.html#top").expect("no dead link"), 1);
    }

    #[test]
    fn dead_links_and_dead_anchors_are_reported() {
        assert!(site("../c.html").is_err());
        let error = site("../a.html#bottom").expect_err("a dead link").to_string();
        assert!(error.contains("guides/b.html: ../a.html#bottom"), "{error}");
    }
}
