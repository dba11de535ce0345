//! The files that packages contain, besides the program: man pages, completions, and documents.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::product;
use crate::tool::command;

/// A file of a package.
#[derive(Debug, Clone)]
pub struct PackageFile {
    /// Where it is in the package, without a leading slash.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
    /// The contents.
    pub bytes: Vec<u8>,
}

impl PackageFile {
    /// Creates a file that is read.
    pub fn data(path: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { path: path.into(), mode: 0o644, bytes }
    }

    /// Creates a file with text.
    pub fn text(path: impl Into<String>, text: &str) -> Self {
        Self::data(path, text.as_bytes().to_vec())
    }

    /// Creates a file that is executed.
    pub fn program(path: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { path: path.into(), mode: 0o755, bytes }
    }

    /// Returns a file of the repository.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    pub fn from_repository(path: impl Into<String>, source: &str) -> Result<Self> {
        Ok(Self::data(path, read(&product::root().join(source))?))
    }
}

/// Reads a file.
///
/// # Errors
/// Returns an error if it cannot be read.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("Failed to read {}", path.display()))
}

/// A shell, and how its completion file is called in archives.
const SHELLS: &[(&str, &str)] = &[
    ("bash", "parallax.bash"),
    ("zsh", "_parallax"),
    ("fish", "parallax.fish"),
    ("powershell", "_parallax.ps1"),
    ("nushell", "parallax.nu"),
    ("elvish", "parallax.elv"),
];

/// The documents that the program generates about itself; the same for all targets.
#[derive(Debug, Clone, Default)]
pub struct GeneratedFiles {
    /// Man pages, by file name.
    pub man_pages: Vec<(String, Vec<u8>)>,
    /// Completion scripts, by shell.
    completions: Vec<(&'static str, Vec<u8>)>,
}

impl GeneratedFiles {
    /// Lets a program that runs here write its man pages and completions.
    ///
    /// # Errors
    /// Returns an error if it does not run, or fails.
    pub fn generate(program: &Path) -> Result<Self> {
        let directory = tempfile::tempdir().context("Failed to create a temporary directory")?;
        // The program uses the name that it is called by.
        let named = directory.path().join(product::NAME);
        fs::copy(program, &named)
            .with_context(|| format!("Failed to copy {}", program.display()))?;
        let pages = directory.path().join("man");
        run(&named, &["man", "--out", &pages.to_string_lossy()], directory.path())?;
        let mut man_pages = Vec::new();
        for entry in fs::read_dir(&pages).context("Failed to list the man pages")? {
            let path = entry.context("Failed to list the man pages")?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            man_pages.push((name, read(&path)?));
        }
        man_pages.sort();
        let mut completions = Vec::new();
        for (shell, _) in SHELLS {
            completions.push((*shell, run(&named, &["completions", shell], directory.path())?));
        }
        Ok(Self { man_pages, completions })
    }

    /// Returns the completion script of a shell.
    ///
    /// # Errors
    /// Returns an error if the shell is unknown.
    pub fn completion(&self, shell: &str) -> Result<&[u8]> {
        let found = self.completions.iter().find(|(name, _)| *name == shell);
        Ok(&found.with_context(|| format!("Unknown shell `{shell}`"))?.1)
    }

    /// Returns the files of an archive, below a directory named after it.
    ///
    /// # Errors
    /// Returns an error if a document of the repository cannot be read.
    pub fn files_for_archive(&self, directory: &str) -> Result<Vec<PackageFile>> {
        let mut files = Vec::new();
        for name in ["LICENSE", "README.md", "CHANGELOG.md"] {
            files.push(PackageFile::from_repository(format!("{directory}/{name}"), name)?);
        }
        for (name, bytes) in &self.man_pages {
            files.push(PackageFile::data(format!("{directory}/man/man1/{name}"), bytes.clone()));
        }
        for (shell, name) in SHELLS {
            let script = self.completion(shell)?.to_vec();
            files.push(PackageFile::data(format!("{directory}/completions/{name}"), script));
        }
        Ok(files)
    }
}

fn run(program: &Path, arguments: &[&str], home: &Path) -> Result<Vec<u8>> {
    let command_line = format!("{} {}", program.display(), arguments.join(" "));
    // No setting of the user reaches what is packaged.
    let done = command(program).args(arguments).env("HOME", home).env("COLUMNS", "100").output();
    let done = done.with_context(|| format!("Failed to run {command_line}"))?;
    if !done.status.success() {
        bail!("`{command_line}` failed: {}", String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(done.stdout)
}
