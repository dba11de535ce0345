//! Reads one file in the form that the model receives.

use base64::Engine;
use parallax_files::{
    AllowedPath, FileError, LineRange, SHOWN_NUL, SeenFiles, Snapshot, TextLines, Workspace,
    lines_from_bytes, printable, read_capped, read_head, read_lines,
};
use parallax_protocol::CancellationToken;
use parallax_protocol::content::Part;
use parallax_protocol::image_defect::ImageDefect;
use parallax_protocol::tool::{Display, ToolError, ToolErrorKind, ToolResult};

use crate::failure::{invalid_params, read_failure};
use crate::kind::FileKind;
use crate::suggest::similar_names;

/// Default number of lines.
const DEFAULT_LINES: u64 = 2_000;
/// Maximum number of characters of a line.
const LINE_CHARACTERS: usize = 2_000;
/// Maximum number of characters in total, so that one call cannot fill the model's context window.
const MAX_CHARACTERS: usize = 400_000;
/// Maximum size in bytes of media, which are read as a whole.
const MAX_MEDIA: u64 = 20 * 1024 * 1024;
const MAX_SVG: u64 = 1024 * 1024;
/// Smaller files, in bytes, are read as a whole, so that later changes can be shown.
const SMALL: u64 = 128 * 1024;
/// Larger files, in bytes, are not requested from an editor, but read from the disk.
const MAX_IN_EDITOR: u64 = 64 * 1024 * 1024;

/// The requested lines, from 1, inclusive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: Option<u64>,
    pub(crate) end: Option<u64>,
}

/// The result of reading a file.
pub(crate) enum ReadResult {
    /// Text, with a header that says what was truncated.
    Text { header: Option<String>, text: String, cut: bool, summary: Option<String> },
    /// Media.
    Media(Part),
    /// The file cannot be shown, for this reason.
    Refused(String),
}

impl ReadResult {
    pub(crate) fn into_outcome(self) -> ToolResult {
        match self {
            Self::Text { header: None, text, .. } => ToolResult::text(text),
            Self::Text { header: Some(header), text, summary, .. } => {
                let mut outcome = ToolResult::text(format!("{header}\n---\n{text}"));
                outcome.for_user = summary.map(Display::text);
                outcome
            }
            Self::Media(part) => {
                let mut outcome = ToolResult::text(String::new());
                outcome.for_model.media.push(part);
                outcome
            }
            Self::Refused(sentence) => {
                ToolResult::text(sentence.clone()).with_display(Display::text(sentence))
            }
        }
    }
}

/// Reads a file and records that the model saw it.
pub(crate) fn read(
    workspace: &Workspace,
    seen_files: &SeenFiles,
    target: &AllowedPath,
    range: Range,
    cancel: &CancellationToken,
) -> Result<ReadResult, ToolError> {
    let failed = |error: FileError| with_hint(workspace, &error);
    let name = workspace.relative(target.path());
    let read_text = |size| {
        let lines = read_text(seen_files, target, range, size, cancel).map_err(failed)?;
        if lines.first > lines.total && !lines.may_have_more {
            return Err(invalid_params(format!(
                "`start_line` {} is past the end: {} has {} lines",
                lines.first,
                target.display_path().display(),
                lines.total
            )));
        }
        Ok(describe(lines, &name.display().to_string()))
    };
    let (head, metadata) = match read_head(target, 4096) {
        // The editor may have a file that was never saved, which is text.
        Err(FileError::NotFound { .. }) if target.may_be_in_editor() => return read_text(0),
        head => head.map_err(failed)?,
    };
    match FileKind::detect(target.path(), &head) {
        FileKind::Text => {}
        FileKind::Svg if metadata.size <= MAX_SVG => {}
        FileKind::Svg => {
            return Ok(ReadResult::Refused(format!(
                "Cannot display content of SVG file larger than 1MB: {}",
                name.display()
            )));
        }
        FileKind::Binary if metadata.size == 0 => {
            return Ok(ReadResult::Refused(format!("The file is empty: {}", name.display())));
        }
        FileKind::Binary => {
            return Ok(ReadResult::Refused(format!(
                "Cannot display content of binary file: {}",
                name.display()
            )));
        }
        FileKind::UnsupportedAudio => {
            return Err(ToolError::new(
                ToolErrorKind::ReadContentFailure,
                format!("Unsupported audio format: {}", target.display_path().display()),
            ));
        }
        FileKind::Media(mime) => {
            let (bytes, metadata) = read_capped(target, MAX_MEDIA).map_err(failed)?;
            // Services reject the whole request because of such an image.
            if let Some(defect) = ImageDefect::find(mime, &bytes) {
                return Ok(ReadResult::Refused(format!(
                    "Cannot display image {}: {}",
                    name.display(),
                    defect.reason()
                )));
            }
            seen_files.record(target.path(), Snapshot::from_bytes(metadata, &bytes), None);
            let data = base64::engine::general_purpose::STANDARD.encode(&bytes);
            return Ok(ReadResult::Media(Part::inline_data(mime, data)));
        }
    }
    read_text(metadata.size)
}

fn read_text(
    seen_files: &SeenFiles,
    target: &AllowedPath,
    range: Range,
    size: u64,
    cancel: &CancellationToken,
) -> Result<TextLines, FileError> {
    let first = range.start.unwrap_or(1);
    let last = match (range.start, range.end) {
        (Some(_), Some(end)) => end,
        (None, Some(end)) => end.min(DEFAULT_LINES),
        (_, None) => first.saturating_add(DEFAULT_LINES - 1),
    };
    // No more lines than the character limit allows, because each line counts at least one
    // character.
    let last = last.min(first.saturating_add(MAX_CHARACTERS as u64 - 1));
    let range = LineRange { first, last, line_characters: LINE_CHARACTERS };
    // Editors return only entire files.
    let whole = if target.may_be_in_editor() { MAX_IN_EDITOR } else { SMALL };
    if size <= whole {
        match read_capped(target, whole) {
            Ok((bytes, metadata)) => {
                let lines = lines_from_bytes(&bytes, metadata, range);
                seen_files.record(target.path(), lines.snapshot, Some(&bytes));
                return Ok(truncate_lines(lines));
            }
            // The file grew, or it is a kernel file without a size.
            Err(FileError::TooLarge { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let lines = read_lines(target, range, &|| cancel.is_cancelled())?;
    seen_files.record(target.path(), lines.snapshot, None);
    Ok(truncate_lines(lines))
}

/// Truncates the lines to the character limit.
fn truncate_lines(mut lines: TextLines) -> TextLines {
    let Some((end, _)) = lines.text.char_indices().nth(MAX_CHARACTERS) else { return lines };
    // A single line is below the limit, so there is a line boundary.
    let (head, rest) = lines.text.split_at(end);
    let end = match rest.starts_with('\n') {
        true => end,
        false => head.rfind('\n').unwrap_or(end),
    };
    lines.text.truncate(end);
    lines.last = lines.first + lines.text.matches('\n').count() as u64;
    lines
}

/// Adds the header: what is truncated, how to read on, and how the file was decoded.
fn describe(lines: TextLines, name: &str) -> ReadResult {
    let cut = lines.is_partial();
    let (first, last, total) = (lines.first, lines.last, lines.total);
    let of = if lines.may_have_more { format!("more than {total}") } else { total.to_string() };
    let mut notes = Vec::new();
    if cut {
        let mut note = format!("Truncated: showing lines {first}-{last} of {of}.");
        if last < total {
            note.push_str(&format!(" Continue with start_line: {}.", last + 1));
        }
        if lines.long_line_cut {
            note.push_str(" Lines longer than 2000 characters were truncated.");
        }
        notes.push(note);
    }
    if matches!(lines.encoding, parallax_files::TextEncoding::Legacy(_)) {
        notes.push(format!("Decoded from {}.", lines.encoding.name()));
    }
    if lines.malformed {
        notes.push(format!(
            "Some bytes are not valid {} and are shown as \u{fffd}.",
            lines.encoding.name()
        ));
    }
    let summary = cut.then(|| format!("Read lines {first}-{last} of {of} from {name}"));
    let header = (!notes.is_empty()).then(|| format!("[{}]", notes.join(" ")));
    // Services and terminals do not accept NUL.
    let text = match lines.text.contains('\0') {
        true => lines.text.replace('\0', SHOWN_NUL.encode_utf8(&mut [0; 4])),
        false => lines.text,
    };
    ReadResult::Text { header, text, cut, summary }
}

/// Adds similar names to the error about a missing path.
fn with_hint(workspace: &Workspace, error: &FileError) -> ToolError {
    let mut failure = read_failure(error);
    match error {
        FileError::NotFound { path } | FileError::NotADirectory { path } => {
            failure.message = format!("File not found: {}", path.display());
            failure.message.push_str(&similar_names(workspace, path));
        }
        FileError::IsDirectory { path } => {
            let names = workspace
                .confine(path, parallax_files::Access::Read)
                .ok()
                .and_then(|directory| directory.list(8).ok());
            if let Some(listing) = names.filter(|listing| !listing.entries.is_empty()) {
                let mut names: Vec<String> = listing
                    .entries
                    .iter()
                    .filter(|entry| {
                        !parallax_files::is_protected_name(&entry.name.to_string_lossy(), false)
                    })
                    .map(|entry| format!("`{}`", printable(&entry.name)))
                    .collect();
                names.sort();
                let more = if listing.is_truncated { ", …" } else { "" };
                failure.message.push_str(&format!("\nIt contains {}{more}", names.join(", ")));
            }
        }
        _ => {}
    }
    failure
}
