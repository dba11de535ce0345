//! Responses.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use http_body_util::Full;
use http_body_util::combinators::UnsyncBoxBody;
use serde_json::{Value, json};

use crate::access::RequestRejection;

/// The body of a response.
pub(crate) type ReplyBody = UnsyncBoxBody<Bytes, Infallible>;

/// Returns a response with a JSON body.
pub(crate) fn json_reply(status: StatusCode, body: &Value) -> Response<ReplyBody> {
    let body = Full::new(Bytes::from(body.to_string())).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Returns an error in words.
pub(crate) fn error(status: StatusCode, message: &str) -> Response<ReplyBody> {
    json_reply(status, &json!({"error": {"code": status.as_u16(), "message": message}}))
}

impl From<RequestRejection> for Response<ReplyBody> {
    fn from(rejection: RequestRejection) -> Self {
        let mut response = error(rejection.status, rejection.message);
        if rejection.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
