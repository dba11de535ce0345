//! Asks a service which models it has.

use std::time::Duration;

use parallax_http::Failure;
use parallax_http::reqwest::RequestBuilder;
use parallax_protocol::model::ModelError;
use serde_json::Value;

use crate::error_class::ErrorResponse;
use crate::error_payload::ErrorPayload;
use crate::listed_model::ListedModel;
use crate::model::HttpModel;

/// Maximum bytes of a listing.
const MAX_BYTES: usize = 16 << 20;

impl HttpModel {
    /// Returns the models of the service, in its order.
    ///
    /// # Errors
    /// Returns an error if the service cannot be reached in time or rejects the request.
    pub async fn list(&self, limit: Duration) -> Result<Vec<ListedModel>, ModelError> {
        let Some((url, headers)) = self.wire().listing() else { return Ok(Vec::new()) };
        let client = self.transport().client().await?;
        let value = self.get(client.get(url).headers(headers), None, limit).await?;
        let mut models = self.read_models(&value);
        models.retain(|model| !model.id.is_empty());
        Ok(models)
    }

    /// Returns the description of one model. `None`: the service has none.
    ///
    /// # Errors
    /// Returns an error if the service cannot be reached in time or rejects the request.
    pub async fn describe(
        &self,
        id: &str,
        limit: Duration,
    ) -> Result<Option<ListedModel>, ModelError> {
        let Some((url, headers)) = self.wire().description(id) else { return Ok(None) };
        let client = self.transport().client().await?;
        let value = self.get(client.get(url).headers(headers), Some(id), limit).await?;
        let models = self.read_models(&serde_json::json!({"data": [value]}));
        Ok(models.into_iter().next().map(|model| ListedModel { id: id.to_owned(), ..model }))
    }

    /// Reads a listing. Services that do not know a limit state 0.
    fn read_models(&self, listing: &Value) -> Vec<ListedModel> {
        let mut models = self.wire().read_listing(listing);
        for model in &mut models {
            model.context_window = model.context_window.filter(|tokens| *tokens > 0);
            model.max_output = model.max_output.filter(|tokens| *tokens > 0);
        }
        models
    }

    /// Sends a request for one model, or for the list.
    async fn get(
        &self,
        request: RequestBuilder,
        model: Option<&str>,
        limit: Duration,
    ) -> Result<Value, ModelError> {
        let read = async {
            let mut response = request.send().await.map_err(Failure::from)?;
            let status = response.status().as_u16();
            let mut body = Vec::new();
            while let Some(bytes) = response.chunk().await.map_err(Failure::from)? {
                body.extend_from_slice(&bytes);
                if body.len() > MAX_BYTES {
                    break;
                }
            }
            Ok::<_, Failure>((status, body))
        };
        let unavailable = |message: String| ModelError::Unavailable {
            status: None,
            delay: None,
            class: "network",
            message: format!(
                "cannot reach `{}`: {}",
                host(self.wire().base()),
                self.transport().redact(message)
            ),
        };
        let (status, body) = tokio::time::timeout(limit, read)
            .await
            .map_err(|_| unavailable(format!("no response within {} s", limit.as_secs_f32())))?
            .map_err(|failure| unavailable(failure.message))?;
        if !(200..300).contains(&status) {
            let mut payload = ErrorPayload::from_body(&body);
            payload.message = self.transport().redact(payload.message);
            let response = ErrorResponse { status, payload, retry_after: None };
            let class = self.wire().classify(&response);
            return Err(response.into_error(model, class, &self.wire().credentials_hint()));
        }
        serde_json::from_slice(&body)
            .map_err(|_| unavailable("the response is not JSON".to_owned()))
    }
}

/// Returns the host and port of an address.
fn host(url: &parallax_http::url::Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}
