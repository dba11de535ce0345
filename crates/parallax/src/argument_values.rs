//! Values of arguments that several commands take.

use std::time::Duration;

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use parallax_policy::Tier;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::routing::FallbackPolicy;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    #[default]
    Text,
    Json,
    StreamJson,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputFormat {
    Text,
    StreamJson,
}

/// The values of `--sandbox`; not all of them work on every system.
pub(crate) const SANDBOXES: [&str; 8] =
    ["true", "false", "docker", "podman", "runsc", "sandbox-exec", "lxc", "windows-native"];

pub(crate) fn tiers() -> impl TypedValueParser<Value = Tier> {
    PossibleValuesParser::new(["extension", "workspace", "user", "admin"]).map(|text| {
        match text.as_str() {
            "extension" => Tier::Extension,
            "workspace" => Tier::Workspace,
            "admin" => Tier::Admin,
            _ => Tier::User,
        }
    })
}

pub(crate) fn fallbacks() -> impl TypedValueParser<Value = FallbackPolicy> {
    PossibleValuesParser::new(["ask", "auto", "off"])
        .map(|text| parallax_sdk::fallback_policy(&text).unwrap_or_default())
}

pub(crate) fn approval_modes() -> impl TypedValueParser<Value = ApprovalMode> {
    PossibleValuesParser::new(["default", "auto_edit", "yolo", "plan"])
        .map(|text| ApprovalMode::parse(&text).unwrap_or_default())
}

pub(crate) fn work_modes() -> impl TypedValueParser<Value = ApprovalMode> {
    PossibleValuesParser::new(["default", "auto_edit", "yolo"])
        .map(|text| ApprovalMode::parse(&text).unwrap_or_default())
}

pub(crate) fn parse_dollars(text: &str) -> Result<f64, String> {
    let amount = text.trim().trim_start_matches('$').parse::<f64>().ok();
    let amount = amount.filter(|amount| amount.is_finite() && *amount > 0.0);
    amount.ok_or_else(|| {
        "expected an amount of US dollars greater than zero, such as `0.50`".to_owned()
    })
}

/// Returns a duration: seconds, or a number with `s`, `m`, or `h`.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let units = [('s', 1.0), ('m', 60.0), ('h', 3600.0)];
    let unit = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(*unit)?, *factor)));
    let (number, factor) = unit.unwrap_or((text, 1.0));
    let seconds = number.parse::<f64>().ok().map(|number| number * factor);
    let time = seconds.filter(|seconds| *seconds > 0.0);
    let time = time.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| {
        "expected a duration greater than zero, such as `90s`, `10m`, or `1h`".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_and_durations_are_parsed() {
        assert_eq!((parse_dollars("0.5"), parse_dollars("$2")), (Ok(0.5), Ok(2.0)));
        for (text, seconds) in [("90", 90), ("90s", 90), ("10m", 600), ("1.5h", 5400)] {
            assert_eq!(time(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "0", "-1", "NaN", "inf", "x", "1d", "s", "1e999"] {
            assert!(parse_dollars(text).is_err() && time(text).is_err(), "{text}");
        }
    }
}
