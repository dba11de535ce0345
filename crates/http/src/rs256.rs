//! Signs assertions with the key of a service account.

use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;

/// Signs a message with RSA and SHA-256 (`RS256`); the key is in PEM format.
///
/// # Errors
/// Returns an error if the key cannot be read or is not an RSA key. The message does not contain
/// the key.
pub fn sign_rs256(key: &str, message: &[u8]) -> Result<Vec<u8>, String> {
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
        .map_err(|_| "its private key is not valid PEM".to_owned())?;
    let key = any_supported_type(&key).map_err(|_| "its private key is not usable".to_owned())?;
    let signer = key
        .choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256])
        .ok_or_else(|| "its private key is not an RSA key".to_owned())?;
    signer.sign(message).map_err(|_| "failed to sign with its private key".to_owned())
}

#[cfg(test)]
mod tests {
    use super::sign_rs256;

    const BYTES: [u8; 8] = [0x42, 0xc, 0x4a, 0x4a, 0x46, 0xb8, 0x5f, 0xb3];
    const KEY: &str = include_str!("../../../tests/mcp/service_account_key.pem");

    #[test]
    fn signature_matches_other_implementations() {
        let signature = sign_rs256(KEY, b"message").expect("a signature");
        // The first bytes of the output of `openssl dgst -sha256 -sign`.
        assert_eq!((signature.len(), &signature[..8]), (256, &BYTES[..]));
    }

    #[test]
    fn invalid_key_is_rejected() {
        for text in ["", "x", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
            let reason = sign_rs256(text, b"m").expect_err("no key");
            assert!(reason.contains("private key"), "{reason}");
        }
    }
}
