//! The row above the composer: what the agent does now, for how long, and how
//! to stop it.

use parallax_protocol::ids::ItemId;
use parallax_screen::{Line, Span, text_width};

use parallax_sdk::settings::LoadingPhrases;

use crate::layout::shortened;
use crate::phrases::phrase;
use crate::theme::Theme;

/// The spinner's faces; one every [`TICK_MS`].
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// How long each face stands, in milliseconds.
pub(crate) const TICK_MS: u64 = 120;
/// Columns that what is done keeps, beside keys that may be left out.
const SUBJECT: usize = 12;

/// What the agent is busy with.
#[derive(Debug, Clone, Default)]
pub(crate) struct Working {
    /// When the turn began, in milliseconds of the app's clock.
    pub(crate) since_ms: u64,
    /// The subject of the last thought, or what runs.
    pub(crate) subject: String,
    /// A wait before another attempt: until when, and why.
    pub(crate) retry: Option<(u64, String)>,
    /// The hooks that run, by name.
    pub(crate) hooks: Vec<String>,
    /// A question stands open: the spinner rests.
    pub(crate) waiting: bool,
    /// Since when, in milliseconds of the app's clock.
    pub(crate) waiting_since_ms: u64,
    /// The calls that run, with their titles.
    pub(crate) running: Vec<(ItemId, String)>,
}

/// How the row is drawn, by the settings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look<'a> {
    /// Something turns.
    pub(crate) spinner: bool,
    /// What is said while no thought and no call gives a subject.
    pub(crate) phrases: LoadingPhrases,
    /// The user's own phrases.
    pub(crate) own_phrases: &'a [String],
    /// Escape stops it.
    pub(crate) stops: bool,
    /// What other keys do now, each with a sign before it; empty: nothing. Left out
    /// where there is no room.
    pub(crate) keys: &'a str,
}

impl Working {
    /// A call runs now.
    pub(crate) fn runs(&mut self, item: &ItemId, title: &str) {
        self.running.retain(|(running, _)| running != item);
        self.running.push((item.clone(), title.to_owned()));
        self.tell_running();
    }

    /// A call is done, if it is one that ran.
    pub(crate) fn ran(&mut self, item: &ItemId) {
        let before = self.running.len();
        self.running.retain(|(running, _)| running != item);
        if self.running.len() < before {
            self.tell_running();
        }
    }

    fn tell_running(&mut self) {
        self.subject = match self.running.as_slice() {
            [] => String::new(),
            [(_, title)] => title.clone(),
            several => format!("{} tool calls running", several.len()),
        };
    }

    /// Whether the agent waits for the user from here on. The time of that does not count.
    pub(crate) fn wait(&mut self, waiting: bool, now_ms: u64) {
        match (std::mem::replace(&mut self.waiting, waiting), waiting) {
            (false, true) => self.waiting_since_ms = now_ms,
            (true, false) => self.since_ms += now_ms.saturating_sub(self.waiting_since_ms),
            _ => {}
        }
    }

    /// How often the row changes by itself, in milliseconds.
    pub(crate) fn tick_ms(spinner: bool) -> u64 {
        if spinner { TICK_MS } else { 1000 }
    }
}

/// The face of the spinner at a time.
pub(crate) fn spinner(now_ms: u64) -> &'static str {
    let index = usize::try_from(now_ms / TICK_MS).unwrap_or(0) % SPINNER.len();
    SPINNER.get(index).copied().unwrap_or("·")
}

/// The row.
pub(crate) fn row(
    working: &Working,
    look: Look<'_>,
    now_ms: u64,
    width: usize,
    theme: &Theme,
) -> Line {
    let seconds = now_ms.saturating_sub(working.since_ms) / 1000;
    if working.waiting {
        return Line::styled("? Waiting for approval", theme.warning);
    }
    let (text, style) = match &working.retry {
        Some((until, why)) => {
            let left = until.saturating_sub(now_ms).div_ceil(1000);
            (format!("{why} in {left}s"), theme.warning)
        }
        None if !working.hooks.is_empty() => {
            let first = |name: &String| name.lines().next().unwrap_or_default().to_owned();
            let names: Vec<String> = working.hooks.iter().map(first).collect();
            (format!("Running hook: {}", names.join(", ")), theme.text)
        }
        None if working.subject.is_empty() => {
            let said = phrase(look.phrases, look.own_phrases, now_ms);
            (said.unwrap_or_else(|| "Thinking...".to_owned()), theme.text)
        }
        None => (working.subject.clone(), theme.text),
    };
    let stop = if look.stops { "esc to cancel, " } else { "" };
    let tail = |keys: &str| format!(" ({stop}{}{keys})", time(seconds));
    let has_room = |tail: &String| text_width(tail) + 2 + SUBJECT.min(text_width(&text)) <= width;
    let tail = Some(tail(look.keys)).filter(has_room).unwrap_or_else(|| tail(""));
    let room = width.saturating_sub(2 + text_width(&tail));
    let mut line = match look.spinner {
        true => Line::styled(spinner(now_ms), theme.accent).and(" ", theme.text),
        false => Line::EMPTY,
    };
    if room > 0 {
        line.push(Span::styled(shortened(&text, room), style));
        line.push(Span::styled(tail, theme.secondary));
    }
    line
}

/// Seconds as people say them.
pub(crate) fn time(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        _ => format!("{}h {}m", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_tells_what_still_runs() {
        let mut working = Working::default();
        let (one, two) = (ItemId::new("1"), ItemId::new("2"));
        working.runs(&one, "Read a");
        working.runs(&two, "Read b");
        assert_eq!(working.subject, "2 tool calls running");
        working.ran(&two);
        assert_eq!(working.subject, "Read a");
        "thinks".clone_into(&mut working.subject);
        working.ran(&two);
        assert_eq!(working.subject, "thinks");
        working.ran(&one);
        assert_eq!(working.subject, "");
    }

    fn look(keys: &str) -> Look<'_> {
        let phrases = LoadingPhrases::Off;
        Look { spinner: true, phrases, own_phrases: &[], stops: true, keys }
    }

    #[test]
    fn keys_stand_where_they_leave_room() {
        let subject = "for i in $(seq 1 40); do echo $i; sleep 1; done".to_owned();
        let working = Working { subject, ..Working::default() };
        let text = |look, width| row(&working, look, 3_000, width, &Theme::default()).text();
        let keys = look(" · Tab to type into it");
        assert!(text(keys, 60).ends_with("… (esc to cancel, 3s · Tab to type into it)"));
        assert!(text(keys, 40).ends_with("… (esc to cancel, 3s)"));
        assert!(text(Look { stops: false, ..look("") }, 40).ends_with("… (3s)"));
        for width in 1..100 {
            assert!(text_width(&text(keys, width)) <= width.max(2), "{width}");
        }
    }

    #[test]
    fn a_wait_counts_down() {
        let working = Working {
            since_ms: 0,
            retry: Some((12_000, "the service is overloaded; attempt 2 of 10".to_owned())),
            ..Working::default()
        };
        let look = look("");
        let row = row(&working, look, 9_500, 100, &Theme::default());
        assert!(
            row.text().contains("attempt 2 of 10 in 3s")
                && row.text().contains("(esc to cancel, 9s)")
        );
    }
}
