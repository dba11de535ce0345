//! The table of targets. Every package format takes what it needs from here.

use crate::product;

/// How a binary is linked, as package managers need to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linkage {
    /// Runs on any Linux, also without a C library.
    Static,
    /// Needs a C library at run time.
    Dynamic,
}

/// What links the binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linker {
    /// The linker of zig, through `cargo zigbuild`. The suffix names the oldest supported glibc.
    Zig { suffix: &'static str },
    /// The linker of zig with the SDK of Apple in `SDKROOT`; on a Mac, its own linker.
    Apple,
}

/// A platform for which packages are built.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name of the target in Rust and in the names of archives.
    pub triple: &'static str,
    /// How the binary is linked.
    pub linkage: Linkage,
    /// What links it.
    pub linker: Linker,
    /// The architecture in Debian packages.
    pub deb: Option<&'static str>,
    /// `os` and `cpu` in npm packages.
    pub npm: (&'static str, &'static str),
}

/// All targets. Of two with the same architecture, package formats that take one binary prefer the first.
pub const TARGETS: &[Target] = &[
    Target {
        triple: "x86_64-unknown-linux-musl",
        linkage: Linkage::Static,
        linker: Linker::Zig { suffix: "" },
        deb: Some("amd64"),
        npm: ("linux", "x64"),
    },
    Target {
        triple: "aarch64-unknown-linux-musl",
        linkage: Linkage::Static,
        linker: Linker::Zig { suffix: "" },
        deb: Some("arm64"),
        npm: ("linux", "arm64"),
    },
    Target {
        triple: "x86_64-unknown-linux-gnu",
        linkage: Linkage::Dynamic,
        linker: Linker::Zig { suffix: ".2.17" },
        deb: Some("amd64"),
        npm: ("linux", "x64"),
    },
    Target {
        triple: "aarch64-unknown-linux-gnu",
        linkage: Linkage::Dynamic,
        linker: Linker::Zig { suffix: ".2.17" },
        deb: Some("arm64"),
        npm: ("linux", "arm64"),
    },
    Target {
        triple: "x86_64-apple-darwin",
        linkage: Linkage::Dynamic,
        linker: Linker::Apple,
        deb: None,
        npm: ("darwin", "x64"),
    },
    Target {
        triple: "aarch64-apple-darwin",
        linkage: Linkage::Dynamic,
        linker: Linker::Apple,
        deb: None,
        npm: ("darwin", "arm64"),
    },
    Target {
        triple: "x86_64-pc-windows-gnu",
        linkage: Linkage::Dynamic,
        linker: Linker::Zig { suffix: "" },
        deb: None,
        npm: ("win32", "x64"),
    },
];

impl Target {
    /// Returns the row of a triple.
    pub fn find(triple: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.triple == triple)
    }

    /// Whether the archive is for Windows.
    pub fn is_windows(&self) -> bool {
        self.triple.contains("-windows-")
    }

    /// Returns the name of the archive and, without its ending, of the directory in it.
    pub fn archive_name(&self) -> String {
        let ending = if self.is_windows() { "zip" } else { "tar.gz" };
        format!("{}.{ending}", self.archive_directory())
    }

    /// Returns the directory in the archive.
    pub fn archive_directory(&self) -> String {
        format!("{}-{}-{}", product::NAME, product::VERSION, self.triple)
    }

    /// Returns the file name of the program.
    pub fn program(&self) -> &'static str {
        if self.is_windows() { "parallax.exe" } else { "parallax" }
    }

    /// Whether programs for this target run on this machine, as far as the processor and the system tell.
    pub fn runs_here(&self) -> bool {
        let mut parts = self.triple.split('-');
        let arch = parts.next().unwrap_or_default();
        let os = if self.is_windows() {
            "windows"
        } else if self.triple.contains("-apple-") {
            "macos"
        } else {
            "linux"
        };
        arch == std::env::consts::ARCH && os == std::env::consts::OS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_triples_are_unique() {
        let mut names: Vec<_> = TARGETS.iter().map(|target| target.triple).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TARGETS.len());
    }

    #[test]
    fn action_installs_targets_of_the_table() {
        let script = std::fs::read_to_string(
            crate::product::root().join("packaging/github-action/install.sh"),
        );
        let script = script.expect("the script of the action");
        let named: Vec<_> =
            script.split_whitespace().filter_map(|word| word.strip_prefix("target=")).collect();
        assert!(named.len() >= 4, "{named:?}");
        for triple in named {
            let target =
                Target::find(triple).unwrap_or_else(|| panic!("{triple} is not in the table"));
            assert!(!target.is_windows());
        }
    }

    #[test]
    fn cargo_binstall_downloads_archives_of_the_table() {
        let manifest = std::fs::read_to_string(product::root().join("crates/parallax/Cargo.toml"));
        let manifest = manifest.expect("the manifest of the program");
        let addresses = manifest
            .lines()
            .filter_map(|line| line.strip_prefix("pkg-url = \"")?.strip_suffix('"'));
        let addresses: Vec<_> = addresses.collect();
        assert_eq!(addresses.len(), 3);
        for target in TARGETS {
            let expand = |address: &str| {
                address
                    .replace("{ version }", product::VERSION)
                    .replace("{ target }", target.triple)
            };
            let expected = format!(
                "{{ repo }}/releases/download/v{}/{}",
                product::VERSION,
                target.archive_name()
            );
            assert!(addresses.iter().any(|address| expand(address) == expected), "{expected}");
        }
    }
}
