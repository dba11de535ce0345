//! Encodes sixels: bands of six rows, each drawn once in every color that it contains.

use std::collections::BTreeMap;

use super::palette::IndexedPalette;
use super::pixels::Pixels;
use crate::sgr::number;

/// Number of pixel rows per band.
const BAND: usize = 6;
/// Minimum number of equal sixels for which a repeat count is shorter.
const RUN: usize = 4;

/// Encodes the pixels in at most `colors` colors. Transparent pixels leave the screen unchanged.
pub(super) fn encode(pixels: &Pixels, colors: usize) -> Vec<u8> {
    let (width, height) = pixels.size();
    let mut palette = IndexedPalette::from_pixels(pixels, colors);
    let drawn = palette.dither(pixels);
    let mut out = format!("\x1bP0;1;0q\"1;1;{width};{height}").into_bytes();
    for (index, color) in palette.colors.iter().enumerate() {
        let [red, green, blue] = color.map(|level| (u32::from(level) * 100 + 127) / 255);
        out.extend_from_slice(format!("#{index};2;{red};{green};{blue}").as_bytes());
    }
    for top in (0..height).step_by(BAND) {
        let mut rows: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
        for y in top..(top + BAND).min(height) {
            for x in 0..width {
                let Some(color) = drawn.get(y * width + x).copied().flatten() else { continue };
                let row = rows.entry(color).or_insert_with(|| vec![0; width]);
                if let Some(sixel) = row.get_mut(x) {
                    *sixel |= 1 << (y - top);
                }
            }
        }
        for (at, (color, row)) in rows.iter().enumerate() {
            if at > 0 {
                out.push(b'$');
            }
            out.push(b'#');
            number(&mut out, usize::from(*color));
            runs(&mut out, row);
        }
        if top + BAND < height {
            out.push(b'-');
        }
    }
    out.extend_from_slice(b"\x1b\\");
    out
}

/// Writes a row of one color without trailing empty sixels.
fn runs(out: &mut Vec<u8>, row: &[u8]) {
    let end = row.iter().rposition(|sixel| *sixel != 0).map_or(0, |last| last + 1);
    for run in row.get(..end).unwrap_or_default().chunk_by(|a, b| a == b) {
        let sixel = b'?' + run.first().copied().unwrap_or(0);
        if run.len() >= RUN {
            out.push(b'!');
            number(out, run.len());
            out.push(sixel);
        } else {
            out.extend(std::iter::repeat_n(sixel, run.len()));
        }
    }
}
