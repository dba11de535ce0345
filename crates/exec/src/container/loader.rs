//! Detects whether the Parallax binary needs the loader and C library of the image that it is
//! mounted into. Reads the program headers of a 64-bit little-endian ELF file (System V ABI).

use std::io::Read as _;
use std::path::Path;

/// Number of bytes that contain the headers.
const HEAD: u64 = 4096;
/// The type of the header that names the loader (`PT_INTERP`).
const INTERPRETER: u32 = 3;

/// Whether the file names a loader. Returns `false` if the file cannot be read, because the engine
/// reports that better. Blocking.
pub(super) fn needs_loader(binary: &Path) -> bool {
    let mut head = Vec::new();
    let read = std::fs::File::open(binary).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    read.is_ok() && names_loader(&head).unwrap_or(false)
}

fn names_loader(head: &[u8]) -> Option<bool> {
    let number = |at: usize, length: usize| -> Option<u64> {
        let bytes = head.get(at..at.checked_add(length)?)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    };
    if head.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let table = usize::try_from(number(32, 8)?).ok()?;
    let (size, count) = (usize::try_from(number(54, 2)?).ok()?, number(56, 2)?);
    for index in 0..usize::try_from(count).ok()? {
        let at = index.checked_mul(size)?.checked_add(table)?;
        if number(at, 4)? == u64::from(INTERPRETER) {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loader_of_a_program_is_found() {
        let elf = |kinds: &[u32]| {
            let mut file = b"\x7fELF\x02\x01".to_vec();
            file.resize(64, 0);
            file[32] = 64;
            file[54] = 56;
            file[56] = u8::try_from(kinds.len()).expect("few");
            for kind in kinds {
                file.extend(kind.to_le_bytes());
                file.resize(file.len() + 52, 0);
            }
            file
        };
        assert_eq!(names_loader(&elf(&[1, 3])), Some(true));
        assert_eq!(names_loader(&elf(&[1, 2])), Some(false));
        assert_eq!(names_loader(b"#!/bin/sh"), None);
        assert_eq!(names_loader(&elf(&[1, 3])[..80]), None);
        assert!(!needs_loader(Path::new("/nowhere")));
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_elf_header_does_not_panic(tail in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let _ = names_loader(&[b"\x7fELF\x02\x01".as_slice(), &tail].concat());
        }
    }
}
