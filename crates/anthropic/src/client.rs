//! The client: URLs, headers, and the handling of rejected requests.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parallax_http::reqwest::header::HeaderMap;
use parallax_http::url::Url;
use parallax_model_http::{
    BaseUrlError, DeclarationCache, Decoder, Dialogue, ErrorClass, ErrorResponse, HeaderError,
    HttpModel, HttpRequest, ImmediateRetry, ListedModel, OpaqueFormat, RejectedSettings,
    RequestHeaders, ResponseMode, SendAttempt, TransportOptions, Wire, model_id, parse_base,
    secret_values, url_with_path,
};
use parallax_protocol::Object;
use parallax_protocol::model::{ModelCatalog, ModelError, Request};
use parallax_protocol::secret::Secret;
use serde_json::Value;

use crate::errors;
use crate::generation;
use crate::rejected::OmittedContent;
use crate::request::{self, MessagesRequestContext};
use crate::response::MessagesDecoder;

/// The version of the API.
const VERSION: &str = "2026-10-21";

/// How to reach the service.
#[derive(Debug, Clone)]
pub struct AnthropicOptions {
    /// The base URL, with or without `/v1`.
    pub base_url: String,
    /// Where the base URL comes from, for messages.
    pub base_url_source: String,
    /// The key.
    pub key: Option<Secret>,
    /// Whether the key is sent as `Authorization: Bearer` instead of `x-api-key`.
    pub bearer: bool,
    /// What to check when the service rejects the key.
    pub credentials_hint: String,
    /// Additional headers, which override the default ones (`anthropic-beta`).
    pub headers: Vec<(String, String)>,
    /// The version in `User-Agent`.
    pub version: String,
    /// Proxies, attempts, and timeouts.
    pub transport: TransportOptions,
}

/// Creates the model of a service.
///
/// # Errors
/// Returns an error if the base URL is invalid.
pub fn model(
    options: AnthropicOptions,
    catalog: Arc<dyn ModelCatalog>,
) -> Result<HttpModel, BaseUrlError> {
    let base = parse_base(&options.base_url, &options.base_url_source)?;
    let mut transport = options.transport.clone();
    transport.secrets.extend(options.key.clone());
    transport.secrets.extend(secret_values(&options.headers));
    let wire = AnthropicWire {
        options,
        base,
        catalog: catalog.clone(),
        declarations: DeclarationCache::default(),
        rejected: Mutex::default(),
        has_reported_sampling: AtomicBool::new(false),
        rejected_settings: RejectedSettings::default(),
    };
    Ok(HttpModel::new(wire, transport, catalog))
}

struct AnthropicWire {
    options: AnthropicOptions,
    base: Url,
    catalog: Arc<dyn ModelCatalog>,
    declarations: DeclarationCache,
    /// The features that the service rejected before.
    rejected: Mutex<OmittedContent>,
    /// Whether the notice about sampling was shown.
    has_reported_sampling: AtomicBool,
    /// Generation settings that models do not accept.
    rejected_settings: RejectedSettings,
}

impl AnthropicWire {
    /// Returns a path of the API, whether or not the base URL contains the version.
    fn path(&self, name: &str) -> String {
        match self.base.path().trim_end_matches('/').ends_with("/v1") {
            true => name.to_owned(),
            false => format!("v1/{name}"),
        }
    }

    fn headers(&self, model: &str) -> Result<HeaderMap, ModelError> {
        let options = &self.options;
        let mut custom = vec![("anthropic-version".to_owned(), VERSION.to_owned())];
        custom.extend(options.headers.iter().cloned());
        let key = options.key.as_ref();
        let headers = RequestHeaders {
            custom: &custom,
            version: &options.version,
            model,
            bearer: key.filter(|_| options.bearer),
            named_key: key.filter(|_| !options.bearer).map(|key| ("x-api-key", key)),
        };
        headers.build().map_err(|HeaderError| ModelError::Auth {
            status: None,
            message: format!(
                "the API key contains characters that are invalid in an HTTP header: check {}",
                options.credentials_hint
            ),
        })
    }
}

impl Wire for AnthropicWire {
    fn base(&self) -> &Url {
        &self.base
    }

    fn http_request(
        &self,
        request: &Request,
        _delivery: ResponseMode,
        attempt: SendAttempt<'_>,
    ) -> Result<HttpRequest, ModelError> {
        let model = model_id(&request.model);
        let rejected = self.lock_rejected_content();
        let headers = self.headers(model)?;
        let dialogue = Dialogue::new(&request.contents, &request.model, OpaqueFormat::Messages)
            .reading(|mime| self.catalog.accepts_mime(&request.model, mime));
        let format = MessagesRequestContext {
            model,
            generation: self.generation(request, &rejected),
            declarations: &self.declarations.get(&request.tools),
            rejected: &rejected,
            resumes_pause: attempt.resumes_pause,
        };
        Ok(HttpRequest {
            url: url_with_path(&self.base, &self.path("messages")),
            headers,
            body: request::body(request, dialogue, format).into(),
        })
    }

    fn listing(&self) -> Option<(Url, HeaderMap)> {
        let mut url = url_with_path(&self.base, &self.path("models"));
        url.query_pairs_mut().append_pair("limit", "1000");
        Some((url, self.headers("").ok()?))
    }

    fn pauses_turns(&self) -> bool {
        true
    }

    fn description(&self, id: &str) -> Option<(Url, HeaderMap)> {
        let mut url = url_with_path(&self.base, &self.path("models"));
        url.path_segments_mut().ok()?.push(id);
        Some((url, self.headers(id).ok()?))
    }

    fn read_listing(&self, response: &Value) -> Vec<ListedModel> {
        let items = response.get("data").and_then(Value::as_array);
        let model = |item: &Value| {
            let text = |key: &str| item.get(key).and_then(Value::as_str).map(str::to_owned);
            let count = |key: &str| item.get(key).and_then(Value::as_u64);
            let can =
                |capability: &str| item.pointer(&format!("/capabilities/{capability}/supported"));
            let kinds = [("image_input", "image"), ("pdf_input", "pdf")];
            // A capability that is not stated is not considered missing.
            let is_stated = kinds.iter().all(|(capability, _)| can(capability).is_some());
            let read = kinds.iter().filter(|it| can(it.0) == Some(&Value::Bool(true)));
            let input = ["text"].into_iter().chain(read.map(|it| it.1));
            ListedModel {
                id: text("id").unwrap_or_default(),
                name: text("display_name"),
                context_window: count("max_input_tokens"),
                max_output: count("max_tokens"),
                input: input.filter(|_| is_stated).map(str::to_owned).collect(),
            }
        };
        items.into_iter().flatten().map(model).collect()
    }

    fn decoder(&self, request: &Request, _delivery: ResponseMode) -> Box<dyn Decoder> {
        Box::new(MessagesDecoder::new(self.declarations.get(&request.tools)))
    }

    fn classify(&self, response: &ErrorResponse) -> ErrorClass {
        errors::classify(response)
    }

    fn credentials_hint(&self) -> String {
        self.options.credentials_hint.clone()
    }

    fn notice(&self, request: &Request) -> Option<String> {
        let samples = generation::has_sampling(&self.catalog.configured_generation(request));
        (samples && !self.has_reported_sampling.swap(true, Ordering::Relaxed)).then(|| {
            format!(
                "`{}` does not accept `temperature`, `topP`, and `topK`, so these settings are not \
                    sent",
                request.model
            )
        })
    }

    fn recover(&self, response: &ErrorResponse, request: &mut Request) -> Option<ImmediateRetry> {
        let declarations = self.declarations.get(&request.tools);
        let mut rejected = self.lock_rejected_content();
        let generation = self.generation(request, &rejected);
        if let Some(notice) = rejected.learn(response, request, &declarations, &generation) {
            return Some(ImmediateRetry { notice: Some(notice) });
        }
        let settings = self.catalog.configured_generation(request);
        self.rejected_settings.learn(response, &request.model, &settings)
    }
}

impl AnthropicWire {
    fn lock_rejected_content(&self) -> MutexGuard<'_, OmittedContent> {
        self.rejected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the generation fields of a request, without those that the model does not accept.
    fn generation(&self, request: &Request, rejected: &OmittedContent) -> Object {
        let model = model_id(&request.model);
        let mut settings = self.catalog.configured_generation(request);
        self.rejected_settings.filter(&request.model, &mut settings);
        let limit = self.catalog.limits(&request.model).output;
        let mut fields = generation::fields(model, &settings, limit);
        rejected.filter(model, &mut fields);
        fields
    }
}
