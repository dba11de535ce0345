//! Reads files for `@{path}` in templates.

use parallax_files::Access;
use parallax_protocol::CancellationToken;
use parallax_protocol::content::{Part, PartView};
use parallax_tools::read_many_files::{ReadRequest, read_many};

use crate::ExpansionContext;

/// The replacement of a block.
pub(crate) struct IncludedFiles {
    /// Text and media, in order.
    pub(crate) parts: Vec<Part>,
    /// Notices for the user.
    pub(crate) notices: Vec<String>,
}

/// Reads a file or all files of a directory. Blocking. If reading fails, the block stays unchanged
/// and a notice is added. Ignored files are skipped.
pub(crate) fn read(shared: &ExpansionContext, path: &str) -> IncludedFiles {
    let block = || vec![Part::text(format!("@{{{path}}}"))];
    let with_notice = |parts, notice: String| IncludedFiles { parts, notices: vec![notice] };
    let workspace = &shared.workspace;
    let confined = match workspace.resolve(path, Access::Read) {
        Ok(confined) => confined,
        Err(error) => {
            return with_notice(block(), format!("failed to read `@{{{path}}}`: {error}"));
        }
    };
    let real = confined.path();
    if !real.exists() {
        return with_notice(block(), format!("failed to read `@{{{path}}}`: file not found"));
    }
    if workspace.is_ignored(real).is_some() {
        return with_notice(Vec::new(), format!("`{path}` is ignored and was omitted"));
    }
    let is_directory = real.is_dir();
    let pattern = match is_directory {
        true => format!("{}/**", path.trim_end_matches('/')),
        false => path.to_owned(),
    };
    let never = CancellationToken::new();
    let read = match read_many(
        workspace,
        &shared.seen_files,
        &ReadRequest::for_paths(vec![pattern]),
        &never,
    ) {
        Ok(read) => read,
        Err(error) => {
            return with_notice(block(), format!("failed to read `@{{{path}}}`: {error}"));
        }
    };
    let mut notices: Vec<String> = read
        .skipped
        .iter()
        .take(10)
        .map(|(path, reason)| format!("`{}` was omitted: {reason}", path.display()))
        .collect();
    if read.files.is_empty() {
        if notices.is_empty() {
            notices.push(format!("`@{{{path}}}` contains no readable files"));
        }
        let parts = if is_directory { Vec::new() } else { block() };
        return IncludedFiles { parts, notices };
    }
    let mut parts = Vec::new();
    for file in read.files {
        let relative = workspace.relative(&file.path);
        let display_path = relative.display();
        let is_text = matches!(file.part.view(), PartView::Text(_));
        match (is_directory, is_text) {
            (true, true) => {
                parts.push(Part::text(format!("--- Start of content for {display_path} ---\n")));
                parts.push(file.part);
                parts.push(Part::text(format!("\n--- End of content for {display_path} ---\n")));
            }
            _ => parts.push(file.part),
        }
    }
    IncludedFiles { parts, notices }
}
