//! A picture between the items: a row that says what it is, and under it, once, the
//! picture itself where the terminal draws any.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parallax_protocol::image::Image;
use parallax_screen::{Drawing, Line, Picture, PictureHead};

use super::Transcript;
use super::draw::Draw;
use super::item::{Item, LocalId};
use crate::clean;
use crate::layout::bytes;

/// Blank columns before a picture: it stands under the text.
const INDENT: usize = 2;
/// The most rows of a picture, and the part of the window that it may take.
const MOST_ROWS: usize = 16;
const SHARE_OF_WINDOW: usize = 3;
/// Of the pictures of earlier runs so many are drawn, the last ones.
const DRAWN_AGAIN: usize = 4;

/// A picture.
#[derive(Debug)]
pub(super) struct Shown {
    image: Arc<Image>,
    state: State,
    head: Option<PictureHead>,
    /// Why it cannot be drawn.
    problem: Option<String>,
}

#[derive(Debug)]
enum State {
    /// Not yet decoded.
    Waiting,
    /// Being decoded on its own thread.
    Preparing,
    /// To be drawn with its rows.
    Ready(Arc<Picture>),
    /// There is nothing more to draw.
    Told,
}

/// The result of decoding a picture.
#[derive(Debug)]
pub(crate) struct Prepared {
    head: Option<PictureHead>,
    picture: Option<Arc<Picture>>,
    problem: Option<String>,
}

impl Prepared {
    /// Looks at a picture, and makes it ready where there is something to draw it with.
    /// Takes its time.
    pub(crate) fn new(image: &Image, drawing: Option<&Drawing>, window: (u16, u16)) -> Self {
        let nothing = |problem: String| Self { head: None, picture: None, problem: Some(problem) };
        let Ok(bytes) = STANDARD.decode(image.data.trim_ascii()) else {
            return nothing("damaged: invalid base64".to_owned());
        };
        let head = match Picture::head(&bytes) {
            Ok(head) => head,
            Err(problem) => return nothing(problem.to_string()),
        };
        let columns = usize::from(window.0).saturating_sub(2 * INDENT + 1).max(1);
        let rows = (usize::from(window.1) / SHARE_OF_WINDOW).clamp(1, MOST_ROWS);
        let drawn = drawing.map(|drawing| Picture::new(&bytes, drawing, (columns, rows)));
        let (picture, problem) = match drawn {
            Some(Ok(picture)) => (Some(Arc::new(picture)), None),
            Some(Err(problem)) => (None, Some(problem.to_string())),
            None => (None, None),
        };
        Self { head: Some(head), picture, problem }
    }
}

impl Shown {
    pub(super) fn new(image: Image) -> Self {
        Self { image: Arc::new(image), state: State::Waiting, head: None, problem: None }
    }

    /// Whether its rows are not known yet.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Waiting | State::Preparing)
    }

    /// The row that says what it is.
    pub(super) fn caption(&self, draw: &Draw<'_>) -> Vec<Line> {
        let mut text = String::new();
        if let Some(name) = &self.image.name {
            text.push_str(&clean::one_row(name));
            text.push_str(" · ");
        }
        match self.head {
            Some(PictureHead { kind, width, height }) => {
                text.push_str(&format!("{}, {width}×{height}", kind.name()));
            }
            None => text.push_str(&clean::one_row(&self.image.mime_type)),
        }
        text.push_str(&format!(", {}", bytes(self.length())));
        if let Some(problem) = &self.problem {
            text.push_str(&format!(" · not shown: {}", clean::one_row(problem)));
        }
        let style = draw.theme.secondary;
        draw.hanging(draw.sign("↳", "Picture:"), draw.theme.symbol, &text, style)
    }

    /// All its rows, once.
    pub(super) fn take(&mut self, draw: &Draw<'_>) -> Vec<Line> {
        let mut rows = self.caption(draw);
        if let State::Ready(picture) = std::mem::replace(&mut self.state, State::Told) {
            rows.extend(picture.lines(INDENT));
        }
        rows
    }

    /// How many bytes it has, by its base64.
    fn length(&self) -> usize {
        let data = self.image.data.trim_ascii_end();
        let padding = data.bytes().rev().take_while(|byte| *byte == b'=').count();
        (data.len() / 4 * 3).saturating_sub(padding.min(2))
    }
}

impl Transcript {
    /// A picture to decode, if none is being decoded; pictures that will not be drawn are
    /// skipped.
    pub(crate) fn unseen_picture(&mut self) -> Option<(LocalId, Arc<Image>)> {
        let released = self.released;
        let mut waiting = None;
        for (at, item) in self.items.iter_mut().enumerate().skip(released) {
            let Item::Picture(shown) = item else { continue };
            match shown.state {
                State::Preparing => return None,
                State::Waiting if waiting.is_none() => waiting = Some((at, shown)),
                _ => {}
            }
        }
        let (at, shown) = waiting?;
        shown.state = State::Preparing;
        Some((LocalId(at), Arc::clone(&shown.image)))
    }

    /// The result of decoding.
    pub(crate) fn picture_seen(&mut self, id: LocalId, image: &Arc<Image>, came: Prepared) {
        let Some(Item::Picture(shown)) = self.items.get_mut(id.0) else { return };
        // The session may be another one by now, or at its end.
        if !Arc::ptr_eq(&shown.image, image) || !matches!(shown.state, State::Preparing) {
            return;
        }
        (shown.head, shown.problem) = (came.head, came.problem);
        shown.state = came.picture.map_or(State::Told, State::Ready);
        self.memory.forget(id.0);
    }

    /// Of what was there before only the last ones are drawn again.
    pub(super) fn settle_old_pictures(&mut self, from: usize) {
        let pictures = self.items.iter_mut().skip(from).rev().filter_map(|item| match item {
            Item::Picture(shown) => Some(shown),
            _ => None,
        });
        pictures.skip(DRAWN_AGAIN).for_each(|shown| shown.state = State::Told);
    }

    /// Pictures are no longer awaited.
    pub(crate) fn settle_pictures(&mut self) {
        for item in &mut self.items {
            if let Item::Picture(shown) = item
                && shown.is_open()
            {
                shown.state = State::Told;
            }
        }
    }
}
