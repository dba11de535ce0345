//! Links a smaller program that starts faster, where the linker is known to be able to.

#![expect(clippy::disallowed_methods, reason = "build scripts ask the toolchain")]

use std::path::Path;
use std::process::Command;

/// The target whose default linker is the one in the toolchain.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Which functions run at startup: a script for the linker, by `scripts/startup-order`.
const ORDER: &str = "startup.ld";
/// The first glibc (major, minor) that loads packed relocations.
const PACKED: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={ORDER}");
    if !has_default_linker() {
        return;
    }
    // What runs at startup is placed together, so few pages of the program are loaded for it.
    let order = Path::new(&variable("CARGO_MANIFEST_DIR")).join(ORDER);
    println!("cargo::rustc-link-arg-bins=-T{}", order.display());
    // One copy of functions with the same code.
    println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    // The program has 58,000 relocations, which this stores in a twentieth of the space.
    if variable("HOST") == TARGET && glibc().is_some_and(|version| version >= PACKED) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// Whether a release build uses the linker in the toolchain. Toolchains of distributions have none.
fn has_default_linker() -> bool {
    let is_chosen = std::env::var_os("RUSTC_LINKER").is_some()
        || variable("CARGO_ENCODED_RUSTFLAGS").contains("link");
    let linker = || {
        let sysroot = output(&variable("RUSTC"), &["--print", "sysroot"])?;
        let tools = Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET).join("bin");
        tools.join("gcc-ld/ld.lld").exists().then_some(())
    };
    variable("TARGET") == TARGET
        && variable("PROFILE") == "release"
        && !is_chosen
        && linker().is_some()
}

/// Returns the version of the C library of this machine.
fn glibc() -> Option<(u32, u32)> {
    let version = output("getconf", &["GNU_LIBC_VERSION"])?;
    let (major, rest) = version.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, rest.split('.').next()?.parse().ok()?))
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    String::from_utf8(output.stdout).ok()
}
