//! The footer. Its items and their order come from the setting `ui.footer.items`; items that do not
//! fit are dropped from the right.

use parallax_protocol::policy::ApprovalMode;
use parallax_screen::{Line, Span, Style, text_width};
use parallax_sdk::settings::FooterItem;

use crate::layout::truncate_text;
use crate::theme::Theme;

/// The marker for a custom system prompt.
const OWN_PROMPT: &str = "|⌐■_■|";

/// Number of columns between two items.
const SEPARATOR: usize = 3;
/// Windows with fewer columns do not show the key of the default mode.
const NARROW: usize = 61;
/// Minimum columns of the model name.
const MIN_MODEL_LENGTH: usize = 8;

/// The facts shown in the footer.
#[derive(Debug, Clone, Default)]
pub(crate) struct StatusLineData {
    pub(crate) mode: ApprovalMode,
    pub(crate) model: String,
    /// The model selected by routing, if any.
    pub(crate) routed_model: Option<String>,
    /// The project name, as in the window title.
    pub(crate) workspace: String,
    /// The last two parts of the working directory.
    pub(crate) directory: String,
    pub(crate) branch: Option<String>,
    /// The sandbox state in a word or two.
    pub(crate) sandbox: String,
    /// Whether commands are sandboxed.
    pub(crate) confined: bool,
    pub(crate) trusted: bool,
    /// Tokens of the last request and size of the context window.
    pub(crate) context: (u64, u64),
    /// Tokens sent in the session, and how many of them were cached.
    pub(crate) sent_tokens: (u64, u64),
    /// The cost of the session in US dollars.
    pub(crate) cost: f64,
    /// Tokens received.
    pub(crate) received: u64,
    pub(crate) session: String,
    pub(crate) auth: String,
    /// The vi mode and pending command; empty when off.
    pub(crate) vim: String,
    pub(crate) lines_added: u64,
    pub(crate) lines_removed: u64,
    /// The rate or quota limit last reported, until a request succeeds.
    pub(crate) quota: Option<Quota>,
    /// Whether Markdown is shown as source.
    pub(crate) raw_markdown: bool,
    /// Whether a custom system prompt replaces the built-in one.
    pub(crate) has_custom_prompt: bool,
    /// The share of the context window at which the history is compacted.
    pub(crate) warn_at: f64,
    /// Number of commands running in the background.
    pub(crate) background: usize,
    /// The key that changes the approval mode; empty if none.
    pub(crate) mode_key: String,
    /// Whether to show items even when they only report the normal state, because the user
    /// configured the footer.
    pub(crate) shows_all: bool,
    /// Number of files open in the connected editor, or `None` without a connection.
    pub(crate) open_files: Option<usize>,
}

/// A limit reported by the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quota {
    /// Rate limited; the request is retried.
    Slow {
        /// The next attempt, from 1.
        attempt: u32,
        /// The maximum number of attempts.
        max_attempts: u32,
    },
    /// Rate limited, without a retry.
    RateLimited,
    /// The quota is exhausted.
    Spent,
}

impl StatusLineData {
    /// Returns the context usage in percent.
    pub(crate) fn percent(&self) -> Option<u64> {
        let (used, window) = self.context;
        (window > 0).then(|| used.saturating_mul(100) / window)
    }
}

/// Returns the footer's rows: one, or two with labels.
pub(crate) fn rows(
    status: &StatusLineData,
    items: &[FooterItem],
    labels: bool,
    width: usize,
    theme: &Theme,
) -> Vec<Line> {
    let mut drawn: Vec<FooterCell> = items
        .iter()
        .map(|item| (*item, spans(*item, status, labels, theme)))
        .filter(|(_, spans)| !spans.is_empty())
        .collect();
    name_key(&mut drawn, status, width, theme);
    let mut used = 0;
    let mut values = Line::EMPTY;
    let mut names = Line::EMPTY;
    let own = if status.has_custom_prompt { OWN_PROMPT } else { "" };
    let raw = if status.raw_markdown { "raw markdown" } else { "" };
    let background = match status.background {
        0 => String::new(),
        running => format!("{running} in background (/shells)"),
    };
    let editor = match status.open_files {
        None => String::new(),
        Some(1) => "1 open file (/ide)".to_owned(),
        Some(count) => format!("{count} open files (/ide)"),
    };
    let markers = [
        (status.vim.as_str(), theme.accent.bold()),
        (own, theme.warning),
        (raw, theme.warning),
        (background.as_str(), theme.accent),
        (editor.as_str(), theme.accent),
    ];
    for (marker, style) in markers.into_iter().filter(|(marker, _)| !marker.is_empty()) {
        let gap = usize::from(used > 0);
        if used + gap + text_width(marker) <= width {
            values.push(Span::styled(format!("{}{marker}", " ".repeat(gap)), style));
            used += gap + text_width(marker);
        }
    }
    names.push(Span::raw(" ".repeat(used)));
    // As the last item it takes the remaining space, and none from the others.
    if matches!(drawn.last(), Some((FooterItem::Workspace, _)))
        && drawn.len() > 1
        && missing_columns(&drawn, used, labels, width).is_some()
    {
        drawn.pop();
    }
    if missing_columns(&drawn, used, labels, width).is_some() {
        // Drop the cached share first; `/stats` shows it too.
        let uncached = StatusLineData { sent_tokens: (status.sent_tokens.0, 0), ..status.clone() };
        for (item, spans) in &mut drawn {
            if *item == FooterItem::TokenCount {
                *spans = tokens(&uncached, theme);
            }
        }
    }
    if missing_columns(&drawn, used, labels, width).is_some() && !status.shows_all {
        // Then the tokens, for the same reason.
        drawn.retain(|(item, _)| *item != FooterItem::TokenCount);
    }
    shorten_model(&mut drawn, used, labels, width);
    for (item, spans) in drawn {
        let own: usize = spans.iter().map(Span::width).sum();
        let cell = cell(item, &spans, labels);
        let gap = if used == 0 { 0 } else { SEPARATOR };
        if used + gap + cell > width {
            break;
        }
        if gap > 0 {
            let between = if labels { "   " } else { " · " };
            values.push(Span::styled(between, theme.border));
            names.push(Span::raw("   "));
        }
        values.spans.extend(spans);
        names.push(Span::styled(item.label(), theme.secondary));
        if labels {
            values.push(Span::raw(" ".repeat(cell - own)));
            names.push(Span::raw(" ".repeat(cell - text_width(item.label()))));
        }
        used += gap + cell;
    }
    match (labels, values.spans.is_empty()) {
        (_, true) => Vec::new(),
        (true, false) => vec![names, values],
        (false, false) => vec![values],
    }
}

/// Adds the key that changes the mode to its name, in windows that are not narrow, and to modes
/// other than the default. It does not depend on the other items, so that it stays where it is.
fn name_key(drawn: &mut [FooterCell], status: &StatusLineData, width: usize, theme: &Theme) {
    let is_named = width >= NARROW || status.mode != ApprovalMode::Default;
    if status.mode_key.is_empty() || !is_named {
        return;
    }
    if let Some((_, spans)) = drawn.iter_mut().find(|(item, _)| *item == FooterItem::Mode) {
        spans.push(Span::styled(format!(" ({})", status.mode_key), theme.secondary));
    }
}

/// An item and its spans.
type FooterCell = (FooterItem, Vec<Span>);

/// Returns how many columns are missing to show all items.
fn missing_columns(drawn: &[FooterCell], used: usize, labels: bool, width: usize) -> Option<usize> {
    let all = drawn.iter().fold(used, |used, (item, spans)| {
        used + if used == 0 { 0 } else { SEPARATOR } + cell(*item, spans, labels)
    });
    all.checked_sub(width).filter(|excess| *excess > 0)
}

/// Returns the columns of an item.
fn cell(item: FooterItem, spans: &[Span], labels: bool) -> usize {
    let own = spans.iter().map(Span::width).sum();
    if labels { text_width(item.label()).max(own) } else { own }
}

/// Shortens the model name first if not everything fits: `/model` shows the full name, and warnings
/// must stay visible. If that is not enough, other items are omitted instead.
fn shorten_model(drawn: &mut [FooterCell], used: usize, labels: bool, width: usize) {
    if missing_columns(drawn, used, labels, width).is_none() {
        return;
    }
    // One long name must leave space for the others.
    for (item, spans) in drawn.iter_mut() {
        if let [only] = spans.as_mut_slice()
            && *item != FooterItem::ModelName
            && only.width() > width / 2
        {
            only.text = truncate_text(&only.text, width / 2).into();
        }
    }
    let Some(mut missing) = missing_columns(drawn, used, labels, width) else { return };
    let is_model = |(item, _): &&FooterCell| *item == FooterItem::ModelName;
    let name = drawn.iter().find(is_model).and_then(|(_, spans)| spans.first());
    if missing + MIN_MODEL_LENGTH > name.map_or(0, Span::width) {
        let is_warning = |(item, _): &FooterCell| {
            matches!(item, FooterItem::Sandbox | FooterItem::Trust | FooterItem::Quota)
                || *item == FooterItem::ModelName
        };
        let needed = drawn.iter().rposition(is_warning).map_or(0, |index| index + 1);
        let needed = drawn.get(..needed).unwrap_or_default();
        missing = missing_columns(needed, used, labels, width).unwrap_or(0);
    }
    if missing == 0 {
        return;
    }
    let model = drawn.iter_mut().find(|(item, _)| *item == FooterItem::ModelName);
    if let Some((_, spans)) = model
        && let Some(name) = spans.first_mut()
    {
        let room = name.width().saturating_sub(missing).max(MIN_MODEL_LENGTH);
        let short = truncate_text(&name.text, room);
        // Drop an arrow without a target.
        name.text = short.strip_suffix(" → …").unwrap_or(&short).to_owned().into();
    }
}

/// Returns the value of an item; with labels, without the word that the label already says.
fn spans(item: FooterItem, status: &StatusLineData, labels: bool, theme: &Theme) -> Vec<Span> {
    let plain = |text: String| match text.is_empty() {
        true => Vec::new(),
        false => vec![Span::styled(text, theme.secondary)],
    };
    match item {
        FooterItem::Mode => {
            let (text, style) = mode(status.mode, theme);
            vec![Span::styled(text, style)]
        }
        FooterItem::ModelName => plain(match &status.routed_model {
            Some(routed) if *routed != status.model => {
                // The model family is obvious and the footer is narrow.
                let short = routed.strip_prefix("gemini-").unwrap_or(routed);
                format!("{} → {short}", status.model)
            }
            _ => status.model.clone(),
        }),
        FooterItem::Workspace => plain(status.directory.clone()),
        FooterItem::GitBranch => plain(
            status
                .branch
                .as_deref()
                .map(|name| format!("⎇ {}", truncate_text(name, 40)))
                .unwrap_or_default(),
        ),
        FooterItem::Sandbox if status.confined && !status.shows_all => Vec::new(),
        FooterItem::Sandbox => {
            let style = if status.confined { theme.secondary } else { theme.warning };
            match status.sandbox.is_empty() {
                true => Vec::new(),
                false => vec![Span::styled(status.sandbox.clone(), style)],
            }
        }
        FooterItem::Trust if status.trusted && !status.shows_all => Vec::new(),
        FooterItem::Trust if status.trusted => plain("trusted".to_owned()),
        FooterItem::Trust => vec![Span::styled("untrusted", theme.warning)],
        FooterItem::ContextUsed => context(status, labels, theme),
        FooterItem::TokenCount => tokens(status, theme),
        FooterItem::Cost if status.cost == 0.0 => Vec::new(),
        FooterItem::Cost => plain(dollars(status.cost)),
        // The service reports limits only when they are reached.
        FooterItem::Quota => match status.quota {
            None => Vec::new(),
            Some(Quota::Slow { attempt, max_attempts }) => {
                let text = format!("rate limit, attempt {attempt} of {max_attempts}");
                vec![Span::styled(text, theme.warning)]
            }
            Some(Quota::RateLimited) => vec![Span::styled("rate limit", theme.warning)],
            Some(Quota::Spent) => vec![Span::styled("quota spent", theme.error)],
        },
        FooterItem::SessionId => plain(status.session.chars().take(8).collect()),
        FooterItem::Hostname => plain(hostname()),
        FooterItem::Auth => plain(status.auth.clone()),
        FooterItem::CodeChanges if status.lines_added + status.lines_removed == 0 => Vec::new(),
        FooterItem::CodeChanges => vec![
            Span::styled(format!("+{}", status.lines_added), theme.success),
            Span::raw(" "),
            Span::styled(format!("−{}", status.lines_removed), theme.error),
        ],
        FooterItem::MemoryUsage => plain(memory()),
    }
}

/// Returns the name of the mode as shown everywhere.
pub(crate) fn mode_name(mode: ApprovalMode) -> &'static str {
    match mode {
        ApprovalMode::Plan => "plan",
        ApprovalMode::Default => "default",
        ApprovalMode::AutoEdit => "auto-edit",
        ApprovalMode::Yolo => "YOLO",
    }
}

/// Returns the name and style of the mode.
pub(crate) fn mode(mode: ApprovalMode, theme: &Theme) -> (&'static str, Style) {
    let style = match mode {
        ApprovalMode::Plan => theme.link,
        ApprovalMode::Default => theme.secondary,
        ApprovalMode::AutoEdit => theme.warning,
        ApprovalMode::Yolo => theme.error.bold(),
    };
    (mode_name(mode), style)
}

/// `23% context`, or `23%` below its label.
fn context(status: &StatusLineData, labels: bool, theme: &Theme) -> Vec<Span> {
    let Some(percent) = status.percent() else { return Vec::new() };
    #[expect(clippy::cast_precision_loss, reason = "a share between 0 and 1")]
    let share = percent as f64 / 100.0;
    let style = match () {
        () if percent >= 100 => theme.error,
        () if share >= status.warn_at => theme.warning,
        () => theme.secondary,
    };
    let what = if labels { "" } else { " context" };
    vec![Span::styled(format!("{percent}%{what}"), style)]
}

/// `12.3k↑ (87% cached) 1.2k↓`
fn tokens(status: &StatusLineData, theme: &Theme) -> Vec<Span> {
    let (sent, cached) = status.sent_tokens;
    if sent == 0 {
        return Vec::new();
    }
    let share = match percent(cached, sent) {
        0 => String::new(),
        share => format!(" ({share}% cached)"),
    };
    let text = format!("{}↑{share} {}↓", count(sent), count(status.received));
    vec![Span::styled(text, theme.secondary)]
}

/// Returns a share in percent, rounded.
pub(crate) fn percent(part: u64, whole: u64) -> u64 {
    let whole = whole.max(1);
    part.saturating_mul(100).saturating_add(whole / 2) / whole
}

/// Formats an amount in US dollars, with more digits for small amounts.
pub(crate) fn dollars(amount: f64) -> String {
    match amount {
        0.0 => "$0.00".to_owned(),
        ..0.1 => format!("${amount:.4}"),
        _ => format!("${amount:.2}"),
    }
}

/// Formats a count in about four characters.
pub(crate) fn count(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{}.{}k", number / 1_000, number % 1_000 / 100),
        _ => format!("{}.{}M", number / 1_000_000, number % 1_000_000 / 100_000),
    }
}

/// Returns the host name.
fn hostname() -> String {
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy();
    name.chars().filter(|char| !char.is_control()).take(40).collect()
}

/// Returns the resident memory, if the system provides it.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.map(|kilobytes| format!("{} MB", kilobytes / 1024)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: [FooterItem; 7] = [
        FooterItem::Mode,
        FooterItem::ModelName,
        FooterItem::ContextUsed,
        FooterItem::TokenCount,
        FooterItem::GitBranch,
        FooterItem::Sandbox,
        FooterItem::Trust,
    ];

    fn sample_status() -> StatusLineData {
        StatusLineData {
            model: "gemini-3-pro".to_owned(),
            branch: Some("main".to_owned()),
            sandbox: "sandbox".to_owned(),
            confined: true,
            trusted: true,
            context: (250_000, 1_000_000),
            sent_tokens: (12_345, 10_000),
            received: 1_200,
            warn_at: 0.5,
            ..StatusLineData::default()
        }
    }

    #[test]
    fn footer_fits_in_one_row() {
        let rows = rows(&sample_status(), &USUAL, false, 120, &Theme::default());
        assert_eq!(
            rows[0].text(),
            "default · gemini-3-pro · 25% context · 12.3k↑ (81% cached) 1.2k↓ · ⎇ main"
        );
        assert_eq!(rows.len(), 1);
        let chosen = StatusLineData { shows_all: true, ..sample_status() };
        let row = super::rows(&chosen, &USUAL, false, 120, &Theme::default())[0].text();
        assert!(row.ends_with(" · ⎇ main · sandbox · trusted"), "{row}");
        let risky = StatusLineData {
            confined: false,
            sandbox: "no sandbox".to_owned(),
            trusted: false,
            ..sample_status()
        };
        let row = super::rows(&risky, &USUAL, false, 120, &Theme::default())[0].text();
        assert!(row.ends_with(" · ⎇ main · no sandbox · untrusted"), "{row}");
    }

    #[test]
    fn labels_are_above_their_values() {
        let rows = rows(&sample_status(), &USUAL, true, 120, &Theme::default());
        let rows: Vec<String> = rows.iter().map(Line::text).collect();
        assert_eq!(
            rows.iter().map(|row| row.trim_end()).collect::<Vec<_>>(),
            [
                "mode      /model         context   tokens                      branch",
                "default   gemini-3-pro   25%       12.3k↑ (81% cached) 1.2k↓   ⎇ main"
            ]
        );
    }

    #[test]
    fn mode_key_stays_and_other_modes_show_it_in_narrow_windows() {
        let status = StatusLineData { mode_key: "shift+tab".to_owned(), ..sample_status() };
        let row = |width| rows(&status, &USUAL, false, width, &Theme::default())[0].text();
        assert!(row(100).starts_with("default (shift+tab) · gemini-3-pro · "), "{}", row(100));
        assert_eq!(
            row(80),
            "default (shift+tab) · gemini-3-pro · 25% context · 12.3k↑ 1.2k↓ · ⎇ main"
        );
        // Tokens go first.
        assert_eq!(row(64), "default (shift+tab) · gemini-3-pro · 25% context · ⎇ main");
        assert!(row(50).starts_with("default · gemini-3-pro · "), "{}", row(50));
        let status = StatusLineData { mode: ApprovalMode::Plan, ..status.clone() };
        let row = |width| rows(&status, &USUAL, false, width, &Theme::default())[0].text();
        assert!(row(50).starts_with("plan (shift+tab) · gemini-"), "{}", row(50));
    }

    #[test]
    fn model_name_is_shortened_before_the_sandbox_state() {
        let status = StatusLineData {
            model: "auto-gemini-3".to_owned(),
            routed_model: Some("gemini-3-flash-preview-09-2026".to_owned()),
            sent_tokens: (1_000, 0),
            branch: None,
            ..sample_status()
        };
        let row = |width| rows(&status, &USUAL, false, width, &Theme::default())[0].text();
        assert_eq!(row(55), "default · auto-gemini-3 → 3-flash-previe… · 25% context");
        assert!(row(120).contains("auto-gemini-3 → 3-flash-preview-09-2026"), "{}", row(120));
        assert!(row(41).starts_with("default · auto-gemini-3 · 25%"), "{}", row(41));
    }

    #[test]
    fn quota_limits_are_shown_while_active() {
        let row = |quota| {
            let status = StatusLineData { quota, ..sample_status() };
            let rows = rows(&status, &[FooterItem::Quota], false, 60, &Theme::default());
            rows.first().map(Line::text)
        };
        assert_eq!(row(None), None);
        let slow = Quota::Slow { attempt: 2, max_attempts: 10 };
        assert_eq!(row(Some(slow)).as_deref(), Some("rate limit, attempt 2 of 10"));
        assert_eq!(row(Some(Quota::Spent)).as_deref(), Some("quota spent"));
    }

    #[test]
    fn host_name_is_shown() {
        assert!(!hostname().is_empty());
    }

    #[test]
    fn custom_system_prompt_has_an_indicator() {
        let status =
            StatusLineData { has_custom_prompt: true, vim: "NORMAL".to_owned(), ..sample_status() };
        let rows = rows(&status, &[FooterItem::Mode], false, 40, &Theme::default());
        assert_eq!(rows[0].text(), "NORMAL |⌐■_■| · default");
    }

    #[test]
    fn commands_in_the_background_are_counted() {
        let status = StatusLineData { background: 2, ..sample_status() };
        let rows = rows(&status, &[FooterItem::Mode], false, 40, &Theme::default());
        assert_eq!(rows[0].text(), "2 in background (/shells) · default");
    }

    #[test]
    fn long_name_leaves_room_for_other_items() {
        let status = StatusLineData { directory: "a".repeat(90), ..sample_status() };
        let items = [FooterItem::Workspace, FooterItem::Mode, FooterItem::ModelName];
        let rows = rows(&status, &items, false, 80, &Theme::default());
        let row = rows[0].text();
        assert!(row.starts_with("aaaa") && row.contains("… · default · gemini"), "{row}");
    }

    #[test]
    fn model_keeps_its_name_if_shortening_it_is_not_enough() {
        let status = StatusLineData {
            model: "gemini-2.5-pro".to_owned(),
            branch: Some("a-branch-with-a-long-name".to_owned()),
            ..sample_status()
        };
        let items = [FooterItem::Mode, FooterItem::ModelName, FooterItem::GitBranch];
        let text = |width| -> String {
            rows(&status, &items, false, width, &Theme::default()).iter().map(Line::text).collect()
        };
        assert_eq!(text(30), "default · gemini-2.5-pro");
        assert_eq!(text(50), "default · gemini-2.5-… · ⎇ a-branch-with-a-long-n…");
    }

    #[test]
    fn directory_is_shown_if_it_fits() {
        let status = StatusLineData { directory: "crates/tui".to_owned(), ..sample_status() };
        let items = [&USUAL[..], &[FooterItem::Workspace]].concat();
        let row = |width| rows(&status, &items, false, width, &Theme::default())[0].text();
        assert!(row(140).ends_with(" · ⎇ main · crates/tui"), "{}", row(140));
        // It takes no space from the others.
        let without = rows(&status, &USUAL, false, 75, &Theme::default())[0].text();
        assert_eq!(row(75), without);
    }

    #[test]
    fn items_that_do_not_fit_are_dropped_from_the_right() {
        for width in 0..130 {
            for labels in [false, true] {
                for row in rows(&sample_status(), &USUAL, labels, width, &Theme::default()) {
                    assert!(row.width() <= width, "{width}: {}", row.text());
                }
            }
        }
    }
}
