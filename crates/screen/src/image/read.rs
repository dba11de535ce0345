//! Decodes image files to pixels.

use std::io::Cursor;

use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

use super::pixels::Pixels;
use super::{ImageError, ImageHeader, MAX_BYTES, MAX_PIXELS};

/// Maximum memory of a decoder in bytes.
const MAX_MEMORY: usize = 192 << 20;

/// Supported formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum ImageFormat {
    Png,
    Jpeg,
    Gif,
    Webp,
}

impl ImageFormat {
    /// Returns the usual name of the format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Png => "PNG",
            Self::Jpeg => "JPEG",
            Self::Gif => "GIF",
            Self::Webp => "WebP",
        }
    }

    fn detect(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Self::Gif),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::Webp),
            _ => None,
        }
    }
}

/// Returns the format and size of a file.
pub(super) fn head(bytes: &[u8]) -> Result<ImageHeader, ImageError> {
    let kind = ImageFormat::detect(bytes).ok_or(ImageError::Unknown)?;
    if bytes.len() > MAX_BYTES {
        return Err(ImageError::TooLong);
    }
    let cut = || ImageError::Damaged("truncated file".to_owned());
    let (width, height) = match kind {
        ImageFormat::Png => {
            let side = |at: usize| {
                let four = bytes.get(at..at + 4)?.try_into().ok()?;
                Some(u32::from_be_bytes(four))
            };
            side(16).zip(side(20)).ok_or_else(cut)?
        }
        ImageFormat::Gif => {
            let side = |at: usize| {
                let two = bytes.get(at..at + 2)?.try_into().ok()?;
                Some(u32::from(u16::from_le_bytes(two)))
            };
            side(6).zip(side(8)).ok_or_else(cut)?
        }
        ImageFormat::Jpeg => {
            let mut decoder = jpeg(bytes);
            decoder.decode_headers().map_err(damaged_error)?;
            let (width, height) = decoder.dimensions().ok_or_else(cut)?;
            (u32::try_from(width).unwrap_or(u32::MAX), u32::try_from(height).unwrap_or(u32::MAX))
        }
        ImageFormat::Webp => webp(bytes)?.dimensions(),
    };
    if width == 0 || height == 0 {
        return Err(ImageError::Empty);
    }
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(ImageError::TooLarge(width, height));
    }
    Ok(ImageHeader { kind, width, height })
}

/// Decodes a file to pixels; of an animation, the first frame.
pub(super) fn decode(bytes: &[u8]) -> Result<Pixels, ImageError> {
    let ImageHeader { kind, width, height } = head(bytes)?;
    let size = (width as usize, height as usize);
    let (data, channels) = match kind {
        ImageFormat::Png => png(bytes)?,
        ImageFormat::Jpeg => (jpeg(bytes).decode().map_err(damaged_error)?, 3),
        ImageFormat::Gif => (gif(bytes, size)?, 4),
        ImageFormat::Webp => {
            let mut decoder = webp(bytes)?;
            let length = decoder.output_buffer_size().ok_or(ImageError::TooMuch)?;
            let mut data = vec![0; length];
            decoder.read_image(&mut data).map_err(damaged_error)?;
            (data, if decoder.has_alpha() { 4 } else { 3 })
        }
    };
    Pixels::new(size, data, channels)
        .ok_or_else(|| ImageError::Damaged("too few pixels".to_owned()))
}

fn damaged_error(error: impl std::fmt::Display) -> ImageError {
    ImageError::Damaged(error.to_string())
}

fn png(bytes: &[u8]) -> Result<(Vec<u8>, usize), ImageError> {
    let limits = png::Limits { bytes: MAX_MEMORY };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(damaged_error)?;
    let length = reader.output_buffer_size().ok_or(ImageError::TooMuch)?;
    let mut data = vec![0; length];
    let info = reader.next_frame(&mut data).map_err(damaged_error)?;
    data.truncate(info.buffer_size());
    Ok((data, info.color_type.samples()))
}

fn jpeg(bytes: &[u8]) -> JpegDecoder<ZCursor<&[u8]>> {
    let options = DecoderOptions::default().jpeg_set_out_colorspace(ColorSpace::RGB);
    JpegDecoder::new_with_options(ZCursor::new(bytes), options)
}

fn webp(bytes: &[u8]) -> Result<image_webp::WebPDecoder<Cursor<&[u8]>>, ImageError> {
    let mut decoder = image_webp::WebPDecoder::new(Cursor::new(bytes)).map_err(damaged_error)?;
    decoder.set_memory_limit(MAX_MEMORY);
    Ok(decoder)
}

/// Decodes the first frame of a GIF, at its position in the whole image.
fn gif(bytes: &[u8], (width, height): (usize, usize)) -> Result<Vec<u8>, ImageError> {
    let mut options = gif::DecodeOptions::new();
    options.set_color_output(gif::ColorOutput::RGBA);
    let limit = std::num::NonZeroU64::new(MAX_MEMORY as u64).ok_or(ImageError::TooMuch)?;
    options.set_memory_limit(gif::MemoryLimit::Bytes(limit));
    let mut decoder = options.read_info(bytes).map_err(damaged_error)?;
    let frame = decoder.read_next_frame().map_err(damaged_error)?;
    let Some(frame) = frame else { return Err(ImageError::Empty) };
    let (left, top) = (usize::from(frame.left), usize::from(frame.top));
    let mut data = vec![0; width * height * 4];
    let row_bytes = usize::from(frame.width).max(1) * 4;
    for (y, row) in frame.buffer.chunks_exact(row_bytes).enumerate() {
        let length = row.len().min(width.saturating_sub(left) * 4);
        let from = ((top + y) * width + left) * 4;
        if top + y < height
            && let Some(target) = data.get_mut(from..from + length)
            && let Some(row) = row.get(..length)
        {
            target.copy_from_slice(row);
        }
    }
    Ok(data)
}
