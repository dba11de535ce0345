//! Encodes images that the terminal decodes itself, as PNG in base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::ImageError;
use super::pixels::Pixels;

/// The maximum chunk size of the kitty protocol.
const PIECE: usize = 4_096;

/// Encodes the pixels as a PNG.
pub(super) fn png(pixels: &Pixels) -> Result<Vec<u8>, ImageError> {
    let failed = |error: png::EncodingError| ImageError::Damaged(error.to_string());
    let (width, height) = pixels.size();
    let side = |side: usize| u32::try_from(side).map_err(|_| ImageError::TooMuch);
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, side(width)?, side(height)?);
    encoder.set_depth(png::BitDepth::Eight);
    let is_opaque = pixels.iter().all(|[.., alpha]| alpha == 255);
    let channels = if is_opaque { 3 } else { 4 };
    encoder.set_color(if is_opaque { png::ColorType::Rgb } else { png::ColorType::Rgba });
    let data: Vec<u8> = pixels.iter().flat_map(|pixel| pixel.into_iter().take(channels)).collect();
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(&data).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(out)
}

/// Returns the kitty sequence that shows the image on these cells, keeps the cursor, and
/// suppresses answers.
pub(super) fn kitty(png: &[u8], columns: usize, rows: usize) -> Vec<u8> {
    let data = STANDARD.encode(png);
    let mut out = Vec::with_capacity(data.len() + data.len() / 256 + 64);
    let mut pieces = data.as_bytes().chunks(PIECE).peekable();
    let mut control = format!("a=T,f=100,q=2,C=1,c={columns},r={rows},");
    while let Some(piece) = pieces.next() {
        let more = u8::from(pieces.peek().is_some());
        out.extend_from_slice(format!("\x1b_G{control}m={more};").as_bytes());
        out.extend_from_slice(piece);
        out.extend_from_slice(b"\x1b\\");
        control = "q=2,".to_owned();
    }
    out
}

/// Returns the iTerm2 sequence that shows the image on these cells. The cursor position
/// afterwards is undefined.
pub(super) fn iterm(png: &[u8], columns: usize, rows: usize) -> Vec<u8> {
    let size = png.len();
    let head = format!(
        "\x1b]1337;File=inline=1;size={size};width={columns};height={rows};\
         preserveAspectRatio=0;doNotMoveCursor=1:"
    );
    [head.as_bytes(), STANDARD.encode(png).as_bytes(), b"\x07"].concat()
}
