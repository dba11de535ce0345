//! Decodes `$'…'` strings, whose escapes bash interprets.

use std::iter::Peekable;
use std::str::Chars;

/// A decoded string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedString {
    /// The text; `None` if it contains a byte that is not a character, or NUL, which ends the word
    /// in bash.
    pub text: Option<String>,
    /// The length in bytes, including the closing quote.
    pub length: usize,
}

/// Why a string cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// The closing quote is missing.
    NotClosed,
    /// The string contains an escape that bash versions interpret differently.
    Ambiguous,
}

/// The largest value of an octal or hexadecimal escape that is a character; larger values are
/// single bytes.
const LAST_BYTE: u32 = 0x7f;

/// Decodes the text after `$'`.
///
/// # Errors
/// Returns an error if the string is not closed or contains an escape that bash versions interpret
/// differently.
pub fn decode(rest: &str) -> Result<DecodedString, DecodeError> {
    let mut characters = rest.chars().peekable();
    let mut text = Some(String::new());
    loop {
        match characters.next().ok_or(DecodeError::NotClosed)? {
            '\'' => break,
            '\\' => match escape(&mut characters)? {
                Some(decoded) => text.iter_mut().for_each(|text| text.push_str(&decoded)),
                None => text = None,
            },
            other => text.iter_mut().for_each(|text| text.push(other)),
        }
    }
    let behind: usize = characters.map(char::len_utf8).sum();
    Ok(DecodedString { text, length: rest.len() - behind })
}

/// Returns the text of the escape after a backslash, or `None` if it is not a character.
fn escape(characters: &mut Peekable<Chars<'_>>) -> Result<Option<String>, DecodeError> {
    let letter = characters.next().ok_or(DecodeError::NotClosed)?;
    let character = match letter {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'e' | 'E' => '\u{1b}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\\' | '\'' | '"' | '?' => letter,
        '0'..='7' => {
            let first = letter.to_digit(8).unwrap_or_default();
            return Ok(code(characters, first, 8, 2, LAST_BYTE));
        }
        'x' if characters.peek() != Some(&'{') => {
            return Ok(code(characters, 0, 16, 2, LAST_BYTE));
        }
        'u' => return Ok(code(characters, 0, 16, 4, u32::MAX)),
        'U' => return Ok(code(characters, 0, 16, 8, u32::MAX)),
        'c' | 'x' => return Err(DecodeError::Ambiguous),
        other => return Ok(Some(format!("\\{other}"))),
    };
    Ok(Some(character.to_string()))
}

/// Reads a character code with up to `limit` more digits.
fn code(
    characters: &mut Peekable<Chars<'_>>,
    first: u32,
    base: u32,
    limit: usize,
    last: u32,
) -> Option<String> {
    let mut number = first;
    for _ in 0..limit {
        let Some(digit) = characters.peek().and_then(|digit| digit.to_digit(base)) else { break };
        characters.next();
        number = number.wrapping_mul(base).wrapping_add(digit);
    }
    if number == 0 || number > last {
        return None;
    }
    char::from_u32(number).map(String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ansi_strings_are_decoded_like_bash() {
        let text = |rest: &str| decode(rest).ok().and_then(|decoded| decoded.text);
        for (rest, expected) in [
            ("a b' c", "a b"),
            (r"\x2eenv'", ".env"),
            (r"\56env'", ".env"),
            (r"\u002eenv'", ".env"),
            (r"it\'s\t\q\\'", "it's\t\\q\\"),
            ("ä'", "ä"),
        ] {
            assert_eq!(text(rest).as_deref(), Some(expected), "{rest}");
        }
        assert_eq!(decode("a b' c").map(|decoded| decoded.length), Ok(4));
        assert_eq!(decode(r"\x80'").map(|decoded| decoded.text), Ok(None));
        assert_eq!(decode(r"a\0b'").map(|decoded| decoded.text), Ok(None));
        assert_eq!(decode(r"\cx'"), Err(DecodeError::Ambiguous));
        assert_eq!(decode("open"), Err(DecodeError::NotClosed));
        assert_eq!(decode("open\\"), Err(DecodeError::NotClosed));
    }
}
