//! `cargo xtask dist`: every artifact of a release, from one table of targets.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use sha2::{Digest as _, Sha256};

use crate::archive::{ArchiveSettings, Directories, tar_gz, zip};
use crate::dependencies::Dependencies;
use crate::manifests::{Release, ReleasedArchive};
use crate::package_files::{GeneratedFiles, PackageFile, read};
use crate::targets::{Linkage, TARGETS, Target};
use crate::tool::command;
use crate::{binary, compile, deb, licenses, npm, product, report, sbom};

const CHECKSUMS: &str = "SHA256SUMS";

/// Options of `cargo xtask dist`.
#[derive(Debug, clap::Args)]
pub struct DistOptions {
    /// Build only these targets [default: all of the table]
    #[arg(long = "target", value_name = "TRIPLE")]
    targets: Vec<String>,
    /// Package this binary instead of building one; for another target than this machine's, with
    /// its name
    #[arg(long = "binary", value_name = "[TRIPLE=]PATH")]
    binaries: Vec<String>,
    /// Directory of the artifacts
    #[arg(long, value_name = "DIR", default_value = "dist")]
    out: PathBuf,
    /// Cargo profile of binaries that are built
    #[arg(long, value_name = "NAME", default_value = "dist")]
    profile: String,
    /// Compression of archives, from 1 (fast) to 9 (small)
    #[arg(long, value_name = "LEVEL", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=9))]
    compression: u32,
    /// Maintainer in packages of Linux distributions
    #[arg(long, value_name = "NAME <EMAIL>", default_value = product::MAINTAINER)]
    maintainer: String,
    /// Repository whose releases package managers download; in a workflow of GitHub, its own
    #[arg(long, value_name = "URL")]
    repository: Option<String>,
}

/// A binary that is packaged.
struct BuiltBinary {
    target: &'static Target,
    path: PathBuf,
    bytes: Vec<u8>,
}

/// The directory of the artifacts.
struct ArtifactDirectory {
    directory: PathBuf,
    /// File name and SHA-256 of what was written.
    checksums: Vec<(String, String)>,
}

/// Builds and packages.
///
/// # Errors
/// Returns an error if a build fails, or nothing could be built. A target whose tools are missing
/// is skipped.
pub fn run(options: &DistOptions) -> Result<()> {
    let settings =
        ArchiveSettings { time: product::source_date()?, compression: options.compression };
    let built = binaries(options)?;
    if built.is_empty() {
        bail!("No binary to package. Install what is missing, or name one with --binary.");
    }
    let dependencies = Dependencies::read()?;
    let licenses = licenses::list(&dependencies)?;
    let generated = generated_files(&built)?;
    let mut output = ArtifactDirectory::create(&options.out)?;

    let mut archives = Vec::new();
    for one in &built {
        let (name, bytes) = archive(one, &generated, &licenses, settings)?;
        let sha256 = output.write((name.clone(), bytes))?;
        archives.push(ReleasedArchive { target: one.target, name, sha256 });
    }
    for architecture in distinct_values(built.iter().filter_map(|one| one.target.deb)) {
        // A package of a distribution uses its C library.
        let candidates: Vec<_> =
            built.iter().filter(|one| one.target.deb == Some(architecture)).collect();
        let dynamic = candidates.iter().find(|one| one.target.linkage == Linkage::Dynamic);
        if let Some(one) = dynamic.or(candidates.first()) {
            let package = deb::program_package(
                &one.bytes,
                architecture,
                &generated,
                &licenses,
                &options.maintainer,
                settings,
            );
            output.write(package?)?;
        }
    }
    if built.iter().any(|one| one.target.deb.is_some()) {
        output.write(deb::gemini_package(&options.maintainer, settings)?)?;
    }
    let mut platforms: Vec<&Target> = Vec::new();
    for one in &built {
        if platforms.iter().all(|platform| platform.npm != one.target.npm) {
            platforms.push(one.target);
            output.write(npm::platform_package(one.target, &one.bytes, &licenses, settings)?)?;
        }
    }
    output.write(npm::launcher_package(&platforms, settings)?)?;
    output.write(sbom::cyclonedx(&dependencies, settings.time)?)?;
    output.write((
        format!("{}-{}-licenses.txt", product::NAME, product::VERSION),
        licenses.into_bytes(),
    ))?;
    match repository(options) {
        Some(repository) => {
            let maintainer = options.maintainer.clone();
            let release = Release { repository, archives, maintainer, time: settings.time };
            for (name, text) in release.manifests()? {
                output.write((name, text.into_bytes()))?;
            }
        }
        None => report::print_skipped(
            "RPM, Arch, Homebrew, and winget",
            "--repository does not say where releases are",
        ),
    }
    if dependencies.repository.is_none() {
        report::print_skipped(
            "cargo-binstall",
            "`repository` in crates/parallax/Cargo.toml does not say where releases are",
        );
    }
    output.finish()
}

/// Returns the address of the repository, without a slash at its end.
fn repository(options: &DistOptions) -> Option<String> {
    let workflow_repository = || {
        let variable = |name| std::env::var(name).ok();
        Some(format!("{}/{}", variable("GITHUB_SERVER_URL")?, variable("GITHUB_REPOSITORY")?))
    };
    let address = options.repository.clone().or_else(workflow_repository)?;
    Some(address.trim_end_matches('/').to_owned())
}

/// Returns the binaries that were named, or those that can be built here, in the order of the
/// table.
fn binaries(options: &DistOptions) -> Result<Vec<BuiltBinary>> {
    let mut named = Vec::new();
    for text in &options.binaries {
        let (target, path) = match text.split_once('=') {
            Some((triple, path)) => (find_target(triple)?, path),
            None => (find_target(&compile::host_triple()?)?, text.as_str()),
        };
        named.push((target, PathBuf::from(path)));
    }
    let selected: Vec<_> =
        options.targets.iter().map(|triple| find_target(triple)).collect::<Result<_>>()?;
    let is_selected = |target: &Target| {
        if selected.is_empty() {
            named.is_empty()
        } else {
            selected.iter().any(|it| it.triple == target.triple)
        }
    };
    let mut built = Vec::new();
    for target in TARGETS {
        let named_binary = named.iter().find(|(other, _)| other.triple == target.triple);
        let path = match named_binary {
            Some((_, path)) => path.clone(),
            None if !is_selected(target) => continue,
            None => match compile::missing_tool(target) {
                Some(missing) => {
                    report::print_skipped(target.triple, &missing);
                    continue;
                }
                None => compile::build(target, &options.profile)?,
            },
        };
        let bytes = read(&path)?;
        binary::check_format(&bytes, target)?;
        built.push(BuiltBinary { target, path, bytes });
    }
    Ok(built)
}

fn find_target(triple: &str) -> Result<&'static Target> {
    Target::find(triple).with_context(|| {
        let known: Vec<_> = TARGETS.iter().map(|target| target.triple).collect();
        format!("Unknown target `{triple}`. Available targets: {}.", known.join(", "))
    })
}

/// Returns the man pages and completions of a packaged binary that runs here, or of a build for
/// this machine.
fn generated_files(built: &[BuiltBinary]) -> Result<GeneratedFiles> {
    let runs = |path: &Path| {
        let status = command(path).arg("--version").stdout(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let runnable = built.iter().find(|one| one.target.runs_here() && runs(&one.path));
    match runnable {
        Some(one) => GeneratedFiles::generate(&one.path),
        None => GeneratedFiles::generate(&compile::build_for_host()?),
    }
}

/// Returns the archive with everything, for a target.
fn archive(
    built: &BuiltBinary,
    generated: &GeneratedFiles,
    licenses: &str,
    settings: ArchiveSettings,
) -> Result<(String, Vec<u8>)> {
    let name = built.target.archive_directory();
    let mut files = generated.files_for_archive(&name)?;
    files.push(PackageFile::program(
        format!("{name}/{}", built.target.program()),
        built.bytes.clone(),
    ));
    files.push(PackageFile::text(format!("{name}/THIRD-PARTY-LICENSES.txt"), licenses));
    let bytes = if built.target.is_windows() {
        zip(&files, settings)?
    } else {
        tar_gz(&files, Directories::Implied, settings)?
    };
    Ok((built.target.archive_name(), bytes))
}

fn distinct_values<'a>(values: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut distinct = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

impl ArtifactDirectory {
    /// Removes what an earlier run wrote, as its checksum file lists it; other files stay.
    fn create(directory: &Path) -> Result<Self> {
        fs::create_dir_all(directory)
            .with_context(|| format!("Failed to create {}", directory.display()))?;
        let earlier = fs::read_to_string(directory.join(CHECKSUMS)).unwrap_or_default();
        for name in earlier.lines().filter_map(|line| line.split_once("  ")).map(|(_, name)| name) {
            // Only files of this directory.
            if Path::new(name).file_name().is_some_and(|file| file == name) {
                let _ = fs::remove_file(directory.join(name));
            }
        }
        Ok(Self { directory: directory.to_path_buf(), checksums: Vec::new() })
    }

    /// Writes a file and returns its SHA-256.
    fn write(&mut self, (name, bytes): (String, Vec<u8>)) -> Result<String> {
        let path = self.directory.join(&name);
        fs::write(&path, &bytes).with_context(|| format!("Failed to write {}", path.display()))?;
        report::print_line(&format!("{:>11} {}", bytes.len(), path.display()));
        let sum: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        self.checksums.push((name, sum.clone()));
        Ok(sum)
    }

    /// Writes the checksums of everything else.
    fn finish(mut self) -> Result<()> {
        self.checksums.sort();
        let lines: String =
            self.checksums.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect();
        let path = self.directory.join(CHECKSUMS);
        fs::write(&path, lines).with_context(|| format!("Failed to write {}", path.display()))?;
        report::print_line(&format!("{:>11} {}", "", path.display()));
        Ok(())
    }
}
