//! A provider's wire as a model.

use std::sync::Arc;

use parallax_protocol::model::{
    Answer, Model, ModelCatalog, ModelError, Request, ServerAddress, StreamEvent, ToolSet,
};
use parallax_protocol::{BoxFuture, BoxStream, CancellationToken, Object};

use crate::backoff::UTILITY_ATTEMPTS;
use crate::call::HttpCall;
use crate::client::{Transport, TransportOptions};
use crate::wire::{ResponseMode, Wire};

/// A provider's wire as a model. Cheap to create and to clone.
#[derive(Clone)]
pub struct HttpModel {
    wire: Arc<dyn Wire>,
    transport: Arc<Transport>,
    catalog: Arc<dyn ModelCatalog>,
}

impl HttpModel {
    /// Creates a model that uses this wire.
    pub fn new(wire: impl Wire, options: TransportOptions, catalog: Arc<dyn ModelCatalog>) -> Self {
        let transport = Arc::new(Transport::new(options, wire.base()));
        Self { wire: Arc::new(wire), transport, catalog }
    }

    /// Returns a call that is not sent yet.
    pub fn call(&self, request: Request, delivery: ResponseMode) -> HttpCall {
        let attempts = match delivery {
            ResponseMode::Stream => self.transport.options.max_attempts,
            ResponseMode::Whole => UTILITY_ATTEMPTS,
        };
        HttpCall::new(self.wire.clone(), self.transport.clone(), request, delivery, attempts)
    }

    /// Asks the service about a model, as before its first request: the catalog gets what a local
    /// server states, such as the context window.
    pub async fn inspect(&self, model: &str) {
        let request = Request {
            model: model.to_owned(),
            system: "".into(),
            contents: Vec::new(),
            tools: ToolSet::None,
            generation: Object::new(),
            role: String::new(),
            alias: String::new(),
            max_attempts: None,
            has_fallback: false,
            is_retry: false,
            continuation: None,
        };
        if let Some(questions) = self.wire.before_request(&request) {
            self.transport.record_question(questions.await);
        }
    }

    pub(crate) fn wire(&self) -> &dyn Wire {
        &*self.wire
    }

    /// Returns the connections to the service.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }
}

impl Model for HttpModel {
    fn stream(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<StreamEvent, ModelError>> {
        self.call(request, ResponseMode::Stream).into_stream(cancel)
    }

    fn generate(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Answer, ModelError>> {
        let call = self.call(request, ResponseMode::Whole);
        Box::pin(async move { call.collect(&cancel).await })
    }

    fn catalog(&self) -> &dyn ModelCatalog {
        &*self.catalog
    }

    fn server_address(&self, _model: &str) -> Option<ServerAddress> {
        let base = self.wire.base();
        let host = base.host_str()?.to_owned();
        Some(ServerAddress { host, port: base.port_or_known_default() })
    }
}
