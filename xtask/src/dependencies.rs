//! The libraries that are compiled into the program, as `cargo metadata` lists them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::product;
use crate::tool::command;

/// A library in the program.
#[derive(Debug, Clone)]
pub struct Dependency {
    pub name: String,
    pub version: String,
    /// SPDX expression, or nothing when the manifest names a file instead.
    pub license: Option<String>,
    pub repository: Option<String>,
    /// The SHA-256 of its archive in the registry.
    pub checksum: Option<String>,
    /// Where its source is on this machine.
    pub source: PathBuf,
    /// Name and version of the libraries that it uses.
    pub uses: Vec<(String, String)>,
}

impl Dependency {
    /// Returns the package URL of the library.
    pub fn purl(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }
}

/// The libraries of others in the program, for all targets, and those that the program uses
/// directly.
#[derive(Debug)]
pub struct Dependencies {
    /// Sorted by name and version.
    pub all: Vec<Dependency>,
    /// Name and version of those that a crate of the workspace uses.
    pub direct: Vec<(String, String)>,
    /// The address of the repository in the program's manifest.
    pub repository: Option<String>,
}

impl Dependencies {
    /// Follows the normal dependencies from the program. Build scripts, macros' build dependencies,
    /// and tests are not part of it.
    ///
    /// # Errors
    /// Returns an error if cargo fails, or the sources are not on this machine and cannot be
    /// fetched.
    pub fn read() -> Result<Self> {
        let arguments = ["metadata", "--locked", "--format-version", "1"];
        let done = command("cargo").args(arguments).current_dir(product::root()).output();
        let done = done.context("Failed to run cargo")?;
        if !done.status.success() {
            bail!("`cargo metadata` failed: {}", String::from_utf8_lossy(&done.stderr).trim());
        }
        let metadata: Value =
            serde_json::from_slice(&done.stdout).context("Failed to read cargo metadata")?;
        let packages: BTreeMap<&str, &Value> =
            list(&metadata, "packages").map(|it| (text(it, "id"), it)).collect();
        let nodes: BTreeMap<&str, &Value> =
            list(&metadata["resolve"], "nodes").map(|it| (text(it, "id"), it)).collect();
        let is_root = |it: &&Value| text(it, "name") == product::NAME && it["source"].is_null();
        let root = packages
            .values()
            .copied()
            .find(is_root)
            .context("cargo metadata does not list the program")?;

        let checksums = checksums()?;
        let mut waiting = vec![text(root, "id")];
        let mut seen: BTreeSet<&str> = waiting.iter().copied().collect();
        let (mut all, mut direct) = (Vec::new(), BTreeSet::new());
        while let Some(id) = waiting.pop() {
            let package = packages.get(id).context("cargo metadata is incomplete")?;
            let is_ours = package["source"].is_null();
            let mut uses = BTreeSet::new();
            for used in nodes.get(id).into_iter().flat_map(|node| list(node, "deps")) {
                if !list(used, "dep_kinds").any(|kind| kind["kind"].is_null()) {
                    continue;
                }
                let other = text(used, "pkg");
                if seen.insert(other) {
                    waiting.push(other);
                }
                let found = packages.get(other).context("cargo metadata is incomplete")?;
                if !found["source"].is_null() {
                    uses.insert(key(found));
                }
            }
            if is_ours {
                direct.extend(uses);
                continue;
            }
            let (name, version) = key(package);
            let manifest = PathBuf::from(text(package, "manifest_path"));
            all.push(Dependency {
                license: package["license"].as_str().map(spdx),
                repository: package["repository"].as_str().map(str::to_owned),
                checksum: checksums.get(&(name.clone(), version.clone())).cloned(),
                source: manifest.parent().map(PathBuf::from).unwrap_or_default(),
                uses: uses.into_iter().collect(),
                name,
                version,
            });
        }
        all.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
        let repository = root["repository"].as_str().map(str::to_owned);
        Ok(Self { all, direct: direct.into_iter().collect(), repository })
    }
}

/// Returns the checksums of the lock file.
fn checksums() -> Result<BTreeMap<(String, String), String>> {
    let path = product::root().join("Cargo.lock");
    let lock = std::fs::read_to_string(&path)
        .with_context(|| format!("Failed to read {}", path.display()))?;
    let mut checksums = BTreeMap::new();
    for entry in lock.split("[[package]]").skip(1) {
        let field = |name: &str| {
            let prefix = format!("{name} = \"");
            entry
                .lines()
                .find_map(|line| line.strip_prefix(&prefix)?.strip_suffix('"').map(str::to_owned))
        };
        if let (Some(name), Some(version), Some(checksum)) =
            (field("name"), field("version"), field("checksum"))
        {
            checksums.insert((name, version), checksum);
        }
    }
    Ok(checksums)
}

/// Converts slashes between licenses, which some manifests still use.
fn spdx(license: &str) -> String {
    license.replace(" / ", " OR ").replace('/', " OR ")
}

fn key(package: &Value) -> (String, String) {
    (text(package, "name").to_owned(), text(package, "version").to_owned())
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slash_in_a_license_means_or() {
        assert_eq!(spdx("MIT/Apache-2.0"), "MIT OR Apache-2.0");
    }
}
