//! Pixels in memory and scaling.

/// Red, green, blue, and opacity.
pub(super) type Pixel = [u8; 4];

/// A decoded image with 1 to 4 channels.
#[derive(Debug)]
pub(super) struct Pixels {
    width: usize,
    height: usize,
    data: Vec<u8>,
    channels: usize,
}

impl Pixels {
    /// Returns `None` if `data` is too short for the size.
    pub fn new((width, height): (usize, usize), data: Vec<u8>, channels: usize) -> Option<Self> {
        let length = width.checked_mul(height)?.checked_mul(channels)?;
        let is_whole = (1..=4).contains(&channels) && length > 0 && data.len() >= length;
        is_whole.then_some(Self { width, height, data, channels })
    }

    pub fn size(&self) -> (usize, usize) {
        (self.width, self.height)
    }

    pub fn at(&self, x: usize, y: usize) -> Pixel {
        let from = (y * self.width + x) * self.channels;
        match self.data.get(from..from + self.channels) {
            Some(&[gray]) => [gray, gray, gray, 255],
            Some(&[gray, alpha]) => [gray, gray, gray, alpha],
            Some(&[red, green, blue]) => [red, green, blue, 255],
            Some(&[red, green, blue, alpha]) => [red, green, blue, alpha],
            _ => [0; 4],
        }
    }

    /// Scales down to this size: each pixel is the mean of the pixels that it replaces.
    pub fn scale_down(&self, (width, height): (usize, usize)) -> Self {
        let mut data = Vec::with_capacity(width * height * 4);
        for y in 0..height {
            let rows = share(y, height, self.height);
            for x in 0..width {
                let columns = share(x, width, self.width);
                data.extend_from_slice(&self.mean_color(columns, rows.clone()));
            }
        }
        Self { width, height, data, channels: 4 }
    }

    /// Returns the mean color of an area, weighted by opacity.
    fn mean_color(&self, columns: std::ops::Range<usize>, rows: std::ops::Range<usize>) -> Pixel {
        let count = (columns.len() * rows.len()).max(1) as u64;
        let (mut sums, mut opacity) = ([0_u64; 3], 0_u64);
        for y in rows {
            for x in columns.clone() {
                let [red, green, blue, alpha] = self.at(x, y);
                let alpha = u64::from(alpha);
                for (sum, level) in sums.iter_mut().zip([red, green, blue]) {
                    *sum += u64::from(level) * alpha;
                }
                opacity += alpha;
            }
        }
        if opacity == 0 {
            return [0; 4];
        }
        let level = |sum: u64| u8::try_from((sum + opacity / 2) / opacity).unwrap_or(255);
        let alpha = u8::try_from((opacity + count / 2) / count).unwrap_or(255);
        let [red, green, blue] = sums.map(level);
        [red, green, blue, alpha]
    }

    /// Places the image at the upper left of a canvas that is not smaller; the rest is
    /// transparent.
    pub fn on_larger_canvas(&self, (width, height): (usize, usize)) -> Self {
        let mut data = Vec::with_capacity(width * height * 4);
        for y in 0..height {
            for x in 0..width {
                let is_inside = x < self.width && y < self.height;
                data.extend_from_slice(&if is_inside { self.at(x, y) } else { [0; 4] });
            }
        }
        Self { width, height, data, channels: 4 }
    }

    /// Returns all pixels, row by row.
    pub fn iter(&self) -> impl Iterator<Item = Pixel> + '_ {
        (0..self.height).flat_map(move |y| (0..self.width).map(move |x| self.at(x, y)))
    }
}

/// Returns the range of `all` that position `at` of `of` covers; never empty.
fn share(at: usize, of: usize, all: usize) -> std::ops::Range<usize> {
    let from = (at * all / of.max(1)).min(all.saturating_sub(1));
    let to = ((at + 1) * all / of.max(1)).clamp(from + 1, all.max(from + 1));
    from..to
}
