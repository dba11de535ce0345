//! Images that are shown to the user: from prompts, tool results, or answers.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::content::{Part, PartView};

/// The text before and after the name of a file whose content follows.
const NAMED: (&str, &str) = ("\nContent from @", ":\n");

/// An image as sent or received. The data is not validated.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// The name, if known.
    pub name: Option<String>,
    /// The MIME type: `image/…`.
    pub mime_type: String,
    /// The bytes in base64.
    pub data: Arc<str>,
}

impl fmt::Debug for Image {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, mime_type, data } = self;
        write!(formatter, "Image({name:?}, {mime_type}, {} characters)", data.len())
    }
}

impl Image {
    /// Returns the images among `parts`, including those inside tool results. A preceding text part
    /// may name an image; others get the name `name`.
    pub fn from_parts(parts: &[Part], name: Option<&str>) -> Vec<Self> {
        let mut images = Vec::new();
        let mut named = None;
        for part in parts {
            match part.view() {
                PartView::Text(text) => {
                    let file = text.strip_prefix(NAMED.0);
                    named = file.and_then(|rest| rest.strip_suffix(NAMED.1)).map(str::to_owned);
                }
                PartView::Inline { mime_type, data } if mime_type.starts_with("image/") => {
                    let name = named.take().or_else(|| name.map(str::to_owned));
                    images.push(Self { name, mime_type: mime_type.to_owned(), data: data.into() });
                }
                PartView::Response(_) => images.extend(Self::from_parts(&nested_media(part), name)),
                _ => {}
            }
        }
        images
    }
}

/// Returns the media parts inside a function response.
fn nested_media(part: &Part) -> Vec<Part> {
    let response = part.object().get("functionResponse");
    let parts = response.and_then(|response| response.get("parts")?.as_array());
    let objects = parts.into_iter().flatten().filter_map(|part| part.as_object());
    objects.map(|object| Part::from(object.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Object;

    #[test]
    fn image_references_are_found_with_their_names() {
        let png = || Part::inline_data("image/png", "AAAA");
        let parts = [
            Part::text("\nContent from @a/b.png:\n"),
            png(),
            png(),
            Part::inline_data("application/pdf", "BBBB"),
            Part::function_response(None, "read_file", Object::new(), vec![png()]),
        ];
        let images = Image::from_parts(&parts, Some("Read c.png"));
        let names: Vec<_> = images.iter().map(|image| image.name.as_deref().unwrap()).collect();
        assert_eq!(names, ["a/b.png", "Read c.png", "Read c.png"]);
        assert!(images.iter().all(|image| &*image.data == "AAAA"));
    }
}
