//! Embeds the commit in release builds.

use std::env;
use std::process::Command;

/// Sets the commit for `/about` and bug reports. Not in development builds, where every commit
/// would rebuild the crate.
fn main() {
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
