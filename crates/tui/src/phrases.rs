//! Phrases shown while the model works and no subject is known (`ui.loadingPhrases`).

use parallax_sdk::settings::LoadingPhrases;

/// How long a tip is shown, in milliseconds.
const TIP_MS: u64 = 10_000;
/// How long a joke is shown, in milliseconds.
const WITTY_MS: u64 = 5_000;

const TIPS: [&str; 12] = [
    "Tip: @ adds a file, with completion",
    "Tip: ! runs a command in your shell",
    "Tip: type while the agent works to steer it",
    "Tip: esc stops; esc twice goes back to an earlier prompt",
    "Tip: /undo reverts the file changes of a turn",
    "Tip: /diff shows the agent's edits",
    "Tip: shift+tab changes the approval mode",
    "Tip: ctrl+r searches your earlier prompts",
    "Tip: ctrl+g opens your editor for the prompt",
    "Tip: /compress compacts the history",
    "Tip: /stats shows tokens and tool time",
    "Tip: ctrl+o shows long outputs in full",
];

const WITTY: [&str; 12] = [
    "Reading the fine print",
    "Asking the rubber duck",
    "Counting brackets",
    "Looking for the missing semicolon",
    "Sharpening pencils",
    "Warming up the tubes",
    "Consulting the manual, page 1",
    "Untangling the threads",
    "Measuring twice",
    "Turning it off and on again",
    "Following the white rabbit",
    "Herding electrons",
];

/// Returns the phrase for a time of the app's clock, or `None` if disabled.
pub(crate) fn phrase(kind: LoadingPhrases, own: &[String], now_ms: u64) -> Option<String> {
    let at = |step: u64, len: usize| usize::try_from(now_ms / step).unwrap_or(0) % len.max(1);
    let tip = || TIPS.get(at(TIP_MS, TIPS.len())).map(|&tip| tip.to_owned());
    let witty = || match own.is_empty() {
        true => WITTY.get(at(WITTY_MS, WITTY.len())).map(|&text| text.to_owned()),
        false => own.get(at(WITTY_MS, own.len())).map(|text| crate::sanitize::one_row(text).into()),
    };
    match kind {
        LoadingPhrases::Off => None,
        LoadingPhrases::Tips => tip(),
        LoadingPhrases::Witty => witty(),
        LoadingPhrases::All if (now_ms / TIP_MS).is_multiple_of(2) => tip(),
        LoadingPhrases::All => witty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_rotate_and_custom_ones_are_used() {
        assert_eq!(phrase(LoadingPhrases::Off, &[], 0), None);
        assert_ne!(phrase(LoadingPhrases::Tips, &[], 0), phrase(LoadingPhrases::Tips, &[], TIP_MS));
        let own = ["a".to_owned(), "b\u{1b}[31m".to_owned()];
        assert_eq!(phrase(LoadingPhrases::Witty, &own, 0).as_deref(), Some("a"));
        let second = phrase(LoadingPhrases::Witty, &own, WITTY_MS).unwrap_or_default();
        assert!(second.starts_with('b') && !second.contains('\u{1b}'));
    }
}
