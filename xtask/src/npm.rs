//! The npm packages: one with a launcher, and one with the program for each platform.
//!
//! The packages for platforms are versions of the same package, which the launcher's package names
//! as optional dependencies by aliases: npm then installs only the one for its system.

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

use crate::archive::{ArchiveSettings, Directories, tar_gz};
use crate::package_files::PackageFile;
use crate::product;
use crate::targets::Target;

const PACKAGE: &str = "@parallax/cli";

/// Returns the package with the program for a platform: its file name and bytes.
///
/// # Errors
/// Returns an error if a file of the repository cannot be read.
pub fn platform_package(
    target: &Target,
    program: &[u8],
    licenses: &str,
    settings: ArchiveSettings,
) -> Result<(String, Vec<u8>)> {
    let version = platform_version(target);
    let (os, cpu) = target.npm;
    let manifest = json!({
        "name": PACKAGE,
        "version": version,
        "description": format!("{} (the program for {os} {cpu})", product::SUMMARY),
        "license": product::LICENSE,
        "os": [os],
        "cpu": [cpu],
        "files": ["bin", "THIRD-PARTY-LICENSES.txt"],
        "preferUnplugged": true,
    });
    let files = [
        PackageFile::text("package/package.json", &pretty_json(&manifest)?),
        PackageFile::program(format!("package/bin/{}", target.program()), program.to_vec()),
        PackageFile::from_repository("package/LICENSE", "LICENSE")?,
        PackageFile::text("package/THIRD-PARTY-LICENSES.txt", licenses),
        PackageFile::text(
            "package/README.md",
            &format!("The program for {os} {cpu}. Install `{PACKAGE}` without this version.\n"),
        ),
    ];
    Ok((format!("parallax-cli-{version}.tgz"), tar_gz(&files, Directories::Implied, settings)?))
}

/// Returns the package with the launcher, for the platforms that have a package.
///
/// # Errors
/// Returns an error if a file of the repository cannot be read.
pub fn launcher_package(
    targets: &[&Target],
    settings: ArchiveSettings,
) -> Result<(String, Vec<u8>)> {
    let mut platforms = Map::new();
    for target in targets {
        let (os, cpu) = target.npm;
        let alias = format!("npm:{PACKAGE}@{}", platform_version(target));
        platforms.insert(format!("{PACKAGE}-{os}-{cpu}"), Value::String(alias));
    }
    let manifest = json!({
        "name": PACKAGE,
        "version": product::VERSION,
        "description": product::SUMMARY,
        "license": product::LICENSE,
        "keywords": ["ai", "agent", "cli", "gemini", "terminal"],
        "bin": { "parallax": "bin/parallax.js" },
        "files": ["bin"],
        "engines": { "node": ">=16" },
        "optionalDependencies": platforms,
    });
    let launcher =
        PackageFile::from_repository("package/bin/parallax.js", "packaging/npm/parallax.js")?;
    let files = [
        PackageFile::text("package/package.json", &pretty_json(&manifest)?),
        PackageFile { mode: 0o755, ..launcher },
        PackageFile::from_repository("package/README.md", "packaging/npm/README.md")?,
        PackageFile::from_repository("package/LICENSE", "LICENSE")?,
    ];
    let name = format!("parallax-cli-{}.tgz", product::VERSION);
    Ok((name, tar_gz(&files, Directories::Implied, settings)?))
}

fn platform_version(target: &Target) -> String {
    let (os, cpu) = target.npm;
    format!("{}-{os}-{cpu}", product::VERSION)
}

fn pretty_json(manifest: &Value) -> Result<String> {
    Ok(serde_json::to_string_pretty(manifest).context("Failed to write package.json")? + "\n")
}
