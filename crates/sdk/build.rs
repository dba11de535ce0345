//! Embeds the documentation pages in the program, and the commit in release builds.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    commit();
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

/// Sets the commit for `/about` and bug reports. Not in development builds, where every commit
/// would rebuild the crate.
fn commit() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=PARALLAX_COMMIT");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|it| it == value);
    if env::var_os("PARALLAX_COMMIT").is_some() || !is("PROFILE", "release") {
        return;
    }
    #[expect(clippy::disallowed_methods, reason = "a build script has no crate to do it for it")]
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    // A source archive has no commit.
    if let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) {
        println!("cargo::rustc-env=PARALLAX_COMMIT={commit}");
    }
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
