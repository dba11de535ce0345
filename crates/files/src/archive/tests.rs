use std::io::Write as _;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};
use proptest::prelude::*;

use super::*;

const LIMITS: ArchiveLimits = ArchiveLimits { entries: 20, bytes: 100_000 };

/// Returns a tar header and the padded bytes after it.
fn tar_entry(name: &str, kind: u8, bytes: &[u8], mode: u32) -> Vec<u8> {
    let mut block = vec![0u8; 512];
    let mut put =
        |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, &format!("{mode:07o}"));
    put(124, &format!("{:011o}", bytes.len()));
    put(257, "ustar\u{0}00");
    if kind == b'2' {
        put(157, "/etc/passwd");
    }
    block[156] = kind;
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block.extend(bytes);
    block.resize(block.len().next_multiple_of(512), 0);
    block
}

fn tar(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut archive = entries.concat();
    archive.resize(archive.len() + 1024, 0);
    archive
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("packed");
    encoder.finish().expect("packed")
}

/// Returns a zip with an entry for each (name, mode, bytes, declared size).
fn zip(entries: &[(&str, u32, &[u8], Option<u32>)]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, mode, bytes, report) in entries {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).expect("packed");
        let packed = encoder.finish().expect("packed");
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        let size = report.unwrap_or(u32::try_from(bytes.len()).expect("small"));
        let offset = u32::try_from(archive.len()).expect("small");
        let length = u16::try_from(name.len()).expect("short");
        let mut common = Vec::new();
        common.extend([20, 0, 0, 0, 8, 0, 0, 0, 0, 0]);
        common.extend(crc.sum().to_le_bytes());
        common.extend(u32::try_from(packed.len()).expect("small").to_le_bytes());
        common.extend(size.to_le_bytes());
        common.extend(length.to_le_bytes());
        common.extend([0, 0]);
        archive.extend(b"PK\x03\x04");
        archive.extend(&common);
        archive.extend(name.as_bytes());
        archive.extend(packed);
        directory.extend(b"PK\x01\x02\x14\x03");
        directory.extend(&common);
        directory.extend([0; 6]);
        directory.extend((mode << 16).to_le_bytes());
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let offset = u32::try_from(archive.len()).expect("small");
    let size = u32::try_from(directory.len()).expect("small");
    archive.extend(directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend([u8::try_from(entries.len()).expect("few"), 0].repeat(2));
    archive.extend(size.to_le_bytes());
    archive.extend(offset.to_le_bytes());
    archive.extend([0, 0]);
    archive
}

/// Unpacks bytes; returns the directory, whose parent catches what escapes.
fn unpacked(archive: &[u8]) -> (tempfile::TempDir, Result<(), ArchiveError>) {
    let directory = tempfile::tempdir().expect("directory");
    let (file, into) = (directory.path().join("archive"), directory.path().join("deep/into"));
    fs::write(&file, archive).expect("written");
    fs::create_dir_all(&into).expect("directory");
    let output = unpack(&file, &into, LIMITS);
    (directory, output)
}

fn refused(archive: &[u8]) -> String {
    let (folder, done) = unpacked(archive);
    let names: Vec<_> = fs::read_dir(folder.path()).expect("directory").flatten().collect();
    assert_eq!(names.len(), 2, "something escaped");
    let inside: Vec<_> = fs::read_dir(folder.path().join("deep")).expect("directory").collect();
    assert_eq!(inside.len(), 1, "something escaped");
    done.expect_err("refused").to_string()
}

#[test]
fn tar_and_zip_archives_round_trip() {
    let long = format!("{}/file.txt", "d".repeat(120));
    let pax = format!("{} path={long}\n", 10 + long.len());
    let archives = [
        gzip(&tar(&[
            tar_entry("pax", b'g', b"52 comment=x\n", 0),
            tar_entry("top/", b'5', b"", 0o755),
            tar_entry("top/run.sh", b'0', b"#!/bin/sh\n", 0o755),
            tar_entry("x", b'x', pax.as_bytes(), 0),
            tar_entry("cut", b'0', b"long", 0o644),
        ])),
        zip(&[
            ("top/", 0o040_755, b"", None),
            ("top/run.sh", 0o100_755, b"#!/bin/sh\n", None),
            (&long, 0o100_644, b"long", None),
        ]),
    ];
    for archive in archives {
        let (folder, done) = unpacked(&archive);
        done.expect("unpacked");
        let into = folder.path().join("deep/into");
        assert_eq!(fs::read(into.join("top/run.sh")).expect("file"), b"#!/bin/sh\n");
        assert_eq!(fs::read(into.join(&long)).expect("file"), b"long");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |path: &str| {
                fs::metadata(into.join(path)).expect("file").permissions().mode() & 0o111
            };
            assert!(mode("top/run.sh") != 0 && mode(&long) == 0);
        }
    }
}

#[test]
fn archive_entry_outside_the_target_is_rejected() {
    for name in ["../x", "a/../../x", "/x", "..\\x", "C:\\x", "a\\..\\..\\x"] {
        for archive in
            [tar(&[tar_entry(name, b'0', b"x", 0o644)]), zip(&[(name, 0o100_644, b"x", None)])]
        {
            assert!(refused(&archive).contains("is outside"), "{name}");
        }
    }
}

#[test]
fn links_devices_and_duplicates_are_rejected() {
    for (archive, reason) in [
        (tar(&[tar_entry("a", b'2', b"", 0o777)]), "is a link"),
        (tar(&[tar_entry("a", b'1', b"", 0o777)]), "is a link"),
        (zip(&[("a", 0o120_777, b"/etc/passwd", None)]), "is a link"),
        (tar(&[tar_entry("a", b'3', b"", 0o644)]), "not a file or directory"),
        (zip(&[("a", 0o010_644, b"", None)]), "not a file or directory"),
        (tar(&[tar_entry("a", b'0', b"1", 0), tar_entry("./a", b'0', b"2", 0)]), "duplicated"),
        (zip(&[("a", 0, b"1", None), ("a", 0, b"2", None)]), "duplicated"),
    ] {
        let error = refused(&archive);
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn archive_bombs_stop_at_the_limit() {
    let zeros = vec![0; 200_000];
    let many: Vec<Vec<u8>> =
        (0..30).map(|number| tar_entry(&number.to_string(), b'0', b"", 0o644)).collect();
    for (archive, reason) in [
        (gzip(&tar(&[tar_entry("a", b'0', &zeros, 0o644)])), "more than"),
        (zip(&[("a", 0o100_644, &zeros, None)]), "more than"),
        (gzip(&tar(&many)), "more than 20 files"),
        // It declares a small size.
        (zip(&[("a", 0o100_644, &zeros, Some(10))]), "damaged"),
        (zip(&[("a", 0o100_644, b"short", Some(50_000))]), "failed to unpack"),
        (gzip(&vec![7; 5_000]), "neither a zip nor a tar"),
        (b"PK\x03\x04 nothing".to_vec(), "directory"),
        (Vec::new(), "empty"),
    ] {
        let error = refused(&archive);
        assert!(error.contains(reason), "{error}");
    }
}

proptest! {
    #[test]
    fn damaged_archive_never_panics(at in 0usize..1_000, byte: u8, packed: bool) {
        let mut archive = match packed {
            true => zip(&[("a/b", 0o100_644, b"hello", None), ("c", 0o100_755, b"", None)]),
            false => tar(&[tar_entry("a/b", b'0', b"hello", 0o644)]),
        };
        let length = archive.len();
        archive[at % length] = byte;
        let (folder, _) = unpacked(&archive);
        prop_assert_eq!(fs::read_dir(folder.path()).expect("directory").count(), 2);
    }
}
