//! Reads the format of a binary, and the system libraries that it needs.

use anyhow::{Result, bail};

use crate::targets::Target;

/// Fails when bytes are not a program for the target's system.
///
/// # Errors
/// Returns an error if the format is that of another system.
pub fn check_format(bytes: &[u8], target: &Target) -> Result<()> {
    let (format, magic): (_, &[u8]) = if target.is_windows() {
        ("a program for Windows", b"MZ")
    } else if target.triple.contains("-apple-") {
        ("a program for macOS", &[0xcf, 0xfa, 0xed, 0xfe])
    } else {
        ("a program for Linux", b"\x7fELF")
    };
    if !bytes.starts_with(magic) {
        bail!("The binary for {} is not {format}", target.triple);
    }
    let machine = bytes.get(18..20);
    let expected: &[u8] =
        if target.triple.starts_with("aarch64") { &[0xb7, 0] } else { &[0x3e, 0] };
    if magic == b"\x7fELF" && machine != Some(expected) {
        bail!("The binary for {} is for another processor", target.triple);
    }
    Ok(())
}

/// The shared libraries that a Linux program needs.
#[derive(Debug, PartialEq, Eq)]
pub struct LibraryNeeds {
    /// The oldest version of glibc that has all its symbols; none in a static binary.
    pub glibc: Option<(u32, u32)>,
    /// Whether it loads `libgcc_s`.
    pub libgcc: bool,
}

impl LibraryNeeds {
    /// Reads the names of symbol versions, which are plain text in the string table.
    pub fn read(program: &[u8]) -> Self {
        const PREFIX: &[u8] = b"GLIBC_2.";
        // A static binary has no interpreter, but it may contain names of versions.
        if !contains(program, b"/ld-linux") {
            return Self { glibc: None, libgcc: false };
        }
        let mut newest = None;
        for (at, _) in
            program.windows(PREFIX.len()).enumerate().filter(|(_, window)| *window == PREFIX)
        {
            let digits = program.get(at + PREFIX.len()..).unwrap_or_default();
            let digits = digits.iter().take_while(|byte| byte.is_ascii_digit()).take(3);
            let minor = digits.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
            newest = newest.max(Some((2, minor)));
        }
        Self { glibc: newest, libgcc: contains(program, b"libgcc_s.so.1\0") }
    }

    /// Returns the packages of Debian that have them.
    pub fn debian(&self) -> Vec<String> {
        let mut packages = Vec::new();
        packages.extend(self.glibc.map(|(major, minor)| format!("libc6 (>= {major}.{minor})")));
        if self.libgcc {
            packages.push("libgcc-s1 | libgcc1".to_owned());
        }
        packages
    }
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_required_symbol_version_is_found() {
        let program = b"\x7fELF /lib64/ld-linux-x86-64.so.2\0 GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.17\0libgcc_s.so.1\0";
        let needs = LibraryNeeds::read(program);
        assert_eq!(needs, LibraryNeeds { glibc: Some((2, 34)), libgcc: true });
        assert_eq!(needs.debian(), ["libc6 (>= 2.34)", "libgcc-s1 | libgcc1"]);
    }

    #[test]
    fn static_program_needs_no_libraries() {
        assert!(LibraryNeeds::read(b"\x7fELF GLIBC_2.34\0").debian().is_empty());
    }

    #[test]
    fn program_of_another_system_or_processor_is_rejected() {
        let target = Target::find("aarch64-unknown-linux-musl").expect("a target");
        let mut elf = b"\x7fELF".to_vec();
        elf.resize(18, 0);
        elf.extend([0xb7, 0]);
        assert!(check_format(&elf, target).is_ok());
        assert!(check_format(b"MZ", target).is_err());
        elf[18] = 0x3e;
        assert!(check_format(&elf, target).is_err());
    }
}
