//! The package registries that `~/.npmrc` names. The file is hidden from commands because it holds
//! keys; without the addresses, package managers would ask the public registry for private
//! packages, which reveals their names and may install packages of strangers.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum bytes of a configuration file.
const MAX_BYTES: u64 = 256 * 1024;
/// The variable with the path of the user's configuration, for npm, pnpm, and Yarn 1.
const VARIABLE: &str = "npm_config_userconfig";

/// Gives a command a copy of the configuration with the addresses only, unless it may read the file
/// or uses another one. `directory` is readable for commands, but not writable. Blocking.
pub(super) fn add(
    environment: &mut Vec<(OsString, OsString)>,
    home: &Path,
    directory: &Path,
    readable: &[PathBuf],
) {
    let own = home.join(".npmrc");
    let is_set = |name: &OsString| name.to_string_lossy().eq_ignore_ascii_case(VARIABLE);
    if readable.contains(&own) || environment.iter().any(|(name, _)| is_set(name)) {
        return;
    }
    let addresses = addresses(&own);
    let copy = directory.join("npmrc");
    if addresses.is_empty() {
        return;
    }
    let is_written = fs::read_to_string(&copy).is_ok_and(|text| text == addresses)
        || fs::write(&copy, addresses).is_ok();
    if is_written {
        environment.push((VARIABLE.into(), copy.into()));
    }
}

/// Returns the lines of a configuration file that say where packages come from. Addresses with a
/// password are omitted.
fn addresses(path: &Path) -> String {
    let is_small = path.metadata().is_ok_and(|data| data.is_file() && data.len() <= MAX_BYTES);
    let text = if is_small { fs::read_to_string(path).unwrap_or_default() } else { String::new() };
    let lines = text.lines().filter(|line| {
        let Some((key, value)) = line.split_once('=') else { return false };
        let key = key.trim();
        let is_registry = key == "registry" || key.starts_with('@') && key.ends_with(":registry");
        (is_registry || matches!(key, "strict-ssl" | "cafile")) && !value.contains(['@', '$', '?'])
    });
    lines.map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_gets_the_addresses_without_keys() {
        let directory = tempfile::tempdir().expect("a directory");
        let home = directory.path();
        let text = "registry=https://npm.corp.example/\n@corp:registry = \"https://c.example/npm/\"\n\
            //npm.corp.example/:_authToken=secret\n@b:registry=https://u:p@b.example/\nignored=1\n";
        fs::write(home.join(".npmrc"), text).expect("a file");
        let provided = |mut environment: Vec<(OsString, OsString)>, readable: &[PathBuf]| {
            add(&mut environment, home, home, readable);
            environment.pop().map(|(_, path)| PathBuf::from(path))
        };
        assert_eq!(provided(Vec::new(), &[]), Some(home.join("npmrc")));
        assert_eq!(
            fs::read_to_string(home.join("npmrc")).expect("a file"),
            "registry=https://npm.corp.example/\n@corp:registry = \"https://c.example/npm/\"\n"
        );
        assert_eq!(provided(Vec::new(), &[home.join(".npmrc")]), None);
        let mine = vec![("NPM_CONFIG_USERCONFIG".into(), "/mine".into())];
        assert_eq!(provided(mine, &[]), Some("/mine".into()));
        fs::write(home.join(".npmrc"), "//npm.corp.example/:_authToken=secret\n").expect("a file");
        assert_eq!(provided(Vec::new(), &[]), None);
    }
}
