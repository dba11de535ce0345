//! Users and groups of a user namespace: which ids exist in it.

use std::fs;
use std::io::Write as _;

use rustix::process::{Pid, getegid, geteuid};

use crate::inside::failure::{Explain as _, Outcome};

/// Which ids a user namespace knows, each under its own number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    users: Vec<(u32, u32)>,
    groups: Vec<(u32, u32)>,
    /// All ids, or only the own user and group.
    pub(crate) whole: bool,
}

impl Identity {
    /// Every id of the current namespace.
    pub(crate) fn whole() -> Outcome<Self> {
        Ok(Self { users: ranges("uid_map")?, groups: ranges("gid_map")?, whole: true })
    }

    /// Only the own user and group.
    pub(crate) fn own() -> Self {
        Self {
            users: vec![(geteuid().as_raw(), 1)],
            groups: vec![(getegid().as_raw(), 1)],
            whole: false,
        }
    }

    /// What a namespace below the current one gets: everything but the last
    /// user. What belongs to that user is then nobody's inside, and no
    /// capability reaches it. The second value is that user.
    pub(crate) fn below() -> Outcome<(Self, Option<u32>)> {
        let mut all = Self::whole()?;
        let total: u64 = all.users.iter().map(|(_, count)| u64::from(*count)).sum();
        let last = all.users.last_mut().filter(|(_, count)| *count > 1);
        match last {
            Some((first, count)) if total > 1 => {
                *count -= 1;
                let odd = *first + *count;
                Ok((all, Some(odd)))
            }
            _ => Ok((Self { whole: false, ..all }, None)),
        }
    }

    /// Gives the user namespace of `pid` these ids. The caller stands in the
    /// namespace above.
    pub(crate) fn give_to(&self, pid: Pid) -> Outcome<()> {
        let proc = format!("/proc/{}", pid.as_raw_nonzero());
        if !self.whole {
            // The kernel wants this before it lets an ordinary user map a
            // group. Inside a namespace that has it already it cannot be said again.
            let _ = write_once(&format!("{proc}/setgroups"), "deny");
        }
        write_once(&format!("{proc}/uid_map"), &text(&self.users)).unsupported("user ids")?;
        write_once(&format!("{proc}/gid_map"), &text(&self.groups)).unsupported("group ids")
    }
}

/// A map is taken in one write or not at all.
fn write_once(path: &str, text: &str) -> std::io::Result<()> {
    fs::OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

fn text(ranges: &[(u32, u32)]) -> String {
    ranges.iter().map(|(first, count)| format!("{first} {first} {count}\n")).collect()
}

fn ranges(file: &str) -> Outcome<Vec<(u32, u32)>> {
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
    fn the_kernels_table_is_read_and_written_back_under_own_numbers() {
        let ranges = parse("         0     100000      65536\n     70000          5          1\n");
        assert_eq!(ranges, [(0, 65536), (70000, 1)]);
        assert_eq!(text(&ranges), "0 0 65536\n70000 70000 1\n");
    }
}
