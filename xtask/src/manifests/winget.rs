//! The manifests of winget.

use super::Release;
use crate::product;

const IDENTIFIER: &str = "Parallax.Parallax";
const SCHEMA: &str = "1.9.0";

/// The three files that a version needs; nothing without a binary for Windows.
pub fn manifests(release: &Release) -> Vec<(String, String)> {
    let triple = "x86_64-pc-windows-gnu";
    let Some(archive) = release.archive(triple) else { return Vec::new() };
    let version = product::VERSION;
    let publisher = release.maintainer.split(" <").next().unwrap_or_default();
    let head = format!("PackageIdentifier: {IDENTIFIER}\nPackageVersion: {version}\n");
    let tail = |kind: &str| format!("ManifestType: {kind}\nManifestVersion: {SCHEMA}\n");
    let main = format!("{head}DefaultLocale: en-US\n{}", tail("version"));
    let installer = format!(
        "{head}InstallerType: zip\nNestedInstallerType: portable\nNestedInstallerFiles:\n\
         - RelativeFilePath: parallax-{version}-{triple}\\parallax.exe\n  PortableCommandAlias: parallax\n\
         Installers:\n- Architecture: x64\n  InstallerUrl: {}\n  InstallerSha256: {}\n{}",
        release.url(&archive.name),
        archive.sha256.to_uppercase(),
        tail("installer")
    );
    let locale = format!(
        "{head}PackageLocale: en-US\nPublisher: {publisher}\nPackageName: Parallax\nPackageUrl: {}\nLicense: {}\n\
         ShortDescription: {}\nDescription: {}\nMoniker: parallax\n{}",
        release.repository,
        product::LICENSE,
        product::SUMMARY,
        product::DESCRIPTION,
        tail("defaultLocale")
    );
    vec![
        (format!("{IDENTIFIER}.yaml"), main),
        (format!("{IDENTIFIER}.installer.yaml"), installer),
        (format!("{IDENTIFIER}.locale.en-US.yaml"), locale),
    ]
}
