//! The spec file of an RPM package.

use anyhow::Result;

use super::Release;
use crate::product;

/// A package of the static binaries.
///
/// # Errors
/// Returns an error if the time is beyond any calendar.
pub fn spec(release: &Release) -> Result<Option<(String, String)>> {
    let architectures =
        [("x86_64", "x86_64-unknown-linux-musl"), ("aarch64", "aarch64-unknown-linux-musl")];
    let packaged: Vec<_> = architectures
        .into_iter()
        .filter_map(|(name, triple)| Some((name, release.archive(triple)?)))
        .collect();
    if packaged.is_empty() {
        return Ok(None);
    }
    let names: Vec<_> = packaged.iter().map(|(name, _)| *name).collect();
    let mut sources = String::new();
    for (name, archive) in &packaged {
        sources.push_str(&format!(
            "%ifarch {name}\nSource0:        {}\n%endif\n",
            release.url(&archive.name)
        ));
    }
    let date = product::timestamp(release.time)?.strftime("%a %b %d %Y").to_string();
    // RPM orders a tilde before the release, as Debian does.
    let version = product::VERSION.replacen('-', "~", 1);
    let text = format!(
        "Name:           parallax\n\
         Version:        {version}\n\
         Release:        1%{{?dist}}\n\
         Summary:        {summary}\n\
         License:        {license}\n\
         URL:            {repository}\n\
         {sources}\
         ExclusiveArch:  {names}\n\
         Recommends:     git\n\
         \n\
         # The binary is stripped and static.\n\
         %global debug_package %{{nil}}\n\
         %global __strip /bin/true\n\
         \n\
         %description\n\
         {description}\n\
         \n\
         %prep\n\
         %setup -q -n parallax-{plain}-%{{_arch}}-unknown-linux-musl\n\
         \n\
         %build\n\
         \n\
         %install\n\
         install -D -m 755 parallax %{{buildroot}}%{{_bindir}}/parallax\n\
         install -d %{{buildroot}}%{{_mandir}}/man1\n\
         install -m 644 man/man1/*.1 %{{buildroot}}%{{_mandir}}/man1/\n\
         install -D -m 644 completions/parallax.bash %{{buildroot}}%{{_datadir}}/bash-completion/completions/parallax\n\
         install -D -m 644 completions/_parallax %{{buildroot}}%{{_datadir}}/zsh/site-functions/_parallax\n\
         install -D -m 644 completions/parallax.fish %{{buildroot}}%{{_datadir}}/fish/vendor_completions.d/parallax.fish\n\
         \n\
         %post\n\
         {check}\
         \n\
         %files\n\
         %license LICENSE THIRD-PARTY-LICENSES.txt\n\
         %doc README.md CHANGELOG.md\n\
         %{{_bindir}}/parallax\n\
         %{{_mandir}}/man1/parallax*.1*\n\
         %{{_datadir}}/bash-completion/completions/parallax\n\
         %{{_datadir}}/zsh/site-functions/_parallax\n\
         %{{_datadir}}/fish/vendor_completions.d/parallax.fish\n\
         \n\
         %changelog\n\
         * {date} {maintainer} - {version}-1\n\
         - Release {version}\n",
        check = crate::name_check::shell_lines("parallax", "/usr/bin/parallax").replace('%', "%%"),
        summary = product::SUMMARY,
        license = product::LICENSE,
        repository = release.repository,
        names = names.join(" "),
        description = crate::deb::wrap(product::DESCRIPTION, 78).join("\n"),
        plain = product::VERSION,
        maintainer = release.maintainer,
    );
    Ok(Some(("parallax.spec".to_owned(), text)))
}
