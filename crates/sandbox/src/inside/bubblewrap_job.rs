//! The data that the process outside `bwrap` passes to the process inside.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::inside::failure::{FailureContextExt as _, SandboxResult};
use crate::plan::Plan;

/// A tree that must be writable, with its state before `bwrap` mounted it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WritableTree {
    #[serde(with = "parallax_protocol::path_text::one")]
    pub(crate) path: PathBuf,
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// The plan, and what to verify.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BwrapJob {
    pub(crate) plan: Plan,
    pub(crate) trees: Vec<WritableTree>,
    /// Everything that is writable inside, for Landlock.
    #[serde(with = "parallax_protocol::path_text::list")]
    pub(crate) writable: Vec<PathBuf>,
    /// The descriptor to report to.
    pub(crate) report: i32,
    /// The descriptor of the command's stderr; the stderr of `bwrap` is read by the supervisor.
    pub(crate) stderr: i32,
}

impl BwrapJob {
    /// Encodes the job and the environment of the command, because a set-user-ID program loses
    /// environment variables.
    pub(crate) fn encode(
        &self,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> SandboxResult<Vec<u8>> {
        let mut bytes = serde_json::to_vec(self).refused("cannot encode the plan")?;
        for (name, value) in environment {
            bytes.push(0);
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(b'=');
            bytes.extend_from_slice(value.as_bytes());
        }
        Ok(bytes)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, Vec<(OsString, OsString)>), String> {
        let mut parts = bytes.split(|byte| *byte == 0);
        let job = serde_json::from_slice(parts.next().unwrap_or_default())
            .map_err(|error| error.to_string())?;
        let environment = parts
            .filter_map(|entry| {
                // A name may begin with `=`, which some programs produce.
                let index = entry.iter().skip(1).position(|byte| *byte == b'=')? + 1;
                let (name, value) = entry.split_at_checked(index)?;
                let value = value.get(1..)?;
                Some((OsString::from_vec(name.to_vec()), OsString::from_vec(value.to_vec())))
            })
            .collect();
        Ok((job, environment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bwrap_job_and_environment_round_trip() {
        let job = BwrapJob {
            plan: Plan::new("/t".into()),
            trees: vec![WritableTree { path: "/w".into(), device: 1, inode: 2 }],
            writable: vec!["/w".into()],
            report: 4,
            stderr: 5,
        };
        let environment: Vec<(OsString, OsString)> = vec![
            ("A".into(), "b=c\nd".into()),
            ("E".into(), "".into()),
            ("R".into(), OsString::from_vec(vec![0xff])),
        ];
        let bytes = job.encode(environment.clone()).unwrap();
        assert_eq!(BwrapJob::decode(&bytes).unwrap(), (job, environment));
        assert!(BwrapJob::decode(b"x").is_err());
    }
}
