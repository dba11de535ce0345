//! From errors of the disk to failures that the model reads.

use parallax_files::{FileError, PathError};
use parallax_protocol::tool::{ToolError, ToolErrorKind};

/// A refusal because of the arguments.
pub fn invalid(message: impl Into<String>) -> ToolError {
    ToolError::new(ToolErrorKind::InvalidToolParams, message)
}

/// What a failed path check means for a tool.
pub fn path_failure(error: &PathError) -> ToolError {
    let kind = match error {
        PathError::Empty => ToolErrorKind::InvalidToolParams,
        PathError::Outside { .. }
        | PathError::Protected { .. }
        | PathError::Hidden { .. }
        | PathError::Loop { .. } => ToolErrorKind::PathNotInWorkspace,
        PathError::NotADirectory { .. } => ToolErrorKind::PathIsNotADirectory,
    };
    ToolError::new(kind, error.to_string())
}

/// What a failed read means for a tool.
pub fn read_failure(error: &FileError) -> ToolError {
    let kind = match error {
        FileError::NotFound { .. } | FileError::NotADirectory { .. } => ToolErrorKind::FileNotFound,
        FileError::IsDirectory { .. } => ToolErrorKind::TargetIsDirectory,
        FileError::PermissionDenied { .. } => ToolErrorKind::PermissionDenied,
        FileError::TooLarge { .. } => ToolErrorKind::FileTooLarge,
        FileError::Moved { .. } => ToolErrorKind::PathNotInWorkspace,
        FileError::Cancelled { .. } => ToolErrorKind::ExecutionFailed,
        _ => ToolErrorKind::ReadContentFailure,
    };
    ToolError::new(kind, error.to_string())
}

/// What a failed write means for a tool.
pub fn write_failure(error: &FileError) -> ToolError {
    let kind = match error {
        FileError::PermissionDenied { .. } => ToolErrorKind::PermissionDenied,
        FileError::NoSpace { .. } => ToolErrorKind::NoSpaceLeft,
        FileError::IsDirectory { .. } => ToolErrorKind::TargetIsDirectory,
        FileError::TooLarge { .. } => ToolErrorKind::FileTooLarge,
        FileError::Changed { .. } | FileError::Exists { .. } => ToolErrorKind::FileChangedOnDisk,
        FileError::Moved { .. } => ToolErrorKind::PathNotInWorkspace,
        _ => ToolErrorKind::FileWriteFailure,
    };
    ToolError::new(kind, error.to_string())
}
