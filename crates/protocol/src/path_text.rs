//! Paths as JSON text. File names are bytes, so bytes that are not UTF-8 are escaped and every path
//! round-trips.
//!
//! A byte that is not part of valid UTF-8 becomes the private-use character `U+F700` plus that
//! byte. If a valid name contains such characters, their bytes are escaped the same way.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// The base of the escape characters; the byte is added to it.
const BASE: u32 = 0xF700;

fn is_escape(character: char) -> bool {
    (BASE + 0x80..=BASE + 0xFF).contains(&u32::from(character))
}

/// Returns the text of a path.
pub fn to_text(path: &Path) -> Cow<'_, str> {
    let bytes = path.as_os_str().as_encoded_bytes();
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains(is_escape) => Cow::Borrowed(text),
        _ => Cow::Owned(escape_bytes(bytes)),
    }
}

fn escape_bytes(bytes: &[u8]) -> String {
    let mut text = String::new();
    let escape = |byte: &u8| char::from_u32(BASE + u32::from(*byte));
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if is_escape(character) {
                let mut buffer = [0; 4];
                text.extend(
                    character.encode_utf8(&mut buffer).as_bytes().iter().filter_map(escape),
                );
            } else {
                text.push(character);
            }
        }
        text.extend(chunk.invalid().iter().filter_map(escape));
    }
    text
}

/// Returns the path that the text encodes.
#[cfg(unix)]
pub fn from_text(text: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt as _;

    if !text.contains(is_escape) {
        return PathBuf::from(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    for character in text.chars() {
        match u8::try_from(u32::from(character).wrapping_sub(BASE)) {
            Ok(byte) if is_escape(character) => bytes.push(byte),
            _ => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

/// Returns the path that the text encodes.
#[cfg(not(unix))]
pub fn from_text(text: &str) -> PathBuf {
    PathBuf::from(text)
}

/// Serde functions for a path, for `#[serde(with)]`.
pub mod one {
    use super::{Path, PathBuf, from_text, to_text};
    use serde::{Deserialize, Deserializer, Serializer};

    /// Serializes the path.
    pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&to_text(path))
    }

    /// Deserializes the path.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        Ok(from_text(&String::deserialize(deserializer)?))
    }
}

/// Serde functions for an optional path, for `#[serde(with)]`.
pub mod option {
    use super::{PathBuf, from_text, to_text};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Serializes the path.
    pub fn serialize<S: Serializer>(
        path: &Option<PathBuf>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_deref().map(to_text).serialize(serializer)
    }

    /// Deserializes the path.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<PathBuf>, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.map(|text| from_text(&text)))
    }
}

/// Serde functions for a list of paths, for `#[serde(with)]`.
pub mod list {
    use super::{PathBuf, from_text, to_text};
    use serde::{Deserialize, Deserializer, Serializer};

    /// Serializes the paths.
    pub fn serialize<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().map(|path| to_text(path)))
    }

    /// Deserializes the paths.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<PathBuf>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        Ok(texts.iter().map(|text| from_text(text)).collect())
    }
}

/// Serde functions for a map from paths to paths, for `#[serde(with)]`.
pub mod map {
    use std::collections::BTreeMap;

    use super::{PathBuf, from_text, to_text};
    use serde::{Deserialize, Deserializer, Serializer};

    /// Serializes the map.
    pub fn serialize<S: Serializer>(
        paths: &BTreeMap<PathBuf, PathBuf>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(paths.iter().map(|(from, to)| (to_text(from), to_text(to))))
    }

    /// Deserializes the map.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<PathBuf, PathBuf>, D::Error> {
        let texts = BTreeMap::<String, String>::deserialize(deserializer)?;
        Ok(texts.iter().map(|(from, to)| (from_text(from), from_text(to))).collect())
    }
}

/// Serde functions for paths with a remark each, for `#[serde(with)]`.
pub mod remarks {
    use super::{PathBuf, from_text, to_text};
    use serde::{Deserialize, Deserializer, Serializer};

    /// Serializes the paths and remarks.
    pub fn serialize<S: Serializer>(
        paths: &[(PathBuf, String)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().map(|(path, remark)| (to_text(path), remark)))
    }

    /// Deserializes the paths and remarks.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(PathBuf, String)>, D::Error> {
        let texts = Vec::<(String, String)>::deserialize(deserializer)?;
        Ok(texts.into_iter().map(|(path, remark)| (from_text(&path), remark)).collect())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[test]
    fn any_path_round_trips_as_text() {
        for bytes in [
            &b"/plain/caf\xc3\xa9"[..],
            b"/caf\xe9.txt",
            b"\xff\xfe/\x80",
            "/private \u{f7e9} use".as_bytes(),
            b"/cut \xe2\x82",
            b"",
        ] {
            let path = PathBuf::from(std::ffi::OsString::from_vec(bytes.to_vec()));
            assert_eq!(from_text(&to_text(&path)), path, "{bytes:?}");
        }
        assert_eq!(to_text(Path::new("/a/ü")), "/a/ü");
        assert_eq!(from_text("/a/ü"), Path::new("/a/ü"));
    }
}
