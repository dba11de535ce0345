//! Reduces an image to a few colors with median cut: the box with the most pixels is split
//! first, at the middle of its longest side.

use super::pixels::{Pixel, Pixels};

/// Number of bits per color component that are distinguished.
const BITS: u32 = 5;
const COLORS: usize = 1 << (3 * BITS);
/// Minimum opacity of drawn pixels.
const OPAQUE: u8 = 128;

/// The colors, and an index of the nearest one.
pub(super) struct IndexedPalette {
    pub colors: Vec<[u8; 3]>,
    nearest: Vec<Option<u8>>,
}

/// A group of similar colors.
struct Group {
    /// The key, the number of pixels, and the sums of the components of each color.
    members: Vec<(usize, u64, [u64; 3])>,
}

impl Group {
    fn pixels(&self) -> u64 {
        self.members.iter().map(|(_, count, _)| count).sum()
    }

    fn mean_color(&self) -> [u8; 3] {
        let count = self.pixels().max(1);
        [0, 1, 2].map(|part| {
            let sum: u64 = self.members.iter().map(|(_, _, sums)| sums[part]).sum();
            u8::try_from(sum / count).unwrap_or(255)
        })
    }

    /// Splits off the half above the middle of the longest side.
    fn split(&mut self) -> Option<Self> {
        let level = |key: usize, part: u32| (key >> (BITS * part)) & ((1 << BITS) - 1);
        let length = |part: &u32| {
            let levels = self.members.iter().map(|(key, ..)| level(*key, *part));
            levels.clone().max().unwrap_or(0) - levels.min().unwrap_or(0)
        };
        let part = (0..3).max_by_key(length)?;
        if self.members.len() < 2 {
            return None;
        }
        self.members.sort_by_key(|(key, ..)| level(*key, part));
        let half = self.pixels() / 2;
        let mut counted = 0;
        let middle = self.members.iter().position(|(_, count, _)| {
            counted += count;
            counted > half
        });
        let cut = middle.unwrap_or(0).clamp(1, self.members.len() - 1);
        Some(Self { members: self.members.split_off(cut) })
    }
}

impl IndexedPalette {
    pub fn from_pixels(pixels: &Pixels, limit: usize) -> Self {
        let mut found = vec![(0_u64, [0_u64; 3]); COLORS];
        for pixel in pixels.iter().filter(is_opaque) {
            if let Some((count, sums)) = found.get_mut(key(pixel)) {
                *count += 1;
                for (sum, level) in sums.iter_mut().zip(pixel) {
                    *sum += u64::from(level);
                }
            }
        }
        let members = found.into_iter().enumerate().filter(|(_, (count, _))| *count > 0);
        let members = members.map(|(key, (count, sums))| (key, count, sums)).collect();
        let mut groups = vec![Group { members }];
        while groups.len() < limit.min(256) {
            let divisible = groups.iter_mut().filter(|group| group.members.len() > 1);
            let half = divisible.max_by_key(|group| group.pixels()).and_then(Group::split);
            let Some(half) = half else { break };
            groups.push(half);
        }
        Self { colors: groups.iter().map(Group::mean_color).collect(), nearest: vec![None; COLORS] }
    }

    /// Returns the color drawn for each pixel, if any, with Floyd–Steinberg dithering.
    pub fn dither(&mut self, pixels: &Pixels) -> Vec<Option<u8>> {
        let (width, height) = pixels.size();
        let mut drawn = Vec::with_capacity(width * height);
        // One more column on each side for errors that spread beyond the image.
        let (mut here, mut below) = (vec![[0_i32; 3]; width + 2], vec![[0_i32; 3]; width + 2]);
        for y in 0..height {
            for x in 0..width {
                let pixel = pixels.at(x, y);
                if !is_opaque(&pixel) {
                    drawn.push(None);
                    continue;
                }
                let missing = here[x + 1];
                let level = |part: usize| i32::from(pixel[part]) + missing[part] / 16;
                let target = [0, 1, 2].map(|part| level(part).clamp(0, 255));
                let (index, color) = self.nearest(target);
                drawn.push(Some(index));
                for part in 0..3 {
                    let missed = target[part] - i32::from(color[part]);
                    here[x + 2][part] += missed * 7;
                    below[x][part] += missed * 3;
                    below[x + 1][part] += missed * 5;
                    below[x + 2][part] += missed;
                }
            }
            std::mem::swap(&mut here, &mut below);
            below.fill([0; 3]);
        }
        drawn
    }

    fn nearest(&mut self, target: [i32; 3]) -> (u8, [u8; 3]) {
        let [red, green, blue] = target.map(|level| u8::try_from(level).unwrap_or(255));
        let key = key([red, green, blue, 255]);
        let index = self.nearest.get(key).copied().flatten().unwrap_or_else(|| {
            let distance = |color: &[u8; 3]| {
                let parts = target.iter().zip(color);
                parts.map(|(component, level)| (component - i32::from(*level)).pow(2)).sum::<i32>()
            };
            let colors = self.colors.iter().enumerate();
            let found = colors.min_by_key(|(_, color)| distance(color)).map_or(0, |(at, _)| at);
            u8::try_from(found).unwrap_or(u8::MAX)
        });
        if let Some(known) = self.nearest.get_mut(key) {
            *known = Some(index);
        }
        (index, self.colors.get(usize::from(index)).copied().unwrap_or_default())
    }
}

fn is_opaque([.., alpha]: &Pixel) -> bool {
    *alpha >= OPAQUE
}

fn key([red, green, blue, _]: Pixel) -> usize {
    let level = |level: u8| usize::from(level >> (8 - BITS));
    level(red) | level(green) << BITS | level(blue) << (2 * BITS)
}
