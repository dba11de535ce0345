//! The few colours that stand for all of a picture: boxes around colours are cut in
//! two, the one with the most pixels first, at the middle of its longest side.

use super::pixels::{Pixel, Pixels};

/// Colours are told apart by five bits of each part.
const BITS: u32 = 5;
const COLORS: usize = 1 << (3 * BITS);
/// What is less opaque is not drawn.
const OPAQUE: u8 = 128;

/// The colours, and which one stands for which.
pub(super) struct Palette {
    pub colors: Vec<[u8; 3]>,
    by_key: Vec<u8>,
}

/// Colours of the picture that are near each other.
struct Group {
    /// The key of each, how many pixels have it, and the sum of their parts.
    members: Vec<(usize, u64, [u64; 3])>,
}

impl Group {
    fn pixels(&self) -> u64 {
        self.members.iter().map(|(_, count, _)| count).sum()
    }

    fn mean(&self) -> [u8; 3] {
        let count = self.pixels().max(1);
        [0, 1, 2].map(|part| {
            let sum: u64 = self.members.iter().map(|(_, _, sums)| sums[part]).sum();
            u8::try_from(sum / count).unwrap_or(255)
        })
    }

    /// The half above the middle of the longest side.
    fn halved(&mut self) -> Option<Self> {
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
        let mut below = 0;
        let middle = self.members.iter().position(|(_, count, _)| {
            below += count;
            below > half
        });
        let cut = middle.unwrap_or(0).clamp(1, self.members.len() - 1);
        Some(Self { members: self.members.split_off(cut) })
    }
}

impl Palette {
    pub fn of(pixels: &Pixels, most: usize) -> Self {
        let mut found = vec![(0_u64, [0_u64; 3]); COLORS];
        for pixel in pixels.iter().filter(is_drawn) {
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
        while groups.len() < most.min(256) {
            let divisible = groups.iter_mut().filter(|group| group.members.len() > 1);
            let half = divisible.max_by_key(|group| group.pixels()).and_then(Group::halved);
            let Some(half) = half else { break };
            groups.push(half);
        }
        let mut by_key = vec![0; COLORS];
        for (index, group) in groups.iter().enumerate() {
            for (key, ..) in &group.members {
                if let Some(entry) = by_key.get_mut(*key) {
                    *entry = u8::try_from(index).unwrap_or(u8::MAX);
                }
            }
        }
        Self { colors: groups.iter().map(Group::mean).collect(), by_key }
    }

    /// Which colour is drawn for a pixel, if any.
    pub fn index(&self, pixel: Pixel) -> Option<u8> {
        is_drawn(&pixel).then(|| self.by_key.get(key(pixel)).copied()).flatten()
    }
}

fn is_drawn([.., alpha]: &Pixel) -> bool {
    *alpha >= OPAQUE
}

fn key([red, green, blue, _]: Pixel) -> usize {
    let level = |level: u8| usize::from(level >> (8 - BITS));
    level(red) | level(green) << BITS | level(blue) << (2 * BITS)
}
