//! Images between rows, encoded for the terminal.
//!
//! Image bytes are untrusted: the type is detected from the first bytes, the size is read before
//! decoding, and what is sent to the terminal is encoded again from pixels. An image is placed on
//! reserved rows, so that nothing depends on how the terminal moves its cursor.

mod palette;
mod pixels;
mod read;
mod send;
mod sixel;
#[cfg(test)]
mod tests;

use thiserror::Error;

pub use read::ImageFormat;

use pixels::Pixels;

/// Maximum size of an image file in bytes.
const MAX_BYTES: usize = 8 << 20;
/// Maximum number of pixels that are decoded.
const MAX_PIXELS: u64 = 40_000_000;
/// Maximum number of bytes sent to the terminal for one image.
const MAX_SENT: usize = 1 << 20;
/// Maximum number of pixels sent for an image that the terminal scales.
const ENOUGH_PIXELS: f64 = 600_000.0;
/// Maximum side of a sixel image in pixels, the default limit of xterm.
const MAX_SIXEL_SIDE: usize = 1_000;
/// How often an image is reduced until it can be sent.
const TRIES: usize = 12;

/// The graphics protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphicsProtocol {
    /// The kitty graphics protocol.
    Kitty,
    /// iTerm2 inline images (OSC 1337).
    Iterm,
    /// Sixels.
    Sixel,
}

/// The drawing capabilities of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphicsCapabilities {
    /// The graphics protocol.
    pub graphics: GraphicsProtocol,
    /// The width and height of a cell in pixels.
    pub cell: (u16, u16),
    /// Maximum number of colors in a sixel image.
    pub colors: usize,
}

/// The properties of an image known before it is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageHeader {
    /// The format.
    pub kind: ImageFormat,
    /// The width in pixels.
    pub width: u32,
    /// The height in pixels.
    pub height: u32,
}

/// Why an image is not shown.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ImageError {
    /// Unknown format.
    #[error("not a PNG, JPEG, GIF, or WebP image")]
    Unknown,
    /// Too many bytes.
    #[error("larger than {} MiB", MAX_BYTES >> 20)]
    TooLong,
    /// Too many pixels.
    #[error("{0}×{1} pixels exceed the limit")]
    TooLarge(u32, u32),
    /// No pixels.
    #[error("no pixels")]
    Empty,
    /// Invalid data.
    #[error("damaged: {0}")]
    Damaged(String),
    /// The image cannot be made small enough.
    #[error("cannot be scaled down enough")]
    TooMuch,
}

/// An encoded image with its size in columns and rows.
#[derive(PartialEq, Eq)]
pub struct TerminalImage {
    columns: usize,
    rows: usize,
    bytes: Vec<u8>,
}

impl std::fmt::Debug for TerminalImage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { columns, rows, bytes } = self;
        write!(formatter, "Picture({columns}×{rows}, {} bytes)", bytes.len())
    }
}

impl TerminalImage {
    /// Detects the format and size of a file from its first bytes, without decoding it.
    ///
    /// # Errors
    /// Returns an error if the format is unknown or the size is not supported.
    pub fn head(bytes: &[u8]) -> Result<ImageHeader, ImageError> {
        read::head(bytes)
    }

    /// Decodes an image and encodes it for a terminal, in at most this many columns and rows. It
    /// is never enlarged. Slow: do not call it on the drawing thread.
    ///
    /// # Errors
    /// Returns an error if the data is not an image, or too large to decode.
    pub fn new(
        bytes: &[u8],
        drawing: &GraphicsCapabilities,
        (columns, rows): (usize, usize),
    ) -> Result<Self, ImageError> {
        let pixels = read::decode(bytes)?;
        let cell = (usize::from(drawing.cell.0.max(1)), usize::from(drawing.cell.1.max(1)));
        let mut max_size = (columns.max(1) * cell.0, rows.max(1) * cell.1);
        if drawing.graphics == GraphicsProtocol::Sixel {
            max_size = (max_size.0.min(MAX_SIXEL_SIDE), max_size.1.min(MAX_SIXEL_SIDE));
        }
        match drawing.graphics {
            GraphicsProtocol::Sixel => Self::as_sixels(&pixels, cell, max_size, drawing.colors),
            graphics => Self::as_png(&pixels, cell, max_size, graphics),
        }
    }

    /// Encodes a PNG, which the terminal scales to a number of cells.
    fn as_png(
        pixels: &Pixels,
        cell: (usize, usize),
        max_size: (usize, usize),
        graphics: GraphicsProtocol,
    ) -> Result<Self, ImageError> {
        let size = scale_to_fit(pixels.size(), max_size);
        let (columns, rows) = (size.0.div_ceil(cell.0), size.1.div_ceil(cell.1));
        // Pad with transparent pixels to cell borders, so that nothing is stretched.
        let whole = (columns * cell.0, rows * cell.1);
        let area = whole.0 as f64 * whole.1 as f64;
        let mut share = (ENOUGH_PIXELS / area).sqrt().min(1.0);
        for _ in 0..TRIES {
            let canvas = shrink(whole, share);
            let drawn = shrink(size, share);
            let drawn = (drawn.0.min(canvas.0), drawn.1.min(canvas.1));
            let png = send::png(&pixels.scale_down(drawn).on_larger_canvas(canvas))?;
            let bytes = match graphics {
                GraphicsProtocol::Iterm => send::iterm(&png, columns, rows),
                _ => send::kitty(&png, columns, rows),
            };
            if bytes.len() <= MAX_SENT {
                return Ok(Self { columns, rows, bytes });
            }
            share *= 0.7;
        }
        Err(ImageError::TooMuch)
    }

    /// Encodes sixels, which are not scaled: if too large, with fewer colors or smaller.
    fn as_sixels(
        pixels: &Pixels,
        cell: (usize, usize),
        max_size: (usize, usize),
        colors: usize,
    ) -> Result<Self, ImageError> {
        let whole = scale_to_fit(pixels.size(), max_size);
        let (mut size, mut colors) = (whole, colors.clamp(2, 256));
        for _ in 0..TRIES {
            let scaled = pixels.scale_down(size);
            let bytes = sixel::encode(&scaled, colors);
            if bytes.len() <= MAX_SENT {
                let (columns, rows) = (size.0.div_ceil(cell.0), size.1.div_ceil(cell.1));
                return Ok(Self { columns, rows, bytes });
            }
            match colors > 16 {
                true => colors = (colors / 4).max(16),
                false => size = shrink(size, 0.7),
            }
        }
        Err(ImageError::TooMuch)
    }

    /// Returns the size in columns and rows.
    pub fn size(&self) -> (usize, usize) {
        (self.columns, self.rows)
    }

    /// Returns the bytes to send with the cursor in the first cell. The cursor position afterwards
    /// is undefined.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns the size scaled down to fit `max_size`, with the same aspect ratio.
fn scale_to_fit(size: (usize, usize), max_size: (usize, usize)) -> (usize, usize) {
    let by_width = max_size.0 as f64 / size.0.max(1) as f64;
    let by_height = max_size.1 as f64 / size.1.max(1) as f64;
    let fitted = shrink(size, by_width.min(by_height).min(1.0));
    (fitted.0.min(max_size.0), fitted.1.min(max_size.1))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a size")]
fn shrink(size: (usize, usize), share: f64) -> (usize, usize) {
    let side = |side: usize| ((side as f64 * share).round() as usize).max(1);
    (side(size.0), side(size.1))
}
