//! Archives whose bytes depend only on their contents: entries are sorted, with one time and one
//! owner.

use std::collections::BTreeSet;
use std::io::{Cursor, Write as _};

use anyhow::{Context as _, Result};
use flate2::{Compression, GzBuilder};
use zip::write::SimpleFileOptions;

use crate::package_files::PackageFile;

/// The settings that make archives reproducible, and their compression.
#[derive(Debug, Clone, Copy)]
pub struct ArchiveSettings {
    /// The time of all entries, in seconds since 1970.
    pub time: u64,
    /// From 1 (fast) to 9 (small).
    pub compression: u32,
}

/// Whether a tar archive has entries for directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directories {
    /// One for each directory, before its files.
    Listed,
    /// None: extractors create them.
    Implied,
}

/// Returns a tar archive, compressed with gzip.
///
/// # Errors
/// Returns an error if a path is not valid in a tar archive.
pub fn tar_gz(
    files: &[PackageFile],
    directories: Directories,
    settings: ArchiveSettings,
) -> Result<Vec<u8>> {
    gzip(&tar(files, directories, settings)?, settings)
}

fn tar(
    files: &[PackageFile],
    directories: Directories,
    settings: ArchiveSettings,
) -> Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    if directories == Directories::Listed {
        for directory in parents(files) {
            let mut header = header(tar::EntryType::Directory, 0o755, 0, settings);
            let path = format!("{directory}/");
            builder
                .append_data(&mut header, &path, std::io::empty())
                .with_context(|| format!("Failed to add {path}"))?;
        }
    }
    for file in sort_files(files) {
        let size = file.bytes.len() as u64;
        let mut header = header(tar::EntryType::Regular, file.mode, size, settings);
        let path = &file.path;
        builder
            .append_data(&mut header, path, file.bytes.as_slice())
            .with_context(|| format!("Failed to add {path}"))?;
    }
    builder.into_inner().context("Failed to finish the archive")
}

/// Compresses bytes. The header of the stream names no file, no time, and no system.
///
/// # Errors
/// Only when memory cannot be written.
pub fn gzip(bytes: &[u8], settings: ArchiveSettings) -> Result<Vec<u8>> {
    let level = Compression::new(settings.compression);
    let mut encoder = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), level);
    encoder.write_all(bytes).context("Failed to compress")?;
    encoder.finish().context("Failed to compress")
}

/// Returns a zip archive, for systems whose package managers do not read tar archives.
///
/// # Errors
/// Returns an error if a path is not valid in a zip archive.
pub fn zip(files: &[PackageFile], settings: ArchiveSettings) -> Result<Vec<u8>> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for file in sort_files(files) {
        // The format's time has no zone and begins in 1980: its first moment is the same for all.
        let options = SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Deflated)
            .compression_level(Some(i64::from(settings.compression)))
            .last_modified_time(zip::DateTime::default())
            .unix_permissions(file.mode);
        writer
            .start_file(&file.path, options)
            .with_context(|| format!("Failed to add {}", file.path))?;
        writer.write_all(&file.bytes).with_context(|| format!("Failed to add {}", file.path))?;
    }
    Ok(writer.finish().context("Failed to finish the archive")?.into_inner())
}

fn header(kind: tar::EntryType, mode: u32, size: u64, settings: ArchiveSettings) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(settings.time);
    header.set_uid(0);
    header.set_gid(0);
    // `root` fits into the fields for names.
    let _ = header.set_username("root");
    let _ = header.set_groupname("root");
    header
}

fn sort_files(files: &[PackageFile]) -> Vec<&PackageFile> {
    let mut files: Vec<_> = files.iter().collect();
    files.sort_by(|one, other| one.path.cmp(&other.path));
    files
}

/// Returns all directories that contain files, each after its parent.
fn parents(files: &[PackageFile]) -> BTreeSet<&str> {
    let mut parents = BTreeSet::new();
    for file in files {
        let mut path = file.path.as_str();
        while let Some((parent, _)) = path.rsplit_once('/') {
            parents.insert(parent);
            path = parent;
        }
    }
    parents
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: ArchiveSettings = ArchiveSettings { time: 1_000_000_000, compression: 9 };

    fn files() -> Vec<PackageFile> {
        vec![
            PackageFile::text("b/two.txt", "two"),
            PackageFile::program("a", b"\x7fELF".to_vec()),
            PackageFile::text("b/c/three.txt", "three"),
        ]
    }

    #[test]
    fn tar_archive_does_not_depend_on_the_order_of_files() {
        let mut reversed = files();
        reversed.reverse();
        let one = tar_gz(&files(), Directories::Listed, SETTINGS).expect("an archive");
        let other = tar_gz(&reversed, Directories::Listed, SETTINGS).expect("an archive");
        assert_eq!(one, other);
    }

    #[test]
    fn zip_archive_does_not_depend_on_the_order_of_files() {
        let mut reversed = files();
        reversed.reverse();
        assert_eq!(
            zip(&files(), SETTINGS).expect("an archive"),
            zip(&reversed, SETTINGS).expect("an archive")
        );
    }

    #[test]
    fn tar_entries_have_one_owner_one_time_and_their_modes() {
        let bytes = tar(&files(), Directories::Listed, SETTINGS).expect("an archive");
        let mut archive = tar::Archive::new(bytes.as_slice());
        let mut shown = Vec::new();
        for entry in archive.entries().expect("entries") {
            let entry = entry.expect("an entry");
            let header = entry.header();
            assert_eq!(
                (header.uid().expect("a uid"), header.mtime().expect("a time")),
                (0, 1_000_000_000)
            );
            let path = entry.path().expect("a path").to_string_lossy().into_owned();
            shown.push(format!("{path} {:o}", header.mode().expect("a mode")));
        }
        assert_eq!(shown, ["b/ 755", "b/c/ 755", "a 755", "b/c/three.txt 644", "b/two.txt 644"]);
    }
}
