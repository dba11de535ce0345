//! The formula of Homebrew.

use super::Release;
use crate::product;

/// A formula for macOS and Linux.
pub fn formula(release: &Release) -> Option<(String, String)> {
    let platforms = [
        ("on_macos", "on_arm", "aarch64-apple-darwin"),
        ("on_macos", "on_intel", "x86_64-apple-darwin"),
        ("on_linux", "on_arm", "aarch64-unknown-linux-musl"),
        ("on_linux", "on_intel", "x86_64-unknown-linux-musl"),
    ];
    let mut systems: Vec<(&str, String)> = Vec::new();
    for (system, processor, triple) in platforms {
        let Some(archive) = release.archive(triple) else { continue };
        let block = format!(
            "    {processor} do\n      url \"{}\"\n      sha256 \"{}\"\n    end\n",
            release.url(&archive.name),
            archive.sha256
        );
        match systems.iter_mut().find(|(name, _)| *name == system) {
            Some((_, blocks)) => blocks.push_str(&block),
            None => systems.push((system, block)),
        }
    }
    if systems.iter().all(|(system, _)| *system != "on_macos") {
        return None;
    }
    let systems: String = systems
        .into_iter()
        .map(|(system, blocks)| format!("\n  {system} do\n{blocks}  end\n"))
        .collect();
    let text = format!(
        "class Parallax < Formula\n  \
           desc \"{summary}\"\n  \
           homepage \"{repository}\"\n  \
           version \"{version}\"\n  \
           license \"{license}\"\n\
         {systems}\
         \n  \
           def install\n    \
             bin.install \"parallax\"\n    \
             man1.install Dir[\"man/man1/*.1\"]\n    \
             bash_completion.install \"completions/parallax.bash\" => \"parallax\"\n    \
             zsh_completion.install \"completions/_parallax\"\n    \
             fish_completion.install \"completions/parallax.fish\"\n  \
           end\n\
         \n  \
           def caveats\n    \
             other = which(\"parallax\", ORIGINAL_PATHS)\n    \
             return if other.nil? || other.realpath == (bin/\"parallax\").realpath\n\
         \n    \
             \"#{{other}} is another program of this name and comes first in PATH.\"\n  \
           end\n\
         \n  \
           test do\n    \
             assert_match version.to_s, shell_output(\"#{{bin}}/parallax --version\")\n  \
           end\n\
         end\n",
        summary = product::SUMMARY,
        repository = release.repository,
        version = product::VERSION,
        license = product::LICENSE,
    );
    Some(("parallax.rb".to_owned(), text))
}
