//! Converts file errors to tool errors for the model.

use parallax_files::{FileError, PathError};
use parallax_protocol::tool::{ToolError, ToolErrorKind};

/// Returns an error about invalid arguments.
pub fn invalid_params(message: impl Into<String>) -> ToolError {
    ToolError::new(ToolErrorKind::InvalidToolParams, message)
}

/// Converts a failed path check.
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

/// Converts a failed read.
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

/// Converts a failed write.
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
