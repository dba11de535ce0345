//! Invariants of the contents of every request.

use parallax_protocol::content::{PartView, Role, SealedContent};

/// Returns the first violated rule, or `None` if the contents may be sent.
///
/// The rules: the first and last contents are from the user, roles alternate, no content is empty,
/// and each content with calls is followed by one content that answers exactly these calls, in
/// order, before anything else.
pub fn violation(contents: &[SealedContent]) -> Option<String> {
    if let Some(broken) = structure_violation(contents) {
        return Some(broken);
    }
    if contents.last().map(SealedContent::role) != Some(Role::User) {
        return Some("the last content is not from the user".into());
    }
    None
}

/// Like [`violation`], but the last content may be the model's.
pub(crate) fn structure_violation(contents: &[SealedContent]) -> Option<String> {
    let mut expected: Vec<(Option<String>, String)> = Vec::new();
    for (index, sealed) in contents.iter().enumerate() {
        let want = if index % 2 == 0 { Role::User } else { Role::Model };
        if sealed.role() != want {
            return Some(format!("content {index} has role {:?}", sealed.role()));
        }
        let Ok(content) = sealed.open() else {
            return Some(format!("content {index} cannot be read"));
        };
        if content.parts.is_empty() {
            return Some(format!("content {index} is empty"));
        }
        let mut responses = Vec::new();
        let mut text_seen = false;
        for part in &content.parts {
            match part.view() {
                PartView::Response(response) => {
                    if text_seen {
                        return Some(format!("content {index} has text before a response"));
                    }
                    responses.push((response.id.map(str::to_owned), response.name.to_owned()));
                }
                PartView::Text(_) => text_seen = true,
                _ => {}
            }
        }
        if responses != expected {
            return Some(format!("content {index} answers {responses:?} instead of {expected:?}"));
        }
        expected = content
            .calls()
            .map(|call| (call.id.map(str::to_owned), call.name.to_owned()))
            .collect();
    }
    None
}
