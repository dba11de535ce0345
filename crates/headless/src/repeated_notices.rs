//! Counts notices of one kind, such as those of a hook that sends the agent back to work again and
//! again, so that only the first ones are reported.

/// How many notices of a kind are reported.
const MAX_SHOWN: usize = 3;
/// Maximum number of kinds that are counted.
const MAX_KINDS: usize = 50;

/// The kinds of the notices so far.
#[derive(Debug, Default)]
pub(crate) struct RepeatedNotices(Vec<NoticeCount>);

#[derive(Debug)]
struct NoticeCount {
    kind: String,
    count: usize,
    /// The newest text that was not reported.
    newest: String,
    /// Whether all messages are the same.
    is_same: bool,
}

impl RepeatedNotices {
    /// Counts a notice; without a kind, its text is the kind. Returns whether to report it.
    pub(crate) fn should_report(&mut self, kind: Option<&str>, text: &str) -> bool {
        let key = kind.unwrap_or(text);
        let Some(known) = self.0.iter_mut().find(|known| known.kind == key) else {
            if self.0.len() < MAX_KINDS {
                self.0.push(NoticeCount {
                    kind: key.to_owned(),
                    count: 1,
                    newest: text.to_owned(),
                    is_same: true,
                });
            }
            return true;
        };
        known.count += 1;
        if known.newest != text {
            known.is_same = false;
            text.clone_into(&mut known.newest);
        }
        known.count <= MAX_SHOWN
    }

    /// Returns one text for each kind that was not reported each time, and starts again.
    pub(crate) fn take(&mut self) -> Vec<String> {
        let often = std::mem::take(&mut self.0).into_iter().filter(|it| it.count > MAX_SHOWN);
        let text = |NoticeCount { count, newest, is_same, .. }| match (count - MAX_SHOWN, is_same) {
            (1, _) => newest,
            (more, true) => format!("{more} more times: {newest}"),
            (more, false) => format!("{more} more of this kind, the last one: {newest}"),
        };
        often.map(text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_of_one_kind_are_reported_three_times_and_counted() {
        let mut notices = RepeatedNotices::default();
        let admitted = |notices: &mut RepeatedNotices, kind, texts: std::ops::Range<usize>| {
            texts.filter(|n| notices.should_report(kind, &format!("text {n}"))).count()
        };
        assert_eq!(admitted(&mut notices, Some("hook a"), 0..9), 3);
        assert_eq!(admitted(&mut notices, Some("hook b"), 0..4), 3);
        assert_eq!(admitted(&mut notices, None, 0..9), 9);
        assert_eq!((0..5).filter(|_| notices.should_report(None, "same")).count(), 3);
        assert_eq!(
            notices.take(),
            ["6 more of this kind, the last one: text 8", "text 3", "2 more times: same"]
        );
        assert!(notices.take().is_empty());
    }
}
