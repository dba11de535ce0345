//! Detects names of secrets in commands whose words are not plain paths: patterns, and code that a
//! line passes to an interpreter.

use std::path::{Path, PathBuf};

use globset::GlobBuilder;
use parallax_protocol::protected_names::{SECRETS_OF_HOME, is_sensitive};

use crate::bash::{Command, RedirectionKind};
use crate::call::ShellCall;

/// Programs that run code from their arguments or input.
const INTERPRETERS: &[&str] =
    &["awk", "bun", "deno", "gawk", "lua", "node", "perl", "php", "python", "ruby", "Rscript"];
/// Minimum number of literal characters for a pattern to be significant.
const LITERAL: usize = 2;
/// Names of secret files that a pattern may match, for [`is_sensitive`].
const FILES: &[&str] =
    &[".env", ".netrc", "credentials", "id_dsa", "id_ecdsa", "id_ed25519", "id_rsa", "shadow"];

/// Returns the secrets that words of the line may name, as written.
pub(crate) fn named_secrets(shell: &ShellCall<'_>, home: Option<&Path>) -> Vec<PathBuf> {
    let commands = &shell.line.commands;
    let targets = || shell.line.redirections.iter().map(|redirection| &redirection.target);
    let words = commands.iter().flat_map(Command::arguments).chain(targets());
    let patterns = words.filter(|word| word.glob).filter_map(|word| word.text.as_deref());
    let patterns = patterns.filter(|text| text.contains(['*', '?', '[']));
    let mut found: Vec<PathBuf> =
        patterns.filter(|text| matches_secret(text, home)).map(PathBuf::from).collect();
    // The home directory of another user.
    let words = commands.iter().flat_map(Command::arguments);
    let others = words.filter_map(|word| {
        let (user, below) = word.text.as_deref()?.strip_prefix('~')?.split_once('/')?;
        let is_secret = is_sensitive(&Path::new("/").join(below), Some(Path::new("/")));
        let path = word.text.as_deref().map(PathBuf::from);
        path.filter(|_| !user.is_empty() && word.glob && is_secret)
    });
    found.extend(others);
    // A secret file in a directory that is known only at run time: `"$DIR"/id_rsa`.
    let words = commands.iter().flat_map(Command::arguments).chain(targets());
    let unknown = words.filter(|word| word.text.is_none()).filter_map(|word| {
        let source = word.source.trim_matches('"');
        let (folder, name) = source.rsplit_once('/')?;
        let is_plain =
            |text: &str| !text.contains(|c: char| c.is_whitespace() || "()`".contains(c));
        let is_name = folder.contains('$') && is_plain(source) && !name.contains(['$', '"']);
        (is_name && is_sensitive(Path::new(name), None)).then(|| source.replace('"', "").into())
    });
    found.extend(unknown);
    let interpreted: Vec<&Command> = commands.iter().filter(|it| is_interpreter(it)).collect();
    let code = interpreted.iter().flat_map(|command| command.arguments());
    let input = shell.line.redirections.iter().filter(|redirection| {
        !interpreted.is_empty()
            && matches!(
                redirection.kind,
                RedirectionKind::HereDocument | RedirectionKind::HereString
            )
    });
    let texts = code.chain(input.map(|redirection| &redirection.target));
    for text in texts.map(|word| word.text.as_deref().unwrap_or(&word.source)) {
        found.extend(in_code(text, home));
    }
    found
}

fn is_interpreter(command: &Command) -> bool {
    command.name().is_some_and(|name| {
        INTERPRETERS.iter().any(|known| {
            name.strip_prefix(known)
                .is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
        })
    })
}

/// Returns the paths in text that point to secrets, either directly or relative to the home
/// directory.
fn in_code(text: &str, home: Option<&Path>) -> Vec<PathBuf> {
    let is_part = |c: char| c.is_alphanumeric() || "_-./~+@".contains(c);
    let tokens = text.split(|c: char| !is_part(c)).map(|token| token.trim_end_matches('.'));
    let is_secret = |token: &&str| {
        let relative = token.strip_prefix("~/").unwrap_or(token);
        let is_below_home = token.starts_with('.') || token.starts_with('~');
        is_below_home && SECRETS_OF_HOME.iter().any(|name| Path::new(relative).starts_with(name))
            || token.contains('/') && is_sensitive(Path::new(token), home)
            || token.starts_with("id_") && is_sensitive(Path::new(token), home)
    };
    tokens.filter(is_secret).map(PathBuf::from).collect()
}

/// Whether a shell pattern matches a secret in the home directory, or a secret file in any
/// directory.
fn matches_secret(pattern: &str, home: Option<&Path>) -> bool {
    let path_below_home = pattern.strip_prefix("~/").or_else(|| {
        let relative = Path::new(pattern).strip_prefix(home?).ok()?;
        relative.to_str()
    });
    let parts: Vec<&str> = pattern.split('/').collect();
    let last = parts.last().copied().unwrap_or_default();
    let literal = last.chars().filter(|c| c.is_alphanumeric()).count() >= LITERAL;
    if literal && FILES.iter().any(|name| matches(last, name))
        || is_sensitive(Path::new(last), None)
    {
        return true;
    }
    let components: Vec<&str> = match path_below_home {
        Some(below) => below.split('/').collect(),
        // The line may run in the home directory; only a name that is specific enough counts.
        None if pattern.starts_with('.') && !pattern.starts_with("./") => parts,
        None => return false,
    };
    let says = path_below_home.is_some()
        || components.first().is_some_and(|name| name.chars().any(char::is_alphanumeric));
    says && SECRETS_OF_HOME.iter().any(|secret| {
        let names: Vec<&str> = secret.split('/').collect();
        components.len() >= names.len()
            && components.iter().zip(&names).all(|(pattern, name)| matches(pattern, name))
    })
}

/// Whether a pattern below the home directory matches a directory with secrets: `.c*` matches
/// `.config`.
pub(crate) fn is_above_secret(pattern: &str) -> bool {
    let components: Vec<&str> = pattern.split('/').collect();
    SECRETS_OF_HOME.iter().any(|secret| {
        let mut names = secret.split('/');
        components.iter().all(|pattern| names.next().is_some_and(|name| matches(pattern, name)))
    })
}

/// Whether the shell pattern matches the name. A leading dot matches only an explicit dot.
fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && pattern.starts_with(['*', '?']) {
        return false;
    }
    GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .is_ok_and(|glob| glob.compile_matcher().is_match(name))
}
