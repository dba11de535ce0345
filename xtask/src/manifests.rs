//! Manifests for package managers that install the archives of a release: RPM, Arch, Homebrew,
//! winget.
//!
//! Each names only targets that were packaged in this run, with their checksums.

mod arch;
mod homebrew;
mod rpm;
mod winget;

use crate::targets::Target;

/// An archive of a release.
#[derive(Debug, Clone)]
pub struct ReleasedArchive {
    pub target: &'static Target,
    /// The file name.
    pub name: String,
    /// Its SHA-256 in hexadecimal.
    pub sha256: String,
}

/// What all manifests need.
#[derive(Debug)]
pub struct Release {
    /// The address of the repository.
    pub repository: String,
    pub archives: Vec<ReleasedArchive>,
    /// Who maintains the packages: `Name <address>`.
    pub maintainer: String,
    /// Seconds since 1970.
    pub time: u64,
}

impl Release {
    /// Returns the address of a file of the release.
    pub fn url(&self, name: &str) -> String {
        format!("{}/releases/download/v{}/{name}", self.repository, crate::product::VERSION)
    }

    /// Returns the archive of a target, if it was packaged.
    pub fn archive(&self, triple: &str) -> Option<&ReleasedArchive> {
        self.archives.iter().find(|archive| archive.target.triple == triple)
    }

    /// Returns the manifests: file names and contents. A format none of whose targets was packaged
    /// is left out.
    ///
    /// # Errors
    /// Returns an error if the time is beyond any calendar.
    pub fn manifests(&self) -> anyhow::Result<Vec<(String, String)>> {
        let mut manifests = Vec::new();
        manifests.extend(rpm::spec(self)?);
        manifests.extend(arch::pkgbuild(self));
        manifests.extend(homebrew::formula(self));
        manifests.extend(winget::manifests(self));
        Ok(manifests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::TARGETS;

    fn release(triples: &[&str]) -> Release {
        let archives =
            TARGETS.iter().filter(|target| triples.contains(&target.triple)).map(|target| {
                ReleasedArchive { target, name: target.archive_name(), sha256: "0".repeat(64) }
            });
        Release {
            repository: "https://forge.example/owner/parallax".to_owned(),
            archives: archives.collect(),
            maintainer: crate::product::MAINTAINER.to_owned(),
            time: 1_000_000_000,
        }
    }

    #[test]
    fn every_format_is_written_for_all_targets() {
        let all: Vec<_> = TARGETS.iter().map(|target| target.triple).collect();
        let manifests = release(&all).manifests().expect("manifests");
        let names: Vec<_> = manifests.iter().map(|(name, _)| name.as_str()).collect();
        let expected = [
            "parallax.spec",
            "PKGBUILD",
            "parallax-bin.install",
            "parallax.rb",
            "Parallax.Parallax.yaml",
            "Parallax.Parallax.installer.yaml",
            "Parallax.Parallax.locale.en-US.yaml",
        ];
        assert_eq!(names, expected);
        for (name, text) in &manifests {
            let has_version = text.contains(crate::product::VERSION) || name.ends_with(".install");
            assert!(has_version && text.ends_with('\n'), "{name}: {text}");
            assert!(text.lines().all(|line| line.trim_end() == line), "{name}: {text}");
        }
    }

    #[test]
    fn format_without_a_packaged_target_is_left_out() {
        let manifests = release(&["x86_64-apple-darwin"]).manifests().expect("manifests");
        let names: Vec<_> = manifests.into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["parallax.rb"]);
    }
}
