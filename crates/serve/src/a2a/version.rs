//! The version that a client speaks.

use http::HeaderMap;

use super::errors::A2aError;

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum A2aVersion {
    V03,
    V10,
}

impl A2aVersion {
    /// Returns the version in the header `A2A-Version`, or 0.3 without it.
    pub(super) fn from_headers(headers: &HeaderMap) -> Result<Self, A2aError> {
        let Some(value) = headers.get("a2a-version") else { return Ok(Self::V03) };
        match value.to_str().unwrap_or_default().trim() {
            "" | "0.3" | "0.3.0" => Ok(Self::V03),
            "1" | "1.0" | "1.0.0" | "1.0.1" => Ok(Self::V10),
            _ => Err(A2aError::VersionNotSupported),
        }
    }
}
