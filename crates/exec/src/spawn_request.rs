//! A program that is started, with its arguments and environment.

use std::ffi::OsString;
use std::path::PathBuf;

/// A program to start.
pub(crate) struct SpawnRequest {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) directory: PathBuf,
    pub(crate) environment: Vec<(OsString, OsString)>,
}
