//! Detects media types by content, because file names and declared types can be wrong and services
//! reject media that does not match its declared type.

/// The number of leading bytes that suffice for detection.
pub const HEAD: usize = 4096;

/// Returns the MIME type of an image, a PDF, audio, or video, by its first bytes. Returns `None` if
/// the file ends after the signature, as an interrupted download does.
pub fn media_type_of(head: &[u8]) -> Option<&'static str> {
    let starts = |with: &[u8]| head.starts_with(with);
    let at =
        |offset: usize, with: &[u8]| head.get(offset..).is_some_and(|rest| rest.starts_with(with));
    let longer = |signature: usize| head.len() > signature;
    let found = match head {
        _ if starts(b"\x89PNG\r\n\x1a\n") => longer(8).then_some("image/png")?,
        _ if starts(b"\xff\xd8\xff") => longer(3).then_some("image/jpeg")?,
        _ if starts(b"GIF87a") || starts(b"GIF89a") => longer(6).then_some("image/gif")?,
        _ if starts(b"RIFF") && at(8, b"WEBP") => longer(12).then_some("image/webp")?,
        _ if starts(b"BM") && at(6, &[0, 0, 0, 0]) => "image/bmp",
        _ if starts(&[0, 0, 1, 0]) && head.get(4).is_some_and(|count| *count > 0) => "image/x-icon",
        _ if starts(b"II*\0") || starts(b"MM\0*") => "image/tiff",
        _ if starts(b"%PDF-") => is_pdf_header(head).then_some("application/pdf")?,
        _ if starts(b"RIFF") && at(8, b"WAVE") => "audio/wav",
        _ if starts(b"RIFF") && at(8, b"AVI ") => "video/x-msvideo",
        _ if starts(b"FORM") && (at(8, b"AIFF") || at(8, b"AIFC")) => "audio/aiff",
        _ if starts(b"fLaC") => "audio/flac",
        _ if starts(b"OggS") => "audio/ogg",
        _ if starts(b"ID3") => "audio/mpeg",
        _ if starts(b"FLV\x01") => "video/x-flv",
        _ if starts(&[0, 0, 1, 0xba]) || starts(&[0, 0, 1, 0xb3]) => "video/mpeg",
        _ if starts(&[0x30, 0x26, 0xb2, 0x75, 0x8e, 0x66, 0xcf, 0x11]) => "video/x-ms-wmv",
        _ if starts(&[0x1a, 0x45, 0xdf, 0xa3]) => {
            let is_webm = head.windows(4).take(64).any(|name| name == b"webm");
            if is_webm { "video/webm" } else { "video/x-matroska" }
        }
        _ if at(4, b"ftyp") => media_type_of_brand(head.get(8..12)?),
        [0xff, second, ..] if second & 0xf6 == 0xf0 => "audio/aac",
        // The frame header of MPEG audio, with a valid version, layer, and bit rate.
        [0xff, second, third, ..]
            if second & 0xe0 == 0xe0
                && second & 0x18 != 0x08
                && matches!(second & 0x06, 2 | 4)
                && third & 0xf0 != 0xf0 =>
        {
            "audio/mpeg"
        }
        _ if at(4, b"moov") || at(4, b"mdat") || at(4, b"wide") => "video/quicktime",
        _ => return None,
    };
    Some(found)
}

/// Whether a PDF begins: behind the version, its first line has no words, unlike that of a text
/// file.
fn is_pdf_header(head: &[u8]) -> bool {
    let Some([major, b'.', minor, rest @ ..]) = head.get(5..) else { return false };
    let line = rest.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    major.is_ascii_digit()
        && minor.is_ascii_digit()
        && !rest.is_empty()
        && !line.iter().any(u8::is_ascii_alphabetic)
}

/// Returns the media type of an ISO media file by its main brand.
fn media_type_of_brand(brand: &[u8]) -> &'static str {
    match brand {
        b"avif" | b"avis" => "image/avif",
        b"heic" | b"heix" | b"hevc" | b"hevx" => "image/heic",
        b"mif1" | b"msf1" | b"heim" | b"heis" => "image/heif",
        b"M4A " | b"M4B " | b"M4P " => "audio/mp4",
        b"qt  " => "video/quicktime",
        [b'3', b'g', ..] => "video/3gpp",
        _ => "video/mp4",
    }
}

/// Returns the MIME type with which media can be sent: the one of its content, or for audio and video
/// without a signature the declared one. `None`: services would reject it.
pub fn sendable_type<'a>(declared: &'a str, bytes: &[u8]) -> Option<&'a str> {
    let moves = declared.starts_with("audio/") || declared.starts_with("video/");
    let is_plain = declared.bytes().all(|byte| byte.is_ascii_graphic());
    media_type_of(bytes.get(..HEAD).unwrap_or(bytes))
        .or(Some(declared).filter(|_| moves && is_plain && !bytes.is_empty()))
}

/// Whether files of this type always have a signature, so that content without one is of another
/// type.
pub fn has_signature(mime_type: &str) -> bool {
    mime_type == "application/pdf"
        || (mime_type.starts_with("image/") && !mime_type.starts_with("image/svg"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_type_is_detected_from_content() {
        for (head, kind) in [
            (&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], Some("image/png")),
            (b"\x89PNG\r\n\x1a\n", None),
            (b"\xff\xd8\xff\xe0\0\x10JFIF", Some("image/jpeg")),
            (b"\xff\xd8\xff", None),
            (b"GIF89a\x01\0", Some("image/gif")),
            (b"GIF89a", None),
            (b"RIFF\x10\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"%PDF-", None),
            (b"RIFF\x10\0\0\0WAVEfmt ", Some("audio/wav")),
            (b"\0\0\0\x1cftypavif", Some("image/avif")),
            (b"\0\0\0\x1cftypisom", Some("video/mp4")),
            (b"%PDF-1.7\n", Some("application/pdf")),
            (b"%PDF-1.4 \r%\xe2\xe3", Some("application/pdf")),
            (b"%PDF-1.4 is the version that\n", None),
            (b"\xff\xfb\x90\x64", Some("audio/mpeg")),
            (b"\xff\xf1\x50\x80", Some("audio/aac")),
            (b"\x1a\x45\xdf\xa3\x9f\x42\x82\x84webm", Some("video/webm")),
            (b"", None),
            (b"<!DOCTYPE html>", None),
            (b"PK\x03\x04", None),
            (b"\xff\xfe<\0h\0", None),
            (b"\0\0\0\0", None),
        ] {
            assert_eq!(media_type_of(head), kind, "{head:?}");
        }
    }
}
