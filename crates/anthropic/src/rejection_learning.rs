//! Learns from error responses what a service rejects.

use parallax_model_http::{Declarations, ErrorResponse, model_id};
use parallax_protocol::Object;
use parallax_protocol::model::Request;

use crate::rejected::{OmittedContent, OptionalField, hash};
use crate::request;

impl OmittedContent {
    /// Learns from a rejected request. Returns a notice for the user, or `None` if the same request
    /// would be sent again.
    pub(crate) fn learn(
        &mut self,
        response: &ErrorResponse,
        request: &Request,
        declarations: &Declarations,
        generation: &Object,
    ) -> Option<String> {
        if response.status != 400 {
            return None;
        }
        let message = &response.payload.message;
        let lower = message.to_lowercase();
        if let Some(name) = self.record_tool(&lower, declarations) {
            return Some(format!(
                "The service rejected the tool `{name}` ({message}), so it is not offered to the model"
            ));
        }
        let is_about_thoughts = lower.contains("signature")
            || lower.contains("thinking` block")
            || lower.contains("thinking block");
        if is_about_thoughts && self.record_thoughts(request) {
            return Some(
                "The service rejected earlier thinking of this session, so it is no longer sent"
                    .to_owned(),
            );
        }
        let is_about_media = ["image", "document", "pdf"].iter().any(|word| lower.contains(word));
        if is_about_media && self.record_media(&lower, request) {
            return Some(format!(
                "The service rejected an image or a document ({message}), so it is not sent"
            ));
        }
        let model = model_id(&request.model);
        let field = OptionalField::ALL.into_iter().find(|field| {
            field.error_words().iter().any(|word| lower.contains(word))
                && field.is_part_of(generation)
                && !self.has_field(model, *field)
        })?;
        self.fields.insert((model.to_owned(), field));
        let name = field.name();
        Some(format!("`{}` does not accept `{name}` ({message}), so it is not sent", request.model))
    }

    /// Records the tool that a message like `tools.3.custom.input_schema: …` refers to.
    fn record_tool(&mut self, message: &str, declarations: &Declarations) -> Option<String> {
        let (_, rest) = message.split_once("tools.")?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let index: usize = digits.parse().ok()?;
        let mut sent = declarations.list.iter().filter(|it| !self.has_tool(&it.name));
        let wire = sent.nth(index)?.name.clone();
        let name = declarations.name_of(&wire);
        self.tools.insert(wire);
        Some(name)
    }

    /// Records the images and documents that a message refers to: all of them, if it does not say
    /// which. Returns `false` if there are none.
    fn record_media(&mut self, message: &str, request: &Request) -> bool {
        let sent = request::media(request, self);
        let index = position(message)
            .filter(|index| sent.iter().any(|(content_index, _)| content_index == index));
        let chosen =
            sent.iter().filter(|(content_index, _)| index.is_none_or(|at| *content_index == at));
        let before = self.media.len();
        self.media.extend(chosen.map(|(_, data)| hash(data)));
        self.media.len() > before
    }

    /// Records the thinking of a request. Returns `false` if none of it is new.
    fn record_thoughts(&mut self, request: &Request) -> bool {
        let origins = request.contents.iter().filter_map(|content| content.origin());
        let data = origins
            .filter(|origin| origin.model == request.model)
            .flat_map(|origin| &origin.opaque)
            .map(|item| hash(item.data.get()));
        let before = self.thoughts.len();
        self.thoughts.extend(data);
        self.thoughts.len() > before
    }
}

/// Returns the indices of the message and the block in an error message like
/// `messages.3.content.0.image: …`.
fn position(message: &str) -> Option<(usize, usize)> {
    let (_, rest) = message.split_once("messages.")?;
    let mut words = rest.split(['.', ':', ' ']);
    let index = words.next()?.parse().ok()?;
    let is_content = words.next() == Some("content");
    Some((index, words.next().filter(|_| is_content)?.parse().ok()?))
}
