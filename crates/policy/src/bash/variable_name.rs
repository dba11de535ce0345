//! Names of variables.

/// Whether the text can be the name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.chars().all(is_name_character)
}

pub(super) fn is_name_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}
