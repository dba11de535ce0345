//! Model routing options from flags and settings.

use std::time::Duration;

use parallax_engine::RoutingOptions;
use parallax_protocol::routing::{FallbackPolicy, RoutingMode};

use crate::session_config::SessionConfig;

/// Parses the values of `model.fallback` and `--fallback`.
pub fn fallback_policy(word: &str) -> Option<FallbackPolicy> {
    match word {
        "ask" => Some(FallbackPolicy::Ask),
        "auto" => Some(FallbackPolicy::Auto),
        "off" => Some(FallbackPolicy::Off),
        _ => None,
    }
}

pub(crate) fn routing_options(launch: &SessionConfig) -> RoutingOptions {
    let settings = &launch.config.settings;
    let standard = RoutingOptions::default();
    let fallback = settings.text("model.fallback").and_then(|word| fallback_policy(&word));
    RoutingOptions {
        router: match settings.text("model.routing").as_deref() {
            Some("rules") => RoutingMode::Rules,
            Some("off") => RoutingMode::Off,
            _ => RoutingMode::On,
        },
        plan: settings.flag("general.plan.modelRouting"),
        threshold: settings.count("model.routingThreshold").unwrap_or(standard.threshold),
        time_limit: match settings.count("model.routingTimeoutMs") {
            Some(milliseconds) => Duration::from_millis(milliseconds),
            None => standard.time_limit,
        },
        fallback: launch.options.fallback.or(fallback).unwrap_or(standard.fallback),
    }
}
