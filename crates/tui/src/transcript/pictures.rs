//! Decoding the images of the transcript, one at a time.

use std::sync::Arc;

use parallax_protocol::image::Image;

use super::Transcript;
use super::image::DecodedImage;
use super::item::{Item, LocalId};

/// Number of images of earlier runs that are drawn, counted from the end.
const DRAWN_AGAIN: usize = 4;

impl Transcript {
    /// Returns an image to decode if none is being decoded; images that will not be drawn are
    /// skipped.
    pub(crate) fn next_image(&mut self) -> Option<(LocalId, Arc<Image>)> {
        let released = self.committed_items;
        let mut waiting = None;
        for (index, item) in self.items.iter_mut().enumerate().skip(released) {
            let Item::Picture(shown) = item else { continue };
            if shown.is_preparing() {
                return None;
            }
            if shown.is_waiting() && waiting.is_none() {
                waiting = Some((index, shown));
            }
        }
        let (at, shown) = waiting?;
        Some((LocalId(at), shown.prepare()))
    }

    /// Handles the result of decoding.
    pub(crate) fn record_decoded(&mut self, id: LocalId, image: &Arc<Image>, came: DecodedImage) {
        let Some(Item::Picture(shown)) = self.items.get_mut(id.0) else { return };
        if shown.accept_decoded(image, came) {
            self.row_cache.remove(id.0);
        }
    }

    /// Skips drawing all but the last images of earlier runs.
    pub(super) fn skip_old_images(&mut self, from: usize) {
        let pictures = self.items.iter_mut().skip(from).rev().filter_map(|item| match item {
            Item::Picture(shown) => Some(shown),
            _ => None,
        });
        pictures.skip(DRAWN_AGAIN).for_each(|shown| shown.skip());
    }

    /// Stops waiting for images.
    pub(crate) fn stop_waiting_for_images(&mut self) {
        for item in &mut self.items {
            if let Item::Picture(shown) = item
                && shown.is_open()
            {
                shown.skip();
            }
        }
    }
}
