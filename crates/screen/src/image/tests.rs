//! Tests that decode what was sent, and malformed files.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

use super::pixels::Pixel;
use super::*;

const CELL: (u16, u16) = (10, 20);

fn drawing(graphics: GraphicsProtocol) -> GraphicsCapabilities {
    GraphicsCapabilities { graphics, cell: CELL, colors: 256 }
}

/// Returns a PNG of these pixels.
fn file(width: usize, height: usize, pixel: impl Fn(usize, usize) -> Pixel) -> Vec<u8> {
    let at = |index: usize| pixel(index % width, index / width);
    let data = (0..width * height).flat_map(at).collect();
    send::png(&Pixels::new((width, height), data, 4).unwrap()).unwrap()
}

/// Red above, blue below, a transparent column at the right.
fn flag(width: usize, height: usize) -> Vec<u8> {
    file(width, height, |x, y| match (x + 1 == width, y * 2 < height) {
        (true, _) => [0; 4],
        (_, true) => [255, 0, 0, 255],
        (_, false) => [0, 0, 255, 255],
    })
}

/// Returns the file in a kitty sequence and the cells it is for.
fn from_kitty(bytes: &[u8]) -> (usize, usize, Vec<u8>) {
    let text = std::str::from_utf8(bytes).unwrap();
    let (mut data, mut size, mut more) = (String::new(), None, true);
    for piece in text.split_terminator("\x1b\\") {
        assert!(more, "a piece after the last one");
        let (control, payload) = piece.strip_prefix("\x1b_G").unwrap().split_once(';').unwrap();
        assert!(payload.len() <= 4_096, "{}", payload.len());
        let value =
            |name: &str| control.split(',').find_map(|it| it.strip_prefix(name)?.strip_prefix('='));
        assert_eq!(value("q"), Some("2"), "{control}");
        more = value("m") == Some("1");
        let number = |name| value(name).and_then(|number| number.parse::<usize>().ok());
        size = size.or(number("c").zip(number("r")));
        data.push_str(payload);
    }
    assert!(!more && !data.contains('\x1b'));
    let (columns, rows) = size.unwrap();
    (columns, rows, STANDARD.decode(data).unwrap())
}

/// Decodes sixels as a terminal does: pixels or nothing, with colors in percent.
fn from_sixels(bytes: &[u8]) -> (usize, usize, Vec<Option<[u32; 3]>>) {
    let text = std::str::from_utf8(bytes).unwrap();
    let text = text.strip_prefix("\x1bP0;1;0q\"1;1;").unwrap().strip_suffix("\x1b\\").unwrap();
    assert!(!text.contains('\x1b'));
    let mut rest = text;
    let mut number = |skip: &[char]| {
        rest = rest.trim_start_matches(skip);
        let end = rest.find(|char: char| !char.is_ascii_digit()).unwrap_or(rest.len());
        let value = rest[..end].parse::<usize>().unwrap();
        rest = &rest[end..];
        (value, rest)
    };
    let (width, _) = number(&[]);
    let (height, mut rest) = number(&[';']);
    let mut drawn = vec![None; width * height];
    let mut colors = std::collections::HashMap::new();
    let (mut x, mut top, mut color, mut count) = (0, 0, 0, 1);
    while let Some(char) = rest.chars().next() {
        rest = &rest[1..];
        let end = rest.find(|it: char| !it.is_ascii_digit() && it != ';').unwrap_or(rest.len());
        match char {
            '#' => {
                let numbers: Vec<u32> =
                    rest[..end].split(';').map(|it| it.parse().unwrap()).collect();
                rest = &rest[end..];
                color = numbers[0];
                if let [_, 2, red, green, blue] = numbers[..] {
                    colors.insert(color, [red, green, blue]);
                }
            }
            '!' => {
                count = rest[..end].parse().unwrap();
                rest = &rest[end..];
            }
            '$' => x = 0,
            '-' => (x, top) = (0, top + 6),
            '?'..='~' => {
                let bits = u32::from(char) - 63;
                for index in x..x + count {
                    for bit in (0..6).filter(|bit| bits >> bit & 1 == 1) {
                        assert!(
                            index < width && top + bit < height,
                            "outside: {index}, {}",
                            top + bit
                        );
                        drawn[(top + bit) * width + index] = Some(colors[&color]);
                    }
                }
                x += std::mem::replace(&mut count, 1);
            }
            other => panic!("{other:?}"),
        }
    }
    (width, height, drawn)
}

#[test]
fn kitty_image_covers_complete_cells() {
    let picture =
        TerminalImage::new(&flag(25, 30), &drawing(GraphicsProtocol::Kitty), (80, 16)).unwrap();
    assert_eq!(picture.size(), (3, 2));
    let (columns, rows, png) = from_kitty(picture.bytes());
    let pixels = read::decode(&png).unwrap();
    assert_eq!((columns, rows, pixels.size()), (3, 2, (30, 40)));
    assert_eq!(pixels.at(0, 0), [255, 0, 0, 255]);
    assert_eq!(pixels.at(23, 29), [0, 0, 255, 255]);
    for (x, y) in [(24, 0), (29, 0), (0, 30), (29, 39)] {
        assert_eq!(pixels.at(x, y)[3], 0, "{x}, {y}");
    }
}

#[test]
fn iterm_image_is_one_sequence() {
    let picture =
        TerminalImage::new(&flag(25, 30), &drawing(GraphicsProtocol::Iterm), (80, 16)).unwrap();
    let text = std::str::from_utf8(picture.bytes()).unwrap();
    let (head, data) = text.strip_suffix('\x07').unwrap().split_once(':').unwrap();
    let png = STANDARD.decode(data).unwrap();
    let size = format!("size={};width=3;height=2;", png.len());
    assert!(head.starts_with("\x1b]1337;File=inline=1;") && head.contains(&size), "{head}");
    assert_eq!(read::decode(&png).unwrap().size(), (30, 40));
}

#[test]
fn sixels_reproduce_the_pixels() {
    let picture =
        TerminalImage::new(&flag(25, 30), &drawing(GraphicsProtocol::Sixel), (80, 16)).unwrap();
    assert_eq!(picture.size(), (3, 2));
    let (width, height, drawn) = from_sixels(picture.bytes());
    assert_eq!((width, height), (25, 30));
    for (index, pixel) in drawn.into_iter().enumerate() {
        let expected = match (index % 25 == 24, index < 25 * 15) {
            (true, _) => None,
            (_, true) => Some([100, 0, 0]),
            (_, false) => Some([0, 0, 100]),
        };
        assert_eq!(pixel, expected, "{index}");
    }
}

#[test]
fn large_image_is_scaled_with_its_aspect_ratio() {
    let file = file(1_200, 300, |x, y| [(x / 5) as u8, (y % 256) as u8, 99, 255]);
    for graphics in [GraphicsProtocol::Kitty, GraphicsProtocol::Iterm, GraphicsProtocol::Sixel] {
        let picture = TerminalImage::new(&file, &drawing(graphics), (60, 16)).unwrap();
        assert_eq!(picture.size(), (60, 8), "{graphics:?}");
        assert!(picture.bytes().len() < MAX_SENT);
    }
}

#[test]
fn incompressible_image_is_still_bounded() {
    let mut state = 1_u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let data: Vec<u8> = (0..620 * 620 * 3).map(|_| noise()).collect();
    let file = send::png(&Pixels::new((620, 620), data, 3).unwrap()).unwrap();
    for graphics in [GraphicsProtocol::Kitty, GraphicsProtocol::Sixel] {
        let picture = TerminalImage::new(&file, &drawing(graphics), (200, 60)).unwrap();
        assert!(picture.bytes().len() <= MAX_SENT, "{graphics:?}: {picture:?}");
        assert!(picture.size().1 >= 10, "{graphics:?}: {picture:?}");
    }
}

#[test]
fn image_is_reduced_to_few_colors_for_old_terminals() {
    let file = file(64, 64, |x, y| [(x * 4) as u8, (y * 4) as u8, 128, 255]);
    let few = GraphicsCapabilities { colors: 16, ..drawing(GraphicsProtocol::Sixel) };
    let picture = TerminalImage::new(&file, &few, (80, 16)).unwrap();
    let (.., drawn) = from_sixels(picture.bytes());
    assert!(drawn.iter().all(Option::is_some));
    let colors: std::collections::BTreeSet<_> = drawn.into_iter().flatten().collect();
    assert!((8..=16).contains(&colors.len()), "{}", colors.len());
}

/// Returns a GIF of two frames; the first has a transparent border.
fn gif() -> Vec<u8> {
    let mut out = Vec::new();
    let palette = [255, 0, 0, 0, 0, 255];
    let mut encoder = gif::Encoder::new(&mut out, 4, 4, &palette).unwrap();
    for color in [0_u8, 1] {
        let mut frame = gif::Frame::from_indexed_pixels(2, 2, vec![color; 4], None);
        (frame.left, frame.top) = (1, 1);
        encoder.write_frame(&frame).unwrap();
    }
    drop(encoder);
    out
}

#[test]
fn first_frame_of_an_animation_is_shown() {
    let pixels = read::decode(&gif()).unwrap();
    assert_eq!(pixels.size(), (4, 4));
    assert_eq!((pixels.at(0, 0)[3], pixels.at(1, 1)), (0, [255, 0, 0, 255]));
    assert_eq!((pixels.at(2, 2), pixels.at(3, 3)[3]), ([255, 0, 0, 255], 0));
}

#[test]
fn hostile_image_files_are_rejected_early() {
    let good = flag(8, 8);
    let with_size = |width: u32, height: u32| {
        let mut file = good.clone();
        file[16..20].copy_from_slice(&width.to_be_bytes());
        file[20..24].copy_from_slice(&height.to_be_bytes());
        file
    };
    let new = |bytes: &[u8]| TerminalImage::new(bytes, &drawing(GraphicsProtocol::Kitty), (80, 16));
    assert_eq!(new(b""), Err(ImageError::Unknown));
    assert_eq!(new(b"<svg/>"), Err(ImageError::Unknown));
    assert_eq!(new(&with_size(60_000, 60_000)), Err(ImageError::TooLarge(60_000, 60_000)));
    assert_eq!(new(&with_size(0, 8)), Err(ImageError::Empty));
    assert_eq!(new(b"GIF89a\0\0\x04\0\0\0\0"), Err(ImageError::Empty));
    let mut long = good.clone();
    long.resize(MAX_BYTES + 1, 0);
    assert_eq!(new(&long), Err(ImageError::TooLong));
    for end in 0..good.len() - 1 {
        // The last chunk only marks the end.
        assert!(new(&good[..end]).is_err() || end + 12 >= good.len(), "{end} of {}", good.len());
    }
    // The decoder checks the size again.
    assert!(matches!(new(&with_size(8, 9)), Err(ImageError::Damaged(_))));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn sent_image_stays_on_its_rows(
        (width, height) in (1..120_usize, 1..120_usize),
        room in (1..20_usize, 1..8_usize),
        colors in 2..=256_usize,
        cell in (1..24_u16, 1..40_u16),
        seed in any::<u32>(),
    ) {
        let file = file(width, height, |x, y| {
            let mixed = (seed ^ (x * 31 + y * 17) as u32).wrapping_mul(2_654_435_761);
            mixed.to_le_bytes()
        });
        for graphics in [GraphicsProtocol::Kitty, GraphicsProtocol::Sixel] {
            let drawing = GraphicsCapabilities { graphics, cell, colors };
            let picture = TerminalImage::new(&file, &drawing, room).unwrap();
            let (columns, rows) = picture.size();
            prop_assert!((1..=room.0).contains(&columns) && (1..=room.1).contains(&rows));
            prop_assert!(picture.bytes().len() <= MAX_SENT);
            let cell = (usize::from(cell.0), usize::from(cell.1));
            if graphics == GraphicsProtocol::Kitty {
                let (c, r, png) = from_kitty(picture.bytes());
                prop_assert_eq!((c, r), (columns, rows));
                let size = read::decode(&png).unwrap().size();
                prop_assert_eq!(size, (columns * cell.0, rows * cell.1));
            } else {
                let (width, height, _) = from_sixels(picture.bytes());
                prop_assert_eq!(width.div_ceil(cell.0), columns);
                prop_assert_eq!(height.div_ceil(cell.1), rows);
            }
        }
    }

    #[test]
    fn decoding_arbitrary_image_bytes_does_not_panic(
        at in any::<prop::sample::Index>(),
        value in any::<u8>(),
        kind in 0..2_usize,
        tail in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let mut bytes = if kind == 0 { flag(9, 7) } else { gif() };
        let at = at.index(bytes.len());
        bytes[at] = value;
        let _ = TerminalImage::new(&bytes, &drawing(GraphicsProtocol::Kitty), (8, 4));
        for magic in [&b"\xff\xd8\xff\xe0"[..], b"RIFF\x40\0\0\0WEBPVP8 "] {
            let bytes = [magic, &tail].concat();
            let _ = TerminalImage::new(&bytes, &drawing(GraphicsProtocol::Kitty), (8, 4));
        }
    }
}
