//! The licenses of the libraries in the program, with their license text.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::dependencies::{Dependencies, Dependency};

/// Returns text with a table of libraries, and then each license text once with the libraries that
/// it covers.
///
/// # Errors
/// Returns an error if the source of a library cannot be read.
pub fn list(dependencies: &Dependencies) -> Result<String> {
    let mut text = String::from(
        "Licenses of the libraries in Parallax\n\nParallax itself is licensed under Apache-2.0. \
         It contains these libraries:\n\n",
    );
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for library in &dependencies.all {
        let license = library.license.as_deref().unwrap_or("see its license file");
        text.push_str(&format!("{} {}: {license}\n", library.name, library.version));
        for found in license_texts(library)? {
            texts.entry(found).or_default().push(format!("{} {}", library.name, library.version));
        }
    }
    // In the order of the first library, which is alphabetical.
    let mut texts: Vec<_> = texts.into_iter().map(|(text, libraries)| (libraries, text)).collect();
    texts.sort();
    for (libraries, license) in texts {
        text.push_str(&format!("\n{}\n{}\n\n{license}\n", "-".repeat(80), libraries.join(", ")));
    }
    Ok(text)
}

/// Returns the license files at the root of a library's source.
fn license_texts(library: &Dependency) -> Result<Vec<String>> {
    let failed = || format!("Failed to read the source of {} {}", library.name, library.version);
    let mut texts = Vec::new();
    for entry in fs::read_dir(&library.source).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        if is_license(&path) && path.is_file() {
            let bytes = fs::read(&path).with_context(failed)?;
            let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n");
            texts.push(text.trim_matches('\n').to_owned());
        }
    }
    texts.sort();
    Ok(texts)
}

fn is_license(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_uppercase();
    ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"]
        .iter()
        .any(|word| name.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn license_files_are_recognized_by_name() {
        for name in ["LICENSE-MIT", "license.md", "COPYING", "NOTICE"] {
            assert!(is_license(Path::new(name)), "{name}");
        }
        assert!(!is_license(Path::new("README.md")));
    }
}
