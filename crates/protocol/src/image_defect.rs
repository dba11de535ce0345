//! Finds images that services reject: truncated ones, and those without pixels.

/// Why an image cannot be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageDefect {
    /// The file ends before the image does.
    Truncated,
    /// Its width or height is 0.
    Empty,
}

impl ImageDefect {
    /// Returns the reason, for a sentence about the image.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Truncated => "the image is truncated",
            Self::Empty => "the width or height of the image is 0",
        }
    }

    /// Checks a whole image of a type that was detected from its content. Formats other than PNG,
    /// JPEG, GIF, WebP, and BMP are not checked.
    pub fn find(mime_type: &str, bytes: &[u8]) -> Option<Self> {
        let size = match mime_type {
            "image/png" => png_size(bytes),
            "image/jpeg" => jpeg_size(bytes),
            "image/gif" => gif_size(bytes),
            "image/webp" => webp_size(bytes),
            "image/bmp" => bmp_size(bytes),
            _ => return None,
        };
        match size {
            None => Some(Self::Truncated),
            Some((width, height)) => (width == 0 || height == 0).then_some(Self::Empty),
        }
    }
}

/// The width and height; `None` if the image is truncated.
type ImageSize = Option<(u32, u32)>;

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn big_u16(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(|bytes| u16::from_be_bytes(bytes).into())
}

fn little_u16(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(|bytes| u16::from_le_bytes(bytes).into())
}

fn png_size(bytes: &[u8]) -> ImageSize {
    let number = |at| array(bytes, at).map(u32::from_be_bytes);
    let size = (number(16)?, number(20)?);
    let mut at: usize = 8;
    loop {
        let length = usize::try_from(number(at)?).ok()?;
        // The length, the type, and the checksum.
        let end = at.checked_add(12)?.checked_add(length)?;
        if bytes.len() < end {
            return None;
        }
        if bytes.get(at + 4..at + 8)? == b"IEND" {
            return Some(size);
        }
        at = end;
    }
}

fn jpeg_size(bytes: &[u8]) -> ImageSize {
    let mut at = 2;
    let mut size = None;
    loop {
        // Any number of fill bytes may precede a marker.
        while *bytes.get(at)? == 0xff && *bytes.get(at + 1)? == 0xff {
            at += 1;
        }
        let marker = *bytes.get(at + 1)?;
        let length = usize::try_from(big_u16(bytes, at + 2)?).ok()?;
        match marker {
            0xc4 | 0xc8 | 0xcc => {}
            0xc0..=0xcf => size = Some((big_u16(bytes, at + 7)?, big_u16(bytes, at + 5)?)),
            // The pixels follow, up to the end marker.
            0xda => break,
            _ => {}
        }
        at += 2 + length;
    }
    bytes.get(at..)?.windows(2).any(|two| two == [0xff, 0xd9]).then_some(size?)
}

fn gif_size(bytes: &[u8]) -> ImageSize {
    // The header is followed by at least one block.
    bytes.get(13)?;
    Some((little_u16(bytes, 6)?, little_u16(bytes, 8)?))
}

fn webp_size(bytes: &[u8]) -> ImageSize {
    let length = usize::try_from(u32::from_le_bytes(array(bytes, 4)?)).ok()?;
    if bytes.len() < length.checked_add(8)? {
        return None;
    }
    match bytes.get(12..16)? {
        b"VP8 " => Some((little_u16(bytes, 26)? & 0x3fff, little_u16(bytes, 28)? & 0x3fff)),
        // The other formats store the size minus 1.
        _ => Some((1, 1)),
    }
}

fn bmp_size(bytes: &[u8]) -> ImageSize {
    let number = |at| array(bytes, at).map(u32::from_le_bytes);
    let length = usize::try_from(number(2)?).ok()?;
    let is_old = number(14)? == 12;
    let size = match is_old {
        true => (little_u16(bytes, 18)?, little_u16(bytes, 20)?),
        false => (number(18)?, number(22)?),
    };
    (bytes.len() >= length).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u8) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0".to_vec();
        bytes.extend([width, 0, 0, 0, 1, 8, 0, 0, 0, 0, 1, 2, 3, 4]);
        bytes.extend(b"\0\0\0\x02IDATxxCCCC\0\0\0\0IEND\xae\x42\x60\x82");
        bytes
    }

    fn jpeg(height: u8) -> Vec<u8> {
        let mut bytes = b"\xff\xd8\xff\xe0\0\x04JF\xff\xff\xc0\0\x0b\x08\0".to_vec();
        bytes.extend([height, 0, 2, 1, 1, 0x11, 0]);
        bytes.extend(b"\xff\xda\0\x03\0pixels\xff\0more\xff\xd9");
        bytes
    }

    fn webp(width: u8) -> Vec<u8> {
        let mut bytes = b"RIFF\x16\0\0\0WEBPVP8 \x0a\0\0\0\0\0\0\x9d\x01\x2a".to_vec();
        bytes.extend([width, 0, 1, 0]);
        bytes
    }

    fn bmp(width: u8) -> Vec<u8> {
        let mut bytes = b"BM\x1c\0\0\0\0\0\0\0\x1a\0\0\0\x28\0\0\0".to_vec();
        bytes.extend([width, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
        bytes
    }

    #[test]
    fn truncated_and_empty_images_have_a_defect() {
        let gif = |width: u8| [b"GIF89a", &[width, 0, 1, 0, 0, 0, 0, 0x3b][..]].concat();
        type Build = fn(u8) -> Vec<u8>;
        let formats: [(&str, Build); 4] =
            [("image/png", png), ("image/jpeg", jpeg), ("image/webp", webp), ("image/bmp", bmp)];
        for (mime, build) in formats {
            let whole = build(1);
            assert_eq!(ImageDefect::find(mime, &whole), None, "{mime}");
            assert_eq!(ImageDefect::find(mime, &build(0)), Some(ImageDefect::Empty), "{mime}");
            for length in 0..whole.len() {
                let cut = &whole[..length];
                assert_eq!(ImageDefect::find(mime, cut), Some(ImageDefect::Truncated), "{mime}");
            }
        }
        assert_eq!(ImageDefect::find("image/gif", &gif(1)), None);
        assert_eq!(ImageDefect::find("image/gif", &gif(0)), Some(ImageDefect::Empty));
        assert_eq!(ImageDefect::find("image/gif", b"GIF89a\x01\0"), Some(ImageDefect::Truncated));
        assert_eq!(ImageDefect::find("application/pdf", b"%PDF-1.7\n"), None);
    }
}
