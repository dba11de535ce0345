//! Pictures between the rows, as the terminal takes them.
//!
//! Picture bytes are untrusted: the type is detected from the first bytes, the size is read
//! before decoding, and what is sent to the terminal is encoded again from pixels. A
//! picture is placed on reserved rows, so that nothing depends on how the terminal moves
//! its cursor.

mod palette;
mod pixels;
mod read;
mod send;
mod sixel;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use thiserror::Error;

pub use read::PictureKind;

use crate::line::Line;
use pixels::Pixels;

/// More bytes are not looked at.
const MOST_BYTES: usize = 8 << 20;
/// Larger pictures are not decoded.
const MOST_PIXELS: u64 = 40_000_000;
/// At most so many bytes go to the terminal for one picture.
const MOST_SENT: usize = 1 << 20;
/// A picture that the terminal scales has no use for more pixels.
const ENOUGH_PIXELS: f64 = 600_000.0;
/// xterm draws no larger ones by default.
const MOST_SIXEL_SIDE: usize = 1_000;
/// How often a picture is made smaller until it can be sent.
const TRIES: usize = 12;

/// How pictures are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Graphics {
    /// The kitty graphics protocol.
    Kitty,
    /// Inline images of iTerm2 (OSC 1337).
    Iterm,
    /// Sixels.
    Sixel,
}

/// What the terminal draws with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drawing {
    /// How pictures are sent.
    pub graphics: Graphics,
    /// A cell's width and height in pixels.
    pub cell: (u16, u16),
    /// How many colours a sixel picture may have.
    pub colors: usize,
}

/// What is known of a picture before it is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PictureHead {
    /// Its format.
    pub kind: PictureKind,
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
}

/// Why a picture is not shown.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PictureError {
    /// Nothing that is known begins like this.
    #[error("not a PNG, JPEG, GIF or WebP picture")]
    Unknown,
    /// Too many bytes.
    #[error("larger than {} MiB", MOST_BYTES >> 20)]
    TooLong,
    /// Too many pixels.
    #[error("{0}×{1} pixels are too many")]
    TooLarge(u32, u32),
    /// It has no pixels.
    #[error("no pixels")]
    Empty,
    /// It cannot be decoded.
    #[error("damaged: {0}")]
    Damaged(String),
    /// It does not get small enough.
    #[error("cannot be scaled down enough")]
    TooMuch,
}

/// A picture that can be sent, for a number of columns and rows.
#[derive(PartialEq, Eq)]
pub struct Picture {
    columns: usize,
    rows: usize,
    bytes: Vec<u8>,
}

impl std::fmt::Debug for Picture {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { columns, rows, bytes } = self;
        write!(formatter, "Picture({columns}×{rows}, {} bytes)", bytes.len())
    }
}

impl Picture {
    /// What a file is, by how it begins; nothing is decoded.
    ///
    /// # Errors
    /// It is none that is known, or its size cannot be.
    pub fn head(bytes: &[u8]) -> Result<PictureHead, PictureError> {
        read::head(bytes)
    }

    /// Decodes a picture and encodes it for a terminal, to at most so many columns and
    /// rows. It is never made larger than it is. Takes its time: not for the thread that
    /// draws.
    ///
    /// # Errors
    /// Not a picture, or one that is too large to decode.
    pub fn new(
        bytes: &[u8],
        drawing: &Drawing,
        (columns, rows): (usize, usize),
    ) -> Result<Self, PictureError> {
        let pixels = read::decode(bytes)?;
        let cell = (usize::from(drawing.cell.0.max(1)), usize::from(drawing.cell.1.max(1)));
        let mut most = (columns.max(1) * cell.0, rows.max(1) * cell.1);
        if drawing.graphics == Graphics::Sixel {
            most = (most.0.min(MOST_SIXEL_SIDE), most.1.min(MOST_SIXEL_SIDE));
        }
        match drawing.graphics {
            Graphics::Sixel => Self::as_sixels(&pixels, cell, most, drawing.colors),
            graphics => Self::as_png(&pixels, cell, most, graphics),
        }
    }

    /// The terminal scales it to the cells: what matters is how many those are.
    fn as_png(
        pixels: &Pixels,
        cell: (usize, usize),
        most: (usize, usize),
        graphics: Graphics,
    ) -> Result<Self, PictureError> {
        let size = fitting(pixels.size(), most);
        let (columns, rows) = (size.0.div_ceil(cell.0), size.1.div_ceil(cell.1));
        // Clear pixels to the cells' borders, so that nothing is stretched.
        let whole = (columns * cell.0, rows * cell.1);
        let area = whole.0 as f64 * whole.1 as f64;
        let mut share = (ENOUGH_PIXELS / area).sqrt().min(1.0);
        for _ in 0..TRIES {
            let canvas = shrunk(whole, share);
            let drawn = shrunk(size, share);
            let drawn = (drawn.0.min(canvas.0), drawn.1.min(canvas.1));
            let png = send::png(&pixels.scaled(drawn).on_canvas(canvas))?;
            let bytes = match graphics {
                Graphics::Iterm => send::iterm(&png, columns, rows),
                _ => send::kitty(&png, columns, rows),
            };
            if bytes.len() <= MOST_SENT {
                return Ok(Self { columns, rows, bytes });
            }
            share *= 0.7;
        }
        Err(PictureError::TooMuch)
    }

    /// A pixel is a pixel: what is too much is drawn with fewer colours, or smaller.
    fn as_sixels(
        pixels: &Pixels,
        cell: (usize, usize),
        most: (usize, usize),
        colors: usize,
    ) -> Result<Self, PictureError> {
        let whole = fitting(pixels.size(), most);
        let (mut size, mut colors) = (whole, colors.clamp(2, 256));
        for _ in 0..TRIES {
            let scaled = pixels.scaled(size);
            let bytes = sixel::encode(&scaled, colors);
            if bytes.len() <= MOST_SENT {
                let (columns, rows) = (size.0.div_ceil(cell.0), size.1.div_ceil(cell.1));
                return Ok(Self { columns, rows, bytes });
            }
            match colors > 16 {
                true => colors = (colors / 4).max(16),
                false => size = shrunk(size, 0.7),
            }
        }
        Err(PictureError::TooMuch)
    }

    /// Columns and rows that it takes.
    pub fn size(&self) -> (usize, usize) {
        (self.columns, self.rows)
    }

    /// The rows that it stands on, behind so many blank columns.
    pub fn lines(self: &Arc<Self>, indent: usize) -> Vec<Line> {
        let mut lines = vec![Line::EMPTY; self.rows];
        if let Some(first) = lines.first_mut() {
            *first = Line::raw(" ".repeat(indent));
            first.picture = Some(Arc::clone(self));
        }
        lines
    }

    /// What is sent when the cursor is in its first cell. Where the cursor is then is
    /// not known.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The size of a picture that is at most as large as `most`, in its own shape.
fn fitting(size: (usize, usize), most: (usize, usize)) -> (usize, usize) {
    let by_width = most.0 as f64 / size.0.max(1) as f64;
    let by_height = most.1 as f64 / size.1.max(1) as f64;
    let fitted = shrunk(size, by_width.min(by_height).min(1.0));
    (fitted.0.min(most.0), fitted.1.min(most.1))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a size")]
fn shrunk(size: (usize, usize), share: f64) -> (usize, usize) {
    let side = |side: usize| ((side as f64 * share).round() as usize).max(1);
    (side(size.0), side(size.1))
}
