//! Determines the kind of a file by its first bytes, then by its name.

use std::path::Path;

use parallax_files::looks_binary;
use parallax_protocol::media::media_type_of;

/// How a file is passed to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// As text.
    Text,
    /// As text, if the file is small.
    Svg,
    /// As media of this MIME type.
    Media(&'static str),
    /// Audio in a format that the model does not accept.
    UnsupportedAudio,
    /// Not passed to the model.
    Binary,
}

/// Extensions of code that are also used by a video format.
const CODE: [&str; 3] = ["ts", "mts", "cts"];
/// Extensions of images, documents, audio, and video that a model accepts.
const MEDIA: [&str; 31] = [
    "png", "jpg", "jpeg", "gif", "webp", "bmp", "ico", "tif", "tiff", "avif", "heic", "heif",
    "pdf", "mp3", "wav", "aiff", "aif", "aac", "ogg", "flac", "mp4", "m4v", "mpeg", "mpg", "mov",
    "avi", "webm", "wmv", "flv", "3gp", "mkv",
];
const OTHER_AUDIO: [&str; 8] = ["m4a", "wma", "opus", "mid", "midi", "amr", "ra", "oga"];
/// Extensions of binary files.
pub(crate) const BINARY: [&str; 30] = [
    "bin", "exe", "dll", "so", "dylib", "class", "jar", "war", "zip", "tar", "gz", "bz2", "rar",
    "7z", "pak", "rpa", "doc", "docx", "xls", "xlsx", "ppt", "pptx", "odt", "ods", "odp", "pyc",
    "pyo", "o", "a", "wasm",
];

impl FileKind {
    /// Determines the kind from the first bytes of a file; the name only distinguishes text formats
    /// and unsupported audio.
    pub(crate) fn detect(path: &Path, head: &[u8]) -> Self {
        let extension = extension_of(path);
        let binary = looks_binary(head);
        if CODE.contains(&extension.as_str()) {
            return if binary { Self::Binary } else { Self::Text };
        }
        if OTHER_AUDIO.contains(&extension.as_str()) {
            return if binary { Self::UnsupportedAudio } else { Self::Text };
        }
        if has_only_signature(head) || (head.is_empty() && Self::is_named_like_media(path)) {
            return Self::Binary;
        }
        match media_type_of(head) {
            Some("audio/mp4") => return Self::UnsupportedAudio,
            // A PDF may begin with text; all other media are binary.
            Some(mime) if binary || !is_text(head) || mime == "application/pdf" => {
                return Self::Media(mime);
            }
            _ => {}
        }
        if extension == "svg" {
            return if binary { Self::Binary } else { Self::Svg };
        }
        if binary || (BINARY.contains(&extension.as_str()) && !head.is_empty()) {
            return Self::Binary;
        }
        Self::Text
    }

    /// Whether a file has the extension of an image, a PDF, audio, or video.
    pub(crate) fn is_named_like_media(path: &Path) -> bool {
        MEDIA.contains(&extension_of(path).as_str())
    }
}

/// Whether the file ends after the signature of a media format.
fn has_only_signature(head: &[u8]) -> bool {
    const MAX_LENGTH: usize = 16;
    head.len() <= MAX_LENGTH
        && media_type_of(head).is_none()
        && !head.is_empty()
        && media_type_of(&[head, b"\n"].concat()).is_some()
}

/// Whether the bytes are UTF-8 without NUL.
fn is_text(head: &[u8]) -> bool {
    !head.contains(&0)
        && std::str::from_utf8(head).map_or_else(|error| error.error_len().is_none(), |_| true)
}

/// Whether the file has a binary extension.
pub(crate) fn is_known_binary(path: &Path) -> bool {
    let extension = extension_of(path);
    [&BINARY[..], &MEDIA, &OTHER_AUDIO].iter().any(|names| names.contains(&extension.as_str()))
}

fn extension_of(path: &Path) -> String {
    path.extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or_default()
        .to_ascii_lowercase()
}
