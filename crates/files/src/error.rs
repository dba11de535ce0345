//! Errors about paths and files, with suggestions for the caller.

use std::io;
use std::path::{Path, PathBuf};

/// A path that tools may not use.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// The path is empty.
    #[error("The path must not be empty")]
    Empty,
    /// The path leaves the allowed directories.
    #[error(
        "Path not in workspace: Attempted path \"{}\" resolves outside the allowed workspace directories: {allowed}", .path.display()
    )]
    Outside {
        /// The absolute path as requested.
        path: PathBuf,
        /// The allowed directories, as text.
        allowed: String,
    },
    /// A path segment is protected from tools.
    #[error("`{segment}` is protected from tools: {}", .path.display())]
    Protected {
        /// The absolute path as requested.
        path: PathBuf,
        /// The protected segment.
        segment: String,
    },
    /// The path, or one of its parent directories, is hidden from tools and was moved.
    #[error(
        "`{}` is protected from tools, as it was at its former path `{}`", .path.display(), .former_path.display()
    )]
    Hidden {
        /// The absolute path as requested.
        path: PathBuf,
        /// Where it, or its parent directory, was first hidden.
        former_path: PathBuf,
    },
    /// A cycle of symbolic links, or too many of them.
    #[error("Too many symbolic links in the path `{}`", .path.display())]
    Loop {
        /// The absolute path as requested.
        path: PathBuf,
    },
    /// A workspace directory is not a directory.
    #[error("Cannot open `{}` as a directory: {source}", .path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// A file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file does not exist.
    #[error("File not found: {}", .path.display())]
    NotFound {
        /// The file.
        path: PathBuf,
    },
    /// The path is a directory.
    #[error("Path is a directory, not a file: {}", .path.display())]
    IsDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// A part of the path is a file where a directory is needed.
    #[error("Path is not a directory: {}", .path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// The file is a named pipe, a socket, or a device.
    #[error("`{}` is a {kind}, not a regular file; use a shell command for it", .path.display())]
    NotRegular {
        /// The path.
        path: PathBuf,
        /// The kind of file.
        kind: &'static str,
    },
    /// The system denied access.
    #[error("Permission denied: could not {action} `{}` ({code})", .path.display())]
    PermissionDenied {
        /// The path.
        path: PathBuf,
        /// The action (`read`, `write`, …).
        action: &'static str,
        /// The system's error name.
        code: String,
    },
    /// The disk or the quota is full. The old file is unchanged.
    #[error("No space left: could not {action} `{}` ({code}); nothing was changed", .path.display())]
    NoSpace {
        /// The path.
        path: PathBuf,
        /// The action.
        action: &'static str,
        /// The system's error name.
        code: String,
    },
    /// The file system is read-only.
    #[error("Could not {action} `{}`: the file system is read-only (EROFS)", .path.display())]
    ReadOnly {
        /// The path.
        path: PathBuf,
        /// The action.
        action: &'static str,
    },
    /// The file exceeds a limit.
    #[error("`{}` is {} MB; the limit is {} MB", .path.display(), megabytes(*.size), megabytes(*.limit))]
    TooLarge {
        /// The path.
        path: PathBuf,
        /// The size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A link or a directory on the path was replaced after the check.
    #[error("`{}` was moved or replaced by a link while in use; try again", .path.display())]
    Moved {
        /// The path.
        path: PathBuf,
    },
    /// The content differs from the one that the change was based on.
    #[error("`{}` was changed on disk in the meantime; read it again", .path.display())]
    Changed {
        /// The path.
        path: PathBuf,
    },
    /// A file that should be new already exists.
    #[error("`{}` already exists", .path.display())]
    Exists {
        /// The path.
        path: PathBuf,
    },
    /// The new text cannot be written in the file's encoding.
    #[error("`{}` is encoded in {encoding}, which cannot represent {unsupported_text}; nothing was changed", .path.display())]
    Lossy {
        /// The path.
        path: PathBuf,
        /// The encoding's name.
        encoding: &'static str,
        /// What it cannot represent.
        unsupported_text: String,
    },
    /// The caller cancelled.
    #[error("Reading `{}` was cancelled", .path.display())]
    Cancelled {
        /// The path.
        path: PathBuf,
    },
    /// Any other system error.
    #[error("Could not {action} `{}`: {source} ({code})", .path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The action.
        action: &'static str,
        /// The system's error name.
        code: String,
        /// The system error.
        source: io::Error,
    },
}

/// Formats bytes as megabytes with two decimals, for messages.
fn megabytes(bytes: u64) -> String {
    // Exact enough: sizes beyond 2^53 bytes do not occur on disks.
    format!("{:.2}", bytes as f64 / (1024.0 * 1024.0))
}

/// Returns the symbolic name of an error number.
fn code_name(error: &io::Error) -> String {
    let Some(number) = error.raw_os_error() else { return format!("{:?}", error.kind()) };
    let name = match rustix::io::Errno::from_raw_os_error(number) {
        rustix::io::Errno::ACCESS => "EACCES",
        rustix::io::Errno::PERM => "EPERM",
        rustix::io::Errno::NOSPC => "ENOSPC",
        rustix::io::Errno::DQUOT => "EDQUOT",
        rustix::io::Errno::FBIG => "EFBIG",
        rustix::io::Errno::ROFS => "EROFS",
        rustix::io::Errno::ISDIR => "EISDIR",
        rustix::io::Errno::NOTDIR => "ENOTDIR",
        rustix::io::Errno::NOENT => "ENOENT",
        rustix::io::Errno::IO => "EIO",
        rustix::io::Errno::NAMETOOLONG => "ENAMETOOLONG",
        rustix::io::Errno::MFILE => "EMFILE",
        rustix::io::Errno::NFILE => "ENFILE",
        rustix::io::Errno::TXTBSY => "ETXTBSY",
        rustix::io::Errno::INVAL => "EINVAL",
        rustix::io::Errno::NXIO => "ENXIO",
        rustix::io::Errno::NOMEM => "ENOMEM",
        _ => return format!("os error {number}"),
    };
    name.to_owned()
}

impl FileError {
    /// Classifies a system error by what can be done about it.
    pub fn from_io(path: &Path, action: &'static str, source: io::Error) -> Self {
        use rustix::io::Errno;
        let path = path.to_path_buf();
        let code = code_name(&source);
        match source.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT) => Self::NotFound { path },
            Some(Errno::ISDIR) => Self::IsDirectory { path },
            Some(Errno::NOTDIR) => Self::NotADirectory { path },
            Some(Errno::ACCESS | Errno::PERM) => Self::PermissionDenied { path, action, code },
            Some(Errno::NOSPC | Errno::DQUOT) => Self::NoSpace { path, action, code },
            Some(Errno::ROFS) => Self::ReadOnly { path, action },
            Some(Errno::LOOP | Errno::XDEV) => Self::Moved { path },
            Some(Errno::EXIST) => Self::Exists { path },
            _ => Self::Io { path, action, code, source },
        }
    }

    /// Like [`from_io`](Self::from_io), from an error number.
    pub(crate) fn from_errno(path: &Path, action: &'static str, errno: rustix::io::Errno) -> Self {
        Self::from_io(path, action, errno.into())
    }

    /// Returns the path that the error is about.
    pub fn path(&self) -> &Path {
        match self {
            Self::NotFound { path }
            | Self::IsDirectory { path }
            | Self::NotADirectory { path }
            | Self::NotRegular { path, .. }
            | Self::PermissionDenied { path, .. }
            | Self::NoSpace { path, .. }
            | Self::ReadOnly { path, .. }
            | Self::TooLarge { path, .. }
            | Self::Moved { path }
            | Self::Changed { path }
            | Self::Exists { path }
            | Self::Lossy { path, .. }
            | Self::Cancelled { path }
            | Self::Io { path, .. } => path,
        }
    }
}
