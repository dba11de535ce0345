//! Hexadecimal encoding of bytes.

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes hexadecimal digits. Returns `None` unless the text consists of pairs of digits.
pub(crate) fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digit = |char: u8| char::from(char).to_digit(16);
    let pair = |pair: &[u8]| match *pair {
        [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}
