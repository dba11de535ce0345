//! The built-in demo, which needs no API key and no network: a small project with a real bug, and
//! scripts of model responses.

use std::io;
use std::path::Path;

/// The prompt that the demo script answers.
pub const PROMPT: &str = include_str!("../demo/prompt.txt");

/// The demo script.
pub const SCRIPT: &str = include_str!("../demo/script.jsonl");

/// Scripts for `-m script:NAME`: names and contents.
pub const SCRIPTS: [(&str, &str); 1] = [("tour", include_str!("../demo/tour.jsonl"))];

macro_rules! project_files {
    ($($path:literal),* $(,)?) => {
        [$(($path, include_str!(concat!("../demo/project/", $path)))),*]
    };
}

const PROJECT: [(&str, &str); 17] = project_files![
    "README.md",
    "invoice.sh",
    "run-tests.sh",
    "lib/invoice.awk",
    "lib/money.awk",
    "tests/bad-line.csv",
    "tests/bad-line.txt",
    "tests/comments.csv",
    "tests/comments.txt",
    "tests/discount-from.csv",
    "tests/discount-from.txt",
    "tests/discount.csv",
    "tests/discount.txt",
    "tests/plain.csv",
    "tests/plain.txt",
    "tests/short-prices.csv",
    "tests/short-prices.txt",
];

/// Writes the sample project into an existing, empty directory.
///
/// # Errors
/// Returns an error if a file cannot be written.
pub fn write_project(directory: &Path) -> io::Result<()> {
    for (path, text) in PROJECT {
        let target = directory.join(path);
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(&target, text)?;
        if path.ends_with(".sh") {
            make_executable(&target)?;
        }
    }
    Ok(())
}

#[cfg(unix)]
fn make_executable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(_path: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn demo_project_is_complete() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/project");
        let mut files = 0;
        let mut directories = vec![std::path::PathBuf::from(root)];
        while let Some(folder) = directories.pop() {
            for entry in std::fs::read_dir(folder).expect("directory") {
                let path = entry.expect("entry").path();
                if path.is_dir() { directories.push(path) } else { files += 1 }
            }
        }
        assert_eq!(files, super::PROJECT.len());
    }
}
