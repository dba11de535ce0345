//! Images in the transcript: a caption row and, once, the image below it if the terminal
//! supports images.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parallax_protocol::image::Image;
use parallax_screen::{GraphicsCapabilities, ImageHeader, Line, TerminalImage};

use super::describe;
use super::draw::ItemRenderer;
use crate::layout::bytes;
use crate::sanitize;

/// Indentation of an image, which aligns it with the text.
const INDENT: usize = 2;
/// The maximum number of rows of an image, and the divisor for its share of the window.
const MAX_ROWS: usize = 16;
const SHARE_OF_WINDOW: usize = 3;

/// An image.
#[derive(Debug)]
pub(super) struct TranscriptImage {
    image: Arc<Image>,
    state: ImageState,
    head: Option<ImageHeader>,
    /// Why it cannot be drawn.
    problem: Option<String>,
}

#[derive(Debug)]
enum ImageState {
    /// Not decoded yet.
    Waiting,
    /// Being decoded on a thread.
    Preparing,
    /// Ready to be drawn with its rows.
    Ready(Arc<TerminalImage>),
    /// Already drawn, or not to be drawn.
    Settled,
}

/// The result of decoding an image.
#[derive(Debug)]
pub(crate) struct DecodedImage {
    head: Option<ImageHeader>,
    picture: Option<Arc<TerminalImage>>,
    problem: Option<String>,
}

impl DecodedImage {
    /// Decodes an image and encodes it if the terminal can draw it. Slow.
    pub(crate) fn new(
        image: &Image,
        drawing: Option<&GraphicsCapabilities>,
        window: (u16, u16),
    ) -> Self {
        let nothing = |problem: String| Self { head: None, picture: None, problem: Some(problem) };
        let Ok(bytes) = STANDARD.decode(image.data.trim_ascii()) else {
            return nothing("damaged: invalid base64".to_owned());
        };
        let head = match TerminalImage::head(&bytes) {
            Ok(head) => head,
            Err(problem) => return nothing(problem.to_string()),
        };
        let columns = usize::from(window.0).saturating_sub(2 * INDENT + 1).max(1);
        let rows = (usize::from(window.1) / SHARE_OF_WINDOW).clamp(1, MAX_ROWS);
        let drawn = drawing.map(|drawing| TerminalImage::new(&bytes, drawing, (columns, rows)));
        let (picture, problem) = match drawn {
            Some(Ok(picture)) => (Some(Arc::new(picture)), None),
            Some(Err(problem)) => (None, Some(problem.to_string())),
            None => (None, None),
        };
        Self { head: Some(head), picture, problem }
    }
}

impl TranscriptImage {
    pub(super) fn new(image: Image) -> Self {
        Self { image: Arc::new(image), state: ImageState::Waiting, head: None, problem: None }
    }

    /// Whether its rows are not known yet.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, ImageState::Waiting | ImageState::Preparing)
    }

    /// Whether it is being decoded.
    pub(super) fn is_preparing(&self) -> bool {
        matches!(self.state, ImageState::Preparing)
    }

    /// Whether it must be decoded.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state, ImageState::Waiting)
    }

    /// Begins to decode it. Returns its bytes.
    pub(super) fn prepare(&mut self) -> Arc<Image> {
        self.state = ImageState::Preparing;
        Arc::clone(&self.image)
    }

    /// Takes the result of decoding. Returns whether it was awaited: the session may have changed
    /// or ended in the meantime.
    pub(super) fn accept_decoded(&mut self, image: &Arc<Image>, came: DecodedImage) -> bool {
        if !Arc::ptr_eq(&self.image, image) || !self.is_preparing() {
            return false;
        }
        (self.head, self.problem) = (came.head, came.problem);
        self.state = came.picture.map_or(ImageState::Settled, ImageState::Ready);
        true
    }

    /// Skips drawing it.
    pub(super) fn skip(&mut self) {
        self.state = ImageState::Settled;
    }

    /// Returns the caption row.
    pub(super) fn caption(&self, renderer: &ItemRenderer<'_>) -> Vec<Line> {
        let mut text = String::new();
        if let Some(name) = &self.image.name {
            text.push_str(&sanitize::one_row(&describe::title_in_words(name)));
            text.push_str(" · ");
        }
        match self.head {
            Some(ImageHeader { kind, width, height }) => {
                text.push_str(&format!("{}, {width}×{height}", kind.name()));
            }
            None => text.push_str(&sanitize::one_row(&self.image.mime_type)),
        }
        text.push_str(&format!(", {}", bytes(self.length())));
        if let Some(problem) = &self.problem {
            text.push_str(&format!(" · not shown: {}", sanitize::one_row(problem)));
        }
        let style = renderer.theme.secondary;
        renderer.hanging_rows(
            renderer.marker(crate::tokens::ATTACHED, "Picture:"),
            renderer.theme.symbol,
            &text,
            style,
        )
    }

    /// Returns all rows, including the image the first time.
    pub(super) fn take(&mut self, renderer: &ItemRenderer<'_>) -> Vec<Line> {
        let mut rows = self.caption(renderer);
        if let ImageState::Ready(picture) = std::mem::replace(&mut self.state, ImageState::Settled)
        {
            rows.extend(picture.lines(INDENT));
        }
        rows
    }

    /// Returns the size in bytes, computed from its base64.
    fn length(&self) -> usize {
        let data = self.image.data.trim_ascii_end();
        let padding = data.bytes().rev().take_while(|byte| *byte == b'=').count();
        (data.len() / 4 * 3).saturating_sub(padding.min(2))
    }
}
