//! What kind of file something is: by its name first, then by its first bytes.

use std::path::Path;

use parallax_files::looks_binary;

/// How a file is given to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// As text.
    Text,
    /// As text, if it is small.
    Svg,
    /// As media of this MIME type.
    Media(&'static str),
    /// Audio that the model does not take.
    UnsupportedAudio,
    /// Not at all.
    Binary,
}

/// Code that shares its ending with a video format.
const CODE: [&str; 3] = ["ts", "mts", "cts"];
const IMAGES: [(&str, &str); 13] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("bmp", "image/bmp"),
    ("ico", "image/x-icon"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("avif", "image/avif"),
    ("heic", "image/heic"),
    ("heif", "image/heif"),
    ("pdf", "application/pdf"),
];
/// Only if the content is binary: these endings are used for text too.
const STREAMS: [(&str, &str); 18] = [
    ("mp3", "audio/mpeg"),
    ("wav", "audio/wav"),
    ("aiff", "audio/aiff"),
    ("aif", "audio/aiff"),
    ("aac", "audio/aac"),
    ("ogg", "audio/ogg"),
    ("flac", "audio/flac"),
    ("mp4", "video/mp4"),
    ("m4v", "video/mp4"),
    ("mpeg", "video/mpeg"),
    ("mpg", "video/mpeg"),
    ("mov", "video/quicktime"),
    ("avi", "video/x-msvideo"),
    ("webm", "video/webm"),
    ("wmv", "video/x-ms-wmv"),
    ("flv", "video/x-flv"),
    ("3gp", "video/3gpp"),
    ("mkv", "video/x-matroska"),
];
const OTHER_AUDIO: [&str; 8] = ["m4a", "wma", "opus", "mid", "midi", "amr", "ra", "oga"];
/// Endings of binary files.
pub(crate) const BINARY: [&str; 30] = [
    "bin", "exe", "dll", "so", "dylib", "class", "jar", "war", "zip", "tar", "gz", "bz2", "rar",
    "7z", "pak", "rpa", "doc", "docx", "xls", "xlsx", "ppt", "pptx", "odt", "ods", "odp", "pyc",
    "pyo", "o", "a", "wasm",
];

impl FileKind {
    /// Decides from the name and the first bytes of a file.
    pub(crate) fn of(path: &Path, head: &[u8]) -> Self {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let ending = ending.to_ascii_lowercase();
        let find = |table: &[(&str, &'static str)]| {
            table.iter().find(|(name, _)| *name == ending).map(|(_, mime)| *mime)
        };
        let binary = looks_binary(head);
        if CODE.contains(&ending.as_str()) {
            return if binary { Self::Binary } else { Self::Text };
        }
        if ending == "svg" {
            return Self::Svg;
        }
        if let Some(mime) = find(&IMAGES) {
            return Self::Media(mime);
        }
        if let Some(mime) = find(&STREAMS) {
            return if binary { Self::Media(mime) } else { Self::Text };
        }
        if OTHER_AUDIO.contains(&ending.as_str()) {
            return if binary { Self::UnsupportedAudio } else { Self::Text };
        }
        if binary || (BINARY.contains(&ending.as_str()) && !head.is_empty()) {
            return Self::Binary;
        }
        Self::Text
    }
}
