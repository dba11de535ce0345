//! Builds the program for a target, or says which part of the toolchain is missing.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::product;
use crate::targets::{Linker, Target};
use crate::tool::{command, output};

/// Returns the target of this machine's compiler.
///
/// # Errors
/// Returns an error if `rustc` does not run.
pub fn host_triple() -> Result<String> {
    let text = output("rustc", &["-vV"]).context("Failed to run rustc")?;
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(line.context("`rustc -vV` names no host")?.to_owned())
}

/// Returns what must be installed before this target can be built, if anything.
pub fn missing_tool(target: &Target) -> Option<String> {
    let triple = target.triple;
    let libraries = output("rustc", &["--print", "target-libdir", "--target", triple]);
    if !libraries.is_some_and(|path| PathBuf::from(path.trim()).is_dir()) {
        return Some(format!("Rust's standard library for {triple} is not installed"));
    }
    if target.linker == Linker::Apple {
        if cfg!(target_os = "macos") {
            return None;
        }
        if std::env::var_os("SDKROOT").is_none() {
            return Some("SDKROOT does not name an SDK of macOS".to_owned());
        }
    }
    if output("cargo-zigbuild", &["--version"]).is_none() {
        return Some(
            "cargo-zigbuild is not installed (`pip install cargo-zigbuild ziglang`)".to_owned(),
        );
    }
    let has_zig = output("zig", &["version"]).is_some()
        || output("python3", &["-m", "ziglang", "version"]).is_some();
    (!has_zig).then(|| "zig is not installed (`pip install ziglang`)".to_owned())
}

/// Builds the program and returns its path.
///
/// # Errors
/// Returns an error if the build fails.
pub fn build(target: &Target, profile: &str) -> Result<PathBuf> {
    let mut cargo = command("cargo");
    // Records the dependencies in the binary, for scanners.
    if output("cargo-auditable", &["--version"]).is_some() {
        cargo.arg("auditable");
    } else {
        crate::report::print_skipped(
            "the list of dependencies in the binary",
            "cargo-auditable is not installed",
        );
    }
    let native = target.linker == Linker::Apple && cfg!(target_os = "macos");
    let suffix = match target.linker {
        Linker::Zig { suffix } => suffix,
        Linker::Apple => "",
    };
    cargo.arg(if native { "build" } else { "zigbuild" });
    cargo.args(["--locked", "--package", product::NAME, "--profile", profile]);
    cargo.arg("--target").arg(format!("{}{suffix}", target.triple));
    cargo.current_dir(product::root());
    make_reproducible(&mut cargo, target)?;
    let status = cargo.status().context("Failed to run cargo")?;
    if !status.success() {
        bail!("The build for {} failed", target.triple);
    }
    let directory = if profile == "dev" { "debug" } else { profile };
    Ok(target_directory()?.join(target.triple).join(directory).join(target.program()))
}

/// Builds the program for this machine, without optimizations, and returns its path.
///
/// # Errors
/// Returns an error if the build fails.
pub fn build_for_host() -> Result<PathBuf> {
    let mut cargo = command("cargo");
    cargo.args(["build", "--locked", "--package", product::NAME]).current_dir(product::root());
    if !cargo.status().context("Failed to run cargo")?.success() {
        bail!("The build for this machine failed");
    }
    let name = format!("{}{}", product::NAME, std::env::consts::EXE_SUFFIX);
    Ok(target_directory()?.join("debug").join(name))
}

/// Leaves paths of this machine out of the binary.
fn make_reproducible(command: &mut Command, target: &Target) -> Result<()> {
    let root = product::root();
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    let mut maps = vec![(root.into_os_string(), "/parallax")];
    maps.extend(home.map(|home| (home.into_os_string(), "/cargo")));
    let (mut rust, mut c) = (OsString::new(), OsString::new());
    for (path, name) in maps {
        for (flags, option, separator) in
            [(&mut rust, "--remap-path-prefix=", "\u{1f}"), (&mut c, "-ffile-prefix-map=", " ")]
        {
            if !flags.is_empty() {
                flags.push(separator);
            }
            flags.push(option);
            flags.push(&path);
            flags.push(format!("={name}"));
        }
    }
    command.env("CARGO_ENCODED_RUSTFLAGS", rust);
    command.env(format!("CFLAGS_{}", target.triple.replace('-', "_")), c);
    command.env("SOURCE_DATE_EPOCH", product::source_date()?.to_string());
    Ok(())
}

fn target_directory() -> Result<PathBuf> {
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let done = command("cargo").args(arguments).current_dir(product::root()).output();
    let done = done.context("Failed to run cargo")?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&done.stdout).context("Failed to read cargo metadata")?;
    let directory = metadata.get("target_directory").and_then(serde_json::Value::as_str);
    Ok(PathBuf::from(directory.context("cargo metadata names no target directory")?))
}
