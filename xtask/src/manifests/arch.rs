//! The build file of an Arch package, and its installation script.

use super::Release;
use crate::name_check::shell_lines;
use crate::product;

/// A package of the static binaries.
pub fn pkgbuild(release: &Release) -> Vec<(String, String)> {
    let packaged: Vec<_> = ["x86_64", "aarch64"]
        .into_iter()
        .filter_map(|name| Some((name, release.archive(&format!("{name}-unknown-linux-musl"))?)))
        .collect();
    if packaged.is_empty() {
        return Vec::new();
    }
    let names: Vec<_> = packaged.iter().map(|(name, _)| format!("'{name}'")).collect();
    let mut sources = String::new();
    for (name, archive) in &packaged {
        sources.push_str(&format!("source_{name}=('{}')\n", release.url(&archive.name)));
        sources.push_str(&format!("sha256sums_{name}=('{}')\n", archive.sha256));
    }
    let text = format!(
        "# Maintainer: {maintainer}\n\
         pkgname=parallax-bin\n\
         # A hyphen would end the version.\n\
         pkgver={package_version}\n\
         _version={version}\n\
         pkgrel=1\n\
         pkgdesc='{summary}'\n\
         arch=({names})\n\
         url='{repository}'\n\
         license=('{license}')\n\
         provides=('parallax')\n\
         conflicts=('parallax')\n\
         optdepends=('git: worktrees, undo of commits, and reviews')\n\
         options=('!strip')\n\
         install=parallax-bin.install\n\
         {sources}\
         \n\
         package() {{\n    \
             cd \"parallax-$_version-$CARCH-unknown-linux-musl\"\n    \
             install -D -m 755 parallax \"$pkgdir/usr/bin/parallax\"\n    \
             install -d \"$pkgdir/usr/share/man/man1\"\n    \
             install -m 644 man/man1/*.1 \"$pkgdir/usr/share/man/man1/\"\n    \
             install -D -m 644 completions/parallax.bash \"$pkgdir/usr/share/bash-completion/completions/parallax\"\n    \
             install -D -m 644 completions/_parallax \"$pkgdir/usr/share/zsh/site-functions/_parallax\"\n    \
             install -D -m 644 completions/parallax.fish \"$pkgdir/usr/share/fish/vendor_completions.d/parallax.fish\"\n    \
             install -D -m 644 -t \"$pkgdir/usr/share/licenses/$pkgname\" LICENSE THIRD-PARTY-LICENSES.txt\n\
         }}\n",
        maintainer = release.maintainer,
        package_version = product::VERSION.replace('-', "_"),
        version = product::VERSION,
        summary = product::SUMMARY,
        names = names.join(" "),
        repository = release.repository,
        license = product::LICENSE,
    );
    let check = shell_lines("parallax", "/usr/bin/parallax");
    let install =
        format!("post_install() {{\n{check}}}\n\npost_upgrade() {{\n    post_install\n}}\n");
    vec![("PKGBUILD".to_owned(), text), ("parallax-bin.install".to_owned(), install)]
}
