//! Embeds the documentation pages in the program.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| env::var_os(name).map(PathBuf::from).unwrap_or_default();
    let docs = variable("CARGO_MANIFEST_DIR").join("../../docs");
    println!("cargo::rerun-if-changed={}", docs.display());
    let mut pages = Vec::new();
    collect(&docs, "", &mut pages)?;
    pages.sort();
    let mut list = "&[\n".to_owned();
    for (name, path) in pages {
        // Writing to a string cannot fail.
        let _ = writeln!(list, "    ({name:?}, include_str!({path:?})),");
    }
    list.push(']');
    fs::write(variable("OUT_DIR").join("pages.rs"), list)
}

/// Collects the Markdown files of a directory recursively, with their relative paths.
fn collect(folder: &Path, prefix: &str, pages: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let (path, name) = {
            let entry = entry?;
            (entry.path(), format!("{prefix}{}", entry.file_name().to_string_lossy()))
        };
        if path.is_dir() {
            collect(&path, &format!("{name}/"), pages)?;
        } else if name.ends_with(".md") {
            pages.push((name, path));
        }
    }
    Ok(())
}
