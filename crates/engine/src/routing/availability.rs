//! Which models are available, and how long the others are not.

use std::collections::HashMap;
use std::time::Duration;

use parallax_protocol::routing::FallbackCause;
use tokio::time::Instant;

/// How long a model without capacity is not used.
const CAPACITY_COOLDOWN: Duration = Duration::from_secs(30);

/// Why a model is unavailable.
#[derive(Debug, Clone)]
struct Outage {
    cause: FallbackCause,
    /// The service's message.
    message: String,
    /// When it may be used again; `None`: not in this session.
    retry_at: Option<Instant>,
    /// Each turn may try it once, with a single attempt.
    one_attempt: bool,
}

/// The availability of models: a model without an entry is available.
#[derive(Debug, Default)]
pub(crate) struct ModelAvailability {
    outages: HashMap<String, Outage>,
    /// Models that failed in this turn: they are not used as a fallback.
    failed: Vec<String>,
}

impl ModelAvailability {
    /// Records a failure of a model. `retried`: the next turn tries it once, since a fallback is
    /// ready.
    pub(crate) fn mark_failed(
        &mut self,
        model: &str,
        cause: FallbackCause,
        message: &str,
        retried: bool,
    ) {
        let is_transient = cause == FallbackCause::Capacity;
        let outage = Outage {
            cause,
            message: message.to_owned(),
            retry_at: match (is_transient, retried) {
                (false, _) => None,
                (true, true) => Some(Instant::now()),
                (true, false) => Some(Instant::now() + CAPACITY_COOLDOWN),
            },
            one_attempt: is_transient && retried,
        };
        self.outages.insert(model.to_owned(), outage);
        self.failed.push(model.to_owned());
    }

    /// Starts a new turn.
    pub(crate) fn start_turn(&mut self) {
        self.failed.clear();
    }

    /// Whether the model may be used as a fallback now.
    pub(crate) fn is_ready(&self, model: &str) -> bool {
        self.outage(model).is_none() && !self.failed_this_turn(model)
    }

    /// Whether the model failed in this turn.
    pub(crate) fn failed_this_turn(&self, model: &str) -> bool {
        self.failed.iter().any(|failed| failed == model)
    }

    /// Records that a model responded.
    pub(crate) fn mark_available(&mut self, model: &str) {
        self.outages.remove(model);
        self.failed.retain(|failed| failed != model);
    }

    /// Returns why a model is unavailable now, and the service's message.
    pub(crate) fn outage(&self, model: &str) -> Option<(FallbackCause, String)> {
        let outage = self.outages.get(model)?;
        let open = outage.retry_at.is_some_and(|until| until <= Instant::now());
        (!open).then(|| (outage.cause, outage.message.clone()))
    }

    /// Whether the model gets only one attempt.
    pub(crate) fn is_limited_to_one_attempt(&self, model: &str) -> bool {
        self.outages.get(model).is_some_and(|outage| outage.one_attempt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn capacity_recovers_and_quota_does_not() {
        let mut models = ModelAvailability::default();
        models.mark_failed("a", FallbackCause::Capacity, "busy", false);
        models.mark_failed("b", FallbackCause::Quota, "spent", true);
        models.mark_failed("c", FallbackCause::Capacity, "busy", true);
        assert_eq!(models.outage("a"), Some((FallbackCause::Capacity, "busy".into())));
        assert_eq!(models.outage("c"), None);
        assert!(!models.is_ready("c"));
        models.start_turn();
        assert!(models.is_ready("c") && !models.is_ready("b"));
        assert!(
            models.is_limited_to_one_attempt("c")
                && !models.is_limited_to_one_attempt("a")
                && !models.is_limited_to_one_attempt("b")
        );
        tokio::time::advance(Duration::from_secs(31)).await;
        assert_eq!(models.outage("a"), None);
        assert!(models.outage("b").is_some());
        models.mark_available("b");
        assert_eq!(models.outage("b"), None);
    }
}
