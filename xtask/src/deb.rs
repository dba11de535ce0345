//! Debian packages: the program, and one that makes it the alternative for `gemini`.

use anyhow::{Context as _, Result};

use crate::archive::{ArchiveSettings, Directories, gzip, tar_gz};
use crate::binary::LibraryNeeds;
use crate::name_check::shell_lines;
use crate::package_files::{GeneratedFiles, PackageFile};
use crate::product;

/// A package before it is written.
struct Package<'a> {
    name: &'a str,
    architecture: &'a str,
    /// Lines of the control file besides name, version, and description.
    relations: Vec<String>,
    summary: &'a str,
    description: &'a str,
    files: Vec<PackageFile>,
    scripts: Vec<PackageFile>,
}

/// A package's file name and bytes.
pub type NamedBytes = (String, Vec<u8>);

/// Returns the version in Debian's order, in which a pre-release is older than its release.
pub fn version() -> String {
    product::VERSION.replacen('-', "~", 1)
}

/// Returns the package of the program.
///
/// # Errors
/// Returns an error if a file of the repository cannot be read.
pub fn program_package(
    program: &[u8],
    architecture: &str,
    generated: &GeneratedFiles,
    licenses: &str,
    maintainer: &str,
    settings: ArchiveSettings,
) -> Result<NamedBytes> {
    let mut files = vec![
        PackageFile::program("usr/bin/parallax", program.to_vec()),
        PackageFile::data(
            "usr/share/bash-completion/completions/parallax",
            generated.completion("bash")?.to_vec(),
        ),
        PackageFile::data(
            "usr/share/zsh/vendor-completions/_parallax",
            generated.completion("zsh")?.to_vec(),
        ),
        PackageFile::data(
            "usr/share/fish/vendor_completions.d/parallax.fish",
            generated.completion("fish")?.to_vec(),
        ),
        PackageFile::data(
            "usr/share/doc/parallax/third-party-licenses.txt.gz",
            gzip(licenses.as_bytes(), settings)?,
        ),
    ];
    for (name, page) in &generated.man_pages {
        files.push(PackageFile::data(
            format!("usr/share/man/man1/{name}.gz"),
            gzip(page, settings)?,
        ));
    }
    let needs = LibraryNeeds::read(program).debian();
    let mut relations =
        vec!["Recommends: ca-certificates, git".to_owned(), "Suggests: bubblewrap".to_owned()];
    if !needs.is_empty() {
        relations.insert(0, format!("Depends: {}", needs.join(", ")));
    }
    let check = shell_lines("parallax", "${DPKG_ROOT:-}/usr/bin/parallax");
    let install = format!("#!/bin/sh\nset -e\n[ \"$1\" = configure ] || exit 0\n{check}");
    let package = Package {
        name: "parallax",
        architecture,
        relations,
        summary: product::SUMMARY,
        description: product::DESCRIPTION,
        files,
        scripts: vec![PackageFile::program("postinst", install.into_bytes())],
    };
    package.write(maintainer, settings)
}

/// Returns the package that provides the command `gemini`.
///
/// # Errors
/// Returns an error if a file of the repository cannot be read.
pub fn gemini_package(maintainer: &str, settings: ArchiveSettings) -> Result<NamedBytes> {
    let check = shell_lines("gemini", "${DPKG_ROOT:-}/usr/bin/parallax");
    let install = format!(
        "#!/bin/sh\nset -e\n[ \"$1\" = configure ] || exit 0\n\
        update-alternatives --install /usr/bin/gemini gemini /usr/bin/parallax 10 \\\n        \
        --slave /usr/share/man/man1/gemini.1.gz gemini.1.gz /usr/share/man/man1/parallax.1.gz\n{check}"
    );
    let remove = "#!/bin/sh\nset -e\nif [ \"$1\" = remove ] || [ \"$1\" = deconfigure ]; then\n    \
        update-alternatives --remove gemini /usr/bin/parallax\nfi\n";
    let package = Package {
        name: "parallax-gemini",
        architecture: "all",
        relations: vec![format!("Depends: parallax (>= {})", version())],
        summary: "AI agent for the terminal: the command gemini",
        description: "Makes Parallax an alternative for the command gemini, so that scripts that call Gemini CLI \
            run Parallax.",
        files: Vec::new(),
        scripts: vec![
            PackageFile::program("postinst", install.into_bytes()),
            PackageFile::program("prerm", remove.as_bytes().to_vec()),
        ],
    };
    package.write(maintainer, settings)
}

impl Package<'_> {
    fn write(mut self, maintainer: &str, settings: ArchiveSettings) -> Result<NamedBytes> {
        let documents = format!("usr/share/doc/{}", self.name);
        self.files.push(PackageFile::text(format!("{documents}/copyright"), &copyright()));
        let changes = changelog(self.name, maintainer, settings)?;
        self.files.push(PackageFile::data(
            format!("{documents}/changelog.gz"),
            gzip(changes.as_bytes(), settings)?,
        ));

        // dpkg computes the checksums of files when it unpacks them.
        let mut control = vec![PackageFile::text("control", &self.control(maintainer))];
        control.append(&mut self.scripts);

        let mut builder = ar::Builder::new(Vec::new());
        for (name, bytes) in [
            ("debian-binary", b"2.0\n".to_vec()),
            ("control.tar.gz", tar_gz(&control, Directories::Listed, settings)?),
            ("data.tar.gz", tar_gz(&self.files, Directories::Listed, settings)?),
        ] {
            let mut header = ar::Header::new(name.as_bytes().to_vec(), bytes.len() as u64);
            header.set_mode(0o100_644);
            header.set_mtime(settings.time);
            builder
                .append(&header, bytes.as_slice())
                .with_context(|| format!("Failed to add {name}"))?;
        }
        let bytes = builder.into_inner().context("Failed to finish the package")?;
        Ok((format!("{}_{}_{}.deb", self.name, version(), self.architecture), bytes))
    }

    fn control(&self, maintainer: &str) -> String {
        let kibibytes: usize = self.files.iter().map(|file| file.bytes.len().div_ceil(1024)).sum();
        let mut text = format!(
            "Package: {}\nVersion: {}\nArchitecture: {}\nMaintainer: {maintainer}\nInstalled-Size: {kibibytes}\n\
             Section: utils\nPriority: optional\n",
            self.name,
            version(),
            self.architecture
        );
        for relation in &self.relations {
            text.push_str(relation);
            text.push('\n');
        }
        text.push_str(&format!("Description: {}\n", self.summary));
        for line in wrap(self.description, 76) {
            text.push_str(&format!(" {line}\n"));
        }
        text
    }
}

/// Lines of at most this many characters.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let mut line = lines.pop().unwrap_or_default();
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        lines.push(line);
    }
    lines
}

/// Returns the machine-readable copyright file.
fn copyright() -> String {
    format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: {}\n\nFiles: *\nCopyright: The Parallax authors\nLicense: {}\n\n\
         License: Apache-2.0\n On Debian systems, the full text of the Apache License, version 2.0,\n \
         is in /usr/share/common-licenses/Apache-2.0.\n .\n The licenses of the libraries in the program are in\n \
         /usr/share/doc/parallax/third-party-licenses.txt.gz.\n",
        product::NAME,
        product::LICENSE
    )
}

fn changelog(package: &str, maintainer: &str, settings: ArchiveSettings) -> Result<String> {
    let date = product::timestamp(settings.time)?.strftime("%a, %d %b %Y %H:%M:%S +0000");
    let version = version();
    Ok(format!(
        "{package} ({version}) unstable; urgency=medium\n\n  * Release {version}.\n\n -- {maintainer}  {date}\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn description_is_wrapped_at_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert!(wrap(product::DESCRIPTION, 76).iter().all(|line| line.len() <= 76));
    }

    #[test]
    fn package_for_gemini_has_control_scripts_and_documents() {
        let settings = ArchiveSettings { time: 1_000_000_000, compression: 1 };
        let (name, bytes) = gemini_package(product::MAINTAINER, settings).expect("a package");
        assert_eq!(name, format!("parallax-gemini_{}_all.deb", version()));
        let mut archive = ar::Archive::new(bytes.as_slice());
        let mut members = Vec::new();
        while let Some(entry) = archive.next_entry() {
            let entry = entry.expect("an entry");
            members.push(String::from_utf8_lossy(entry.header().identifier()).into_owned());
        }
        assert_eq!(members, ["debian-binary", "control.tar.gz", "data.tar.gz"]);
    }
}
