//! Sends the requests of a sign-in, and normalizes the responses of token endpoints to RFC 6749
//! §5.1 where services deviate from it: form data instead of JSON, numbers as strings, a missing
//! token type.

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use parallax_http::reqwest::{Client, Request};
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest,
};
use serde_json::{Map, Value};

/// Maximum bytes of a response.
const MAX_BYTES: usize = 1024 * 1024;

/// Sends requests with a client that does not follow redirects.
pub(crate) struct NoRedirectClient(pub(crate) Client);

impl OAuthHttpClient for NoRedirectClient {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let failed = |error: parallax_http::reqwest::Error| -> OAuthHttpClientError {
                // The URL may contain secrets.
                Box::new(error.without_url())
            };
            let wants_token = request.request.body().windows(11).any(|it| it == b"grant_type=");
            let request = Request::try_from(request.request).map_err(failed)?;
            let mut answer = self.0.execute(request).await.map_err(failed)?;
            let mut body = Vec::new();
            while let Some(more) = answer.chunk().await.map_err(failed)? {
                if body.len() + more.len() > MAX_BYTES {
                    return Err(format!("the response is longer than {MAX_BYTES} bytes").into());
                }
                body.extend_from_slice(&more);
            }
            let mut response = Response::new(body);
            *response.status_mut() = answer.status();
            *response.headers_mut() = std::mem::take(answer.headers_mut());
            if wants_token {
                normalize_response(&mut response);
            }
            Ok(response)
        })
    }
}

/// Normalizes a response. Responses that cannot be parsed are left unchanged.
fn normalize_response(response: &mut Response<Vec<u8>>) {
    let Some(mut fields) = fields(response.body()) else { return };
    // Some services report errors with a success status.
    if response.status().is_success() && fields.contains_key("error") {
        *response.status_mut() = StatusCode::BAD_REQUEST;
    }
    if let Some(text) = fields.get("expires_in").and_then(Value::as_str) {
        let seconds = text.trim().parse::<u64>().ok();
        fields.insert("expires_in".into(), seconds.into());
    } else if let Some(seconds) = fields.get("expires_in").and_then(Value::as_f64) {
        // `f64` represents every realistic number of seconds exactly.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it saturates"
        )]
        fields.insert("expires_in".into(), (seconds as u64).into());
    }
    if let Some(scopes) = fields.get("scope").and_then(Value::as_array) {
        let scopes: Vec<&str> = scopes.iter().filter_map(Value::as_str).collect();
        fields.insert("scope".into(), scopes.join(" ").into());
    }
    fields.retain(|_, value| !value.is_null());
    if fields.contains_key("access_token") && !fields.contains_key("token_type") {
        fields.insert("token_type".into(), "Bearer".into());
    }
    *response.body_mut() = Value::Object(fields).to_string().into_bytes();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
}

/// Parses the fields of a JSON object or of form data.
fn fields(body: &[u8]) -> Option<Map<String, Value>> {
    if let Ok(fields) = serde_json::from_slice(body) {
        return Some(fields);
    }
    let pairs = url::form_urlencoded::parse(body.trim_ascii());
    let fields: Map<String, Value> =
        pairs.map(|(name, value)| (name.into_owned(), value.into_owned().into())).collect();
    (fields.contains_key("access_token") || fields.contains_key("error")).then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalize(status: u16, body: &str) -> (u16, String) {
        let mut response = Response::new(body.as_bytes().to_vec());
        *response.status_mut() = StatusCode::from_u16(status).expect("a status");
        normalize_response(&mut response);
        let text = String::from_utf8(response.body().clone()).expect("text");
        (response.status().as_u16(), text)
    }

    #[test]
    fn token_responses_are_normalized() {
        for (status, body, wanted_status, expected) in [
            (
                200,
                r#"{"access_token":"a","token_type":"bearer","expires_in":60}"#,
                200,
                r#"{"access_token":"a","token_type":"bearer","expires_in":60}"#,
            ),
            (
                200,
                r#"{"access_token":"a","expires_in":"3600","scope":["x","y"],"refresh_token":null}"#,
                200,
                r#"{"access_token":"a","expires_in":3600,"scope":"x y","token_type":"Bearer"}"#,
            ),
            (
                200,
                "access_token=a%2Bb&expires_in=28800&scope=repo%2Cuser&token_type=bearer\n",
                200,
                r#"{"access_token":"a+b","expires_in":28800,"scope":"repo,user","token_type":"bearer"}"#,
            ),
            (
                200,
                "error=bad_verification_code&error_description=The+code",
                400,
                r#"{"error":"bad_verification_code","error_description":"The code"}"#,
            ),
            (
                200,
                r#"{"access_token":"a","expires_in":"soon"}"#,
                200,
                r#"{"access_token":"a","token_type":"Bearer"}"#,
            ),
            (502, "<html>no</html>", 502, "<html>no</html>"),
            (200, "", 200, ""),
        ] {
            assert_eq!(normalize(status, body), (wanted_status, expected.to_owned()), "{body}");
        }
    }
}
