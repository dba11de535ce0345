//! Which models can answer now, and for how long others cannot.

use std::collections::HashMap;
use std::time::Duration;

use parallax_protocol::routing::FallbackCause;
use tokio::time::Instant;

/// How long a model without capacity is left alone.
const CAPACITY: Duration = Duration::from_secs(30);

/// Why a model is not asked.
#[derive(Debug, Clone)]
struct Trouble {
    cause: FallbackCause,
    /// What the service said.
    message: String,
    /// When it may be asked again; `None`: not in this session.
    until: Option<Instant>,
    /// It may be asked once in a prompt, with one attempt.
    one_attempt: bool,
}

/// The health of models: one that is not in here is well.
#[derive(Debug, Default)]
pub(crate) struct Availability {
    troubles: HashMap<String, Trouble>,
    /// Those that failed in this prompt: they do not stand in for others.
    left: Vec<String>,
}

impl Availability {
    /// A model could not answer. `retried`: the next prompt tries it once, since
    /// another model is ready to take its place.
    pub(crate) fn failed(
        &mut self,
        model: &str,
        cause: FallbackCause,
        message: &str,
        retried: bool,
    ) {
        let passing = cause == FallbackCause::Capacity;
        let trouble = Trouble {
            cause,
            message: message.to_owned(),
            until: match (passing, retried) {
                (false, _) => None,
                (true, true) => Some(Instant::now()),
                (true, false) => Some(Instant::now() + CAPACITY),
            },
            one_attempt: passing && retried,
        };
        self.troubles.insert(model.to_owned(), trouble);
        self.left.push(model.to_owned());
    }

    /// A prompt begins.
    pub(crate) fn begin(&mut self) {
        self.left.clear();
    }

    /// Whether the model may stand in for another now.
    pub(crate) fn is_ready(&self, model: &str) -> bool {
        self.trouble(model).is_none() && !self.was_left(model)
    }

    /// Whether the model failed in this prompt.
    pub(crate) fn was_left(&self, model: &str) -> bool {
        self.left.iter().any(|left| left == model)
    }

    /// A model answered.
    pub(crate) fn well(&mut self, model: &str) {
        self.troubles.remove(model);
        self.left.retain(|left| left != model);
    }

    /// Why a model is not asked now, and what the service said.
    pub(crate) fn trouble(&self, model: &str) -> Option<(FallbackCause, String)> {
        let trouble = self.troubles.get(model)?;
        let open = trouble.until.is_some_and(|until| until <= Instant::now());
        (!open).then(|| (trouble.cause, trouble.message.clone()))
    }

    /// Whether the model gets one attempt only.
    pub(crate) fn one_attempt(&self, model: &str) -> bool {
        self.troubles.get(model).is_some_and(|trouble| trouble.one_attempt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn capacity_comes_back_and_a_quota_does_not() {
        let mut models = Availability::default();
        models.failed("a", FallbackCause::Capacity, "busy", false);
        models.failed("b", FallbackCause::Quota, "spent", true);
        models.failed("c", FallbackCause::Capacity, "busy", true);
        assert_eq!(models.trouble("a"), Some((FallbackCause::Capacity, "busy".into())));
        assert_eq!(models.trouble("c"), None);
        assert!(!models.is_ready("c"));
        models.begin();
        assert!(models.is_ready("c") && !models.is_ready("b"));
        assert!(models.one_attempt("c") && !models.one_attempt("a") && !models.one_attempt("b"));
        tokio::time::advance(Duration::from_secs(31)).await;
        assert_eq!(models.trouble("a"), None);
        assert!(models.trouble("b").is_some());
        models.well("b");
        assert_eq!(models.trouble("b"), None);
    }
}
