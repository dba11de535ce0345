//! Permissions of commands beyond the default sandbox.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Permissions beyond the sandbox. The default is none. A model requests `network` and `fileSystem`
/// as `additional_permissions`, with the names that Gemini CLI uses; the other fields are specific
/// to Parallax.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Permissions {
    /// Access to other machines.
    #[serde(skip_serializing_if = "is_false")]
    pub network: bool,
    /// Access to servers on this machine that were not started in the sandbox.
    #[serde(skip_serializing_if = "is_false")]
    pub host_loopback: bool,
    /// Access to files outside the workspace, and to protected or hidden files in it.
    #[serde(skip_serializing_if = "FilePermissions::is_empty")]
    pub file_system: FilePermissions,
    /// Access to the sockets of the user's ssh and gpg agents.
    #[serde(skip_serializing_if = "is_false")]
    pub agents: bool,
    /// Whether git may run programs from the repository: hooks, filters, helpers.
    #[serde(skip_serializing_if = "is_false")]
    pub repository_programs: bool,
    /// Write access to the user's package caches.
    #[serde(skip_serializing_if = "is_false")]
    pub caches: bool,
    /// Running without a sandbox.
    #[serde(skip_serializing_if = "is_false")]
    pub outside: bool,
}

/// Files and directories (including their contents); absolute, resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FilePermissions {
    /// May be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[serde(with = "crate::path_text::list")]
    #[schemars(with = "Vec<PathBuf>")]
    pub read: Vec<PathBuf>,
    /// May be read and written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[serde(with = "crate::path_text::list")]
    #[schemars(with = "Vec<PathBuf>")]
    pub write: Vec<PathBuf>,
}

impl FilePermissions {
    /// Whether it contains no permission.
    pub fn is_empty(&self) -> bool {
        self.read.is_empty() && self.write.is_empty()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

impl Permissions {
    /// Whether it contains no permission.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the union of both.
    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {
        self.network |= other.network;
        self.host_loopback |= other.host_loopback;
        self.agents |= other.agents;
        self.repository_programs |= other.repository_programs;
        self.caches |= other.caches;
        self.outside |= other.outside;
        let FilePermissions { read, write } = &other.file_system;
        for (into, from) in
            [(&mut self.file_system.read, read), (&mut self.file_system.write, write)]
        {
            from.iter().for_each(|path| {
                if !into.contains(path) {
                    into.push(path.clone());
                }
            });
        }
        self
    }

    /// Returns the permissions that `granted` does not include. Running outside the sandbox
    /// includes all permissions.
    #[must_use]
    pub fn difference(&self, granted: &Self) -> Self {
        if granted.outside {
            return Self::default();
        }
        let FilePermissions { read, write } = &granted.file_system;
        let is_within = |path: &PathBuf, directories: &[PathBuf]| {
            directories.iter().any(|directory| path.starts_with(directory))
        };
        let requested = &self.file_system;
        Self {
            network: self.network && !granted.network,
            host_loopback: self.host_loopback && !granted.host_loopback,
            file_system: FilePermissions {
                read: requested
                    .read
                    .iter()
                    .filter(|path| !is_within(path, read) && !is_within(path, write))
                    .cloned()
                    .collect(),
                write: requested
                    .write
                    .iter()
                    .filter(|path| !is_within(path, write))
                    .cloned()
                    .collect(),
            },
            agents: self.agents && !granted.agents,
            repository_programs: self.repository_programs && !granted.repository_programs,
            caches: self.caches && !granted.caches,
            outside: self.outside,
        }
    }

    /// Describes the permissions as a noun phrase: `permission to write /x and to use the network`.
    /// Empty if there are none.
    pub fn describe(&self) -> String {
        let kinds: Vec<String> = self
            .descriptions()
            .into_iter()
            .map(|word| match word.as_str() {
                _ if word.starts_with("to ") => word,
                "network" => "to use the network".to_owned(),
                "servers on this machine" => "to reach servers on this machine".to_owned(),
                _ => format!("for {word}"),
            })
            .collect();
        match kinds.as_slice() {
            [] => String::new(),
            [one] => format!("permission {one}"),
            [most @ .., last] => format!("permission {} and {last}", most.join(", ")),
        }
    }

    /// Describes each permission for the user: `network`, `to write /x`, …
    pub fn descriptions(&self) -> Vec<String> {
        let mut words = Vec::new();
        for (provided, word) in [
            (self.outside, "to run outside the sandbox"),
            (self.network, "network"),
            (self.host_loopback, "servers on this machine"),
            (self.agents, "the ssh and gpg agents"),
            (self.repository_programs, "the repository's own programs (hooks, filters)"),
            (self.caches, "to write the package caches"),
        ] {
            if provided {
                words.push(word.to_owned());
            }
        }
        let FilePermissions { read, write } = &self.file_system;
        words.extend(write.iter().map(|path| format!("to write {}", path.display())));
        words.extend(read.iter().map(|path| format!("to read {}", path.display())));
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_beyond_a_grant_are_the_uncovered_ones() {
        let expected = Permissions {
            network: true,
            file_system: FilePermissions {
                read: vec!["/a/b".into(), "/c".into()],
                write: vec!["/a".into()],
            },
            ..Permissions::default()
        };
        let granted = Permissions {
            file_system: FilePermissions { read: vec![], write: vec!["/a".into()] },
            ..Permissions::default()
        };
        let beyond = expected.difference(&granted);
        assert_eq!(beyond.descriptions(), ["network", "to read /c"]);
        assert!(expected.difference(&beyond.clone().union(&granted)).is_empty());
        assert_eq!(beyond.describe(), "permission to use the network and to read /c");
        assert_eq!(granted.describe(), "permission to write /a");
        assert_eq!(Permissions::default().describe(), "");
        let json = serde_json::to_string(&beyond).expect("json");
        assert_eq!(json, r#"{"network":true,"fileSystem":{"read":["/c"]}}"#);
    }
}
