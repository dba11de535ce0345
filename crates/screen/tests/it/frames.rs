//! Property tests: for any frames, the terminal shows the end of the document and keeps every
//! committed row exactly once and in order.

use std::sync::Arc;

use parallax_screen::{
    Attributes, Color, ColorDepth, Frame, GraphicsCapabilities, GraphicsProtocol, Line,
    PaintOptions, Region, Span, Style, TerminalImage,
};
use proptest::prelude::*;

use crate::emulators::Emulators;

pub const LOOK: PaintOptions =
    PaintOptions { depth: ColorDepth::True, links: false, synchronized: true };

#[derive(Debug, Clone)]
struct Step {
    /// How many of the live rows become finished.
    finish: usize,
    /// Rows committed without having been live.
    commit: Vec<Line>,
    /// Edits of the live rows: position, number of removed rows, inserted rows.
    edits: Vec<(prop::sample::Index, usize, Vec<Line>)>,
    cursor: Option<(u16, prop::sample::Index)>,
}

fn style() -> impl Strategy<Value = Style> {
    let color = prop_oneof![
        3 => Just(None),
        1 => (0..16_u8).prop_map(|index| Some(Color::Ansi(index))),
        1 => any::<(u8, u8, u8)>().prop_map(|(r, g, b)| Some(Color::Rgb(r, g, b))),
    ];
    (color.clone(), color, 0..64_u8).prop_map(|(fg, bg, bits)| Style {
        fg,
        bg,
        attributes: Attributes(bits),
    })
}

fn line() -> impl Strategy<Value = Line> {
    let text = prop_oneof![
        4 => "[a-d ]{0,12}",
        2 => "[a-c]{18,50}",
        1 => "[漢字a]{0,12}",
        1 => Just(String::new()),
        1 => "[ab\u{1b}\u{9b}\r\n\u{202e}]{0,8}",
    ];
    let span = (text, prop_oneof![2 => Just(Style::PLAIN), 1 => style()])
        .prop_map(|(text, style)| Span::styled(text, style));
    (prop::collection::vec(span, 0..3), prop::option::weighted(0.1, style()))
        .prop_map(|(spans, fill_style)| Line { spans, fill_style, picture: None })
}

fn step() -> impl Strategy<Value = Step> {
    let edit = (any::<prop::sample::Index>(), 0..3_usize, prop::collection::vec(line(), 0..3));
    (
        prop_oneof![3 => Just(0), 1 => 0..4_usize],
        prop_oneof![
            6 => Just(Vec::new()),
            2 => prop::collection::vec(line(), 0..4),
            1 => prop::collection::vec(line(), 0..40),
        ],
        prop::collection::vec(edit, 0..4),
        prop::option::weighted(0.8, (0..30_u16, any::<prop::sample::Index>())),
    )
        .prop_map(|(finish, commit, edits, cursor)| Step { finish, commit, edits, cursor })
}

fn render_line(line: &Line, columns: usize) -> String {
    // A new terminal shows one row correctly without any other.
    let mut alone = Region::new(columns, 2, LOOK);
    let mut emulators = Emulators::new(columns, 2);
    emulators.feed(&alone.frame(&Frame {
        commit: &[],
        live: std::slice::from_ref(line),
        cursor: None,
    }));
    let [(_, seen), _] = emulators.visible_rows();
    seen.rows.into_iter().next().unwrap_or_default()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn terminal_shows_the_complete_document(
        columns in 20..40_usize,
        height in 5..14_usize,
        start in 0..6_usize,
        steps in prop::collection::vec(step(), 1..24),
    ) {
        let mut emulators = Emulators::new(columns, height);
        let mut region = Region::new(columns, height, LOOK);
        let mut document: Vec<String> = Vec::new();
        for index in 0..start {
            // Output of the shell.
            emulators.feed(format!("$ {index}\r\n").as_bytes());
            document.push(format!("$ {index}"));
        }
        let mut live: Vec<Line> = Vec::new();
        for step in steps {
            let mut commit: Vec<Line> = live.drain(..step.finish.min(live.len())).collect();
            commit.extend(step.commit);
            for (at, gone, new) in step.edits {
                let from = at.index(live.len() + 1);
                let to = (from + gone).min(live.len());
                live.splice(from..to, new);
            }
            live.truncate(height);
            let cursor = step.cursor.filter(|_| !live.is_empty()).map(|(column, row)| {
                (column, u16::try_from(row.index(live.len())).unwrap())
            });
            let frame = Frame { commit: &commit, live: &live, cursor };
            let bytes = region.frame(&frame);
            emulators.feed(&bytes);
            prop_assert!(region.frame(&Frame { commit: &[], ..frame }).is_empty(), "drawn twice");

            document.extend(commit.iter().map(|line| render_line(line, columns)));
            let mut rows = document.clone();
            rows.extend(live.iter().map(|line| render_line(line, columns)));
            while rows.last().is_some_and(String::is_empty) {
                rows.pop();
            }
            for (name, visible) in emulators.visible_rows() {
                prop_assert_eq!(&visible.rows, &rows, "{} after {:?}", name, String::from_utf8_lossy(&bytes));
                // A hidden cursor waits in the first live row; avt does not report it.
                let (column, row) = cursor.unwrap_or((0, 0));
                let column = usize::from(column).min(columns - 1);
                if cursor.is_some() || name == "vt100" {
                    prop_assert_eq!(
                        visible.cursor, (column, document.len() + usize::from(row)), "{}", name
                    );
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn terminal_that_reflows_keeps_every_row(
        steps in prop::collection::vec(
            (prop::option::of((24..60_usize, 12..20_usize)), prop::collection::vec(line(), 0..4),
             prop::collection::vec("[a-z ]{0,23}[a-z]", 1..3)),
            1..16,
        ),
    ) {
        let (mut columns, mut height) = (40, 16);
        let mut emulators = Emulators::new(columns, height);
        let mut region = Region::new(columns, height, LOOK);
        // A full window: this emulator scrolls even if there are empty rows below.
        let mut document: Vec<String> = (0..20).map(|row| format!("row{row}")).collect();
        let rows: Vec<Line> = document.iter().cloned().map(Line::raw).collect();
        emulators.feed(&region.frame(&Frame { commit: &rows, live: &[], cursor: None }));
        for (size, commit, live) in steps {
            let mut bytes = Vec::new();
            if let Some((new_columns, new_height)) = size {
                (columns, height) = (new_columns, new_height);
                emulators.resize(columns, height);
                bytes = region.resize(columns, height, true);
            }
            // Wide glyphs and fills leave spaces where rows are joined.
            let commit: Vec<Line> = commit
                .iter()
                .map(|line| Line::raw(line.text().replace(|char: char| !char.is_ascii_alphanumeric(), "")))
                .flat_map(|line| parallax_screen::wrap(&line, columns, &[]))
                .collect();
            let live: Vec<Line> =
                live.into_iter().chain(["-".repeat(columns)]).map(Line::raw).collect();
            let cursor = Some((0, u16::try_from(live.len() - 1).unwrap()));
            bytes.extend(region.frame(&Frame { commit: &commit, live: &live, cursor }));
            emulators.feed(&bytes);
            document.extend(commit.iter().map(Line::text));
            let mut rows = document.clone();
            rows.extend(live.iter().map(Line::text));
            prop_assert_eq!(emulators.joined(), rows);
        }
    }
}

/// Returns unique rows.
fn numbered(name: &str, from: usize, count: usize) -> Vec<String> {
    (from..from + count).map(|number| format!("{name}{number}")).collect()
}

fn lines(rows: &[String]) -> Vec<Line> {
    rows.iter().cloned().map(Line::raw).collect()
}

/// Returns an image with this number of rows.
fn picture(rows: usize, graphics: GraphicsProtocol) -> Arc<TerminalImage> {
    let mut png = Vec::new();
    let height = u32::try_from(rows).unwrap() * 20;
    let mut writer = png::Encoder::new(&mut png, 15, height).write_header().unwrap();
    writer.write_image_data(&vec![99; rows * 20 * 15]).unwrap();
    writer.finish().unwrap();
    let drawing = GraphicsCapabilities { graphics, cell: (10, 20), colors: 256 };
    Arc::new(TerminalImage::new(&png, &drawing, (9, rows)).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn images_occupy_their_own_rows(
        height in 5..14_usize,
        graphics in prop::sample::select(
            &[GraphicsProtocol::Kitty, GraphicsProtocol::Iterm, GraphicsProtocol::Sixel][..]),
        steps in prop::collection::vec(
            (0..4_usize, prop::option::of(1..9_usize), 0..30_usize, 1..5_usize), 1..10),
    ) {
        let mut emulators = Emulators::new(40, height);
        let mut region = Region::new(40, height, LOOK);
        let mut document = Vec::new();
        for (step, (before, rows, after, live)) in steps.into_iter().enumerate() {
            let mut commit = lines(&numbered(&format!("{step}before"), 0, before));
            let first = document.len() + commit.len();
            if let Some(rows) = rows {
                let picture = picture(rows, graphics);
                prop_assert_eq!(picture.size(), (2, rows));
                commit.extend(picture.lines(3));
            }
            commit.extend(lines(&numbered(&format!("{step}after"), 0, after)));
            let live = lines(&numbered(&format!("{step}live"), 0, live));
            let cursor = Some((0, u16::try_from(live.len() - 1).unwrap()));
            let bytes = region.frame(&Frame { commit: &commit, live: &live, cursor });
            // The cursor position when an image begins.
            let text = std::str::from_utf8(&bytes).unwrap();
            let mut pieces = text.split("\x1b7");
            emulators.feed(pieces.next().unwrap().as_bytes());
            let mut drawn = 0;
            for piece in pieces {
                for (name, visible) in emulators.visible_rows() {
                    prop_assert_eq!(visible.cursor, (3, first), "{}", name);
                }
                drawn += 1;
                prop_assert!(piece.contains("\x1b8"));
                emulators.feed(format!("\x1b7{piece}").as_bytes());
            }
            prop_assert_eq!(drawn, usize::from(rows.is_some_and(|rows| rows < height)));
            document.extend(commit.iter().map(|line| line.text().trim().to_owned()));
            let all: Vec<String> = document.iter().cloned().chain(live.iter().map(Line::text)).collect();
            for (name, visible) in emulators.visible_rows() {
                prop_assert_eq!(&visible.rows, &all, "{}", name);
                prop_assert_eq!(visible.cursor, (0, all.len() - 1), "{}", name);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn live_rows_pushed_out_by_a_small_window_are_removed_on_growth(
        steps in prop::collection::vec((2..40_usize, 1..50_usize), 1..12),
    ) {
        const HIGHEST: usize = 60;
        let mut emulators = Emulators::new(40, HIGHEST);
        let mut region = Region::new(40, HIGHEST, LOOK);
        let document = numbered("row", 0, 80);
        emulators.feed(&region.frame(&Frame { commit: &lines(&document), live: &[], cursor: None }));
        let mut made = 0;
        for (height, count) in steps.into_iter().chain([(HIGHEST, 3)]) {
            emulators.resize(40, height);
            let mut bytes = region.resize(40, height, true);
            let live = numbered("live", made, count.min(height));
            made += live.len();
            let cursor = Some((0, u16::try_from(live.len() - 1).unwrap()));
            bytes.extend(region.frame(&Frame { commit: &[], live: &lines(&live), cursor }));
            emulators.feed(&bytes);
            if height == HIGHEST {
                let rows: Vec<String> = document.iter().chain(&live).cloned().collect();
                prop_assert_eq!(emulators.joined(), rows);
            }
        }
    }

    #[test]
    fn finished_rows_appear_once_after_height_changes(
        steps in prop::collection::vec(
            (2..40_usize, 1..50_usize, 0..6_usize, any::<prop::sample::Index>()), 1..12),
    ) {
        let mut emulators = Emulators::new(40, 40);
        let mut region = Region::new(40, 40, LOOK);
        let mut document = numbered("row", 0, 60);
        emulators.feed(&region.frame(&Frame { commit: &lines(&document), live: &[], cursor: None }));
        let mut made = 0;
        for (height, count, finished, cursor) in steps {
            emulators.resize(40, height);
            let mut bytes = region.resize(40, height, true);
            let commit = numbered("row", document.len(), finished);
            let live = numbered("live", made, count.min(height));
            made += live.len();
            let cursor = Some((0, u16::try_from(cursor.index(live.len())).unwrap()));
            bytes.extend(region.frame(&Frame { commit: &lines(&commit), live: &lines(&live), cursor }));
            emulators.feed(&bytes);
            document.extend(commit);
            let mut seen = emulators.joined();
            seen.retain(|row| row.starts_with("row"));
            prop_assert_eq!(&seen, &document);
        }
    }
}
