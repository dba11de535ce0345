//! User and group ID mappings of user namespaces.

use std::fs;
use std::io::Write as _;

use rustix::process::{Pid, getegid, geteuid};

use crate::inside::failure::{FailureContextExt as _, SandboxResult};

/// The IDs of a user namespace, each mapped to the same number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    users: Vec<(u32, u32)>,
    groups: Vec<(u32, u32)>,
    /// Whether all IDs are mapped, as opposed to only the current user and group.
    pub(crate) maps_all_ids: bool,
}

impl Identity {
    /// Returns every ID of the current namespace.
    pub(crate) fn all_ids() -> SandboxResult<Self> {
        Ok(Self { users: ranges("uid_map")?, groups: ranges("gid_map")?, maps_all_ids: true })
    }

    /// Returns only the current user and group.
    pub(crate) fn current_user() -> Self {
        Self {
            users: vec![(geteuid().as_raw(), 1)],
            groups: vec![(getegid().as_raw(), 1)],
            maps_all_ids: false,
        }
    }

    /// Returns the IDs for a nested namespace: all except the last user. Files of that user have no
    /// valid owner in the nested namespace, so no capability applies to them. The second value is
    /// that user.
    pub(crate) fn nested() -> SandboxResult<(Self, Option<u32>)> {
        let mut all = Self::all_ids()?;
        let total: u64 = all.users.iter().map(|(_, count)| u64::from(*count)).sum();
        let last = all.users.last_mut().filter(|(_, count)| *count > 1);
        match last {
            Some((first, count)) if total > 1 => {
                *count -= 1;
                let odd = *first + *count;
                Ok((all, Some(odd)))
            }
            _ => Ok((Self { maps_all_ids: false, ..all }, None)),
        }
    }

    /// Maps these IDs in the user namespace of `pid`. The caller must be in the parent namespace.
    pub(crate) fn map_for(&self, pid: Pid) -> SandboxResult<()> {
        let proc = format!("/proc/{}", pid.as_raw_nonzero());
        if !self.maps_all_ids {
            // The kernel requires this before an ordinary user maps a group. It fails in a
            // namespace where it is already set.
            let _ = write_once(&format!("{proc}/setgroups"), "deny");
        }
        write_once(&format!("{proc}/uid_map"), &text(&self.users))
            .unsupported("cannot map user ids")?;
        write_once(&format!("{proc}/gid_map"), &text(&self.groups))
            .unsupported("cannot map group ids")
    }
}

/// Writes the text in a single write, which the kernel requires for ID maps.
fn write_once(path: &str, text: &str) -> std::io::Result<()> {
    fs::OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

fn text(ranges: &[(u32, u32)]) -> String {
    ranges.iter().map(|(first, count)| format!("{first} {first} {count}\n")).collect()
}

fn ranges(file: &str) -> SandboxResult<Vec<(u32, u32)>> {
    let path = format!("/proc/self/{file}");
    let text = fs::read_to_string(&path).unsupported(&path)?;
    Ok(parse(&text))
}

fn parse(text: &str) -> Vec<(u32, u32)> {
    let number = |word: Option<&str>| word.and_then(|word| word.parse().ok());
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let first = number(words.next())?;
            let count = number(words.nth(1))?;
            Some((first, count))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_map_is_parsed_and_rewritten_for_the_namespace() {
        let ranges = parse("         0     100000      65536\n     70000          5          1\n");
        assert_eq!(ranges, [(0, 65536), (70000, 1)]);
        assert_eq!(text(&ranges), "0 0 65536\n70000 70000 1\n");
    }
}
