//! Unix sockets on which programs of the host listen. They are covered, because a connection to one
//! escapes any file confinement.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;

use crate::plan::{Network, Plan};

/// Maximum number of sockets to cover, because each is a mount.
const MAX_COUNT: usize = 256;

/// Returns sockets in the file system on which programs of the host listen and that the command
/// must not reach. This includes sockets in the workspace: servers of a session in its own network
/// are not in this table.
pub(crate) fn host_sockets(plan: &Plan, visible: &[PathBuf]) -> Vec<PathBuf> {
    let Ok(file) = File::open("/proc/net/unix") else { return Vec::new() };
    let lines = BufReader::new(file.take(4 << 20)).lines().map_while(Result::ok);
    let mut found: Vec<PathBuf> = lines
        .filter_map(|line| parse_listening_path(&line))
        .filter(|path| {
            let within = |tree: &PathBuf| path.starts_with(tree);
            let covered = match plan.writable.iter().any(within) {
                true => plan.network != Network::Host,
                // Private directories replace these; but a home directory may be inside `/tmp`,
                // where it stays visible.
                false => {
                    let is_within = |tops: &[&str]| tops.iter().any(|top| path.starts_with(top));
                    !is_within(&["/run", "/var/run", "/dev"])
                        && (!is_within(&["/tmp", "/var/tmp"]) || visible.iter().any(within))
                }
            };
            covered && !plan.sockets.contains(path)
        })
        .collect();
    found.sort();
    found.dedup();
    found.truncate(MAX_COUNT);
    found
}

/// Parses a line `Num RefCount Protocol Flags Type St Inode Path`; a flag shows that the socket
/// accepts connections.
fn parse_listening_path(line: &str) -> Option<PathBuf> {
    const ACCEPTS: u32 = 0x1_0000;
    let mut rest = line;
    let mut word = || {
        let (word, behind) = rest.trim_start().split_once(' ')?;
        rest = behind;
        Some(word)
    };
    word()?;
    word()?;
    word()?;
    let flags = u32::from_str_radix(word()?, 16).ok()?;
    let datagram = word()? == "0002";
    word()?;
    word()?;
    // The path follows after one space and may contain spaces.
    let path = rest;
    (path.starts_with('/') && (datagram || flags & ACCEPTS != 0)).then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_sockets_that_accept_are_found() {
        let line = |flags: &str, path: &str| {
            format!("0000000000000000: 00000002 00000000 {flags} 0001 01 1234 {path}")
        };
        assert_eq!(
            parse_listening_path(&line("00010000", "/run/d.sock")),
            Some("/run/d.sock".into())
        );
        assert_eq!(
            parse_listening_path(&line("00010000", "/w/my  d.sock")),
            Some("/w/my  d.sock".into())
        );
        assert_eq!(parse_listening_path(&line("00000000", "/run/d.sock")), None);
        assert_eq!(parse_listening_path(&line("00010000", "@abstract")), None);
        assert_eq!(parse_listening_path("Num RefCount Protocol Flags Type St Inode Path"), None);
    }
}
