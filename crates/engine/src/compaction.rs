//! Keeps the history within the window: old results are shortened first, then
//! the older part becomes an account by the model, and where the model cannot,
//! by the program. Nothing is lost: the journal holds all of it.
//!
//! Requests share their beginning, which the provider's cache needs; so this
//! happens rarely, and then by much.

mod account;
mod ahead;
mod calls;
mod leave_out;
mod room;
mod shorten;
mod snapshot;
mod split;
mod transcript;
mod when;
mod whole;

use std::collections::HashMap;
use std::sync::Arc;

use parallax_protocol::CancellationToken;
use parallax_protocol::event::{
    Compaction, CompactionCause, CompactionHow, ContextUsed, EndReason, EventBody,
    NOTHING_TO_COMPRESS,
};
use parallax_protocol::tool::ToolKind;

pub(crate) use account::call_words;
pub(crate) use calls::{Answered, answered};
pub use room::Room;
pub use shorten::KeepOutput;
pub(crate) use shorten::place_of;

use self::account::{Facts, Held};
use self::ahead::{Job, until};
use self::shorten::Reach;
use self::split::Split;
use self::when::{Accounts, goal, is_gain};
use crate::inbox::Wanted;
use crate::invariants;
use crate::meter::Metered;
use crate::session::Session;
use crate::view::{Entry, contents_of, tokens_of};

/// Answers that stay with their results whatever their size is.
const ANSWERS: usize = 2;
/// What stays word for word behind an account, in percent of the history: together
/// they are to leave no more than the goal.
const TAIL_PERCENT: u64 = 20;
/// An account has at most this part of what it stands for, in percent.
const ACCOUNT_PERCENT: u64 = 50;
/// Tokens that an account may have in any case, and at most.
const ACCOUNT: (u64, u64) = (400, 12_000);
/// Tokens that must have come or gone before old results are looked through again.
const LOOK_AGAIN: u64 = 2_000;
/// What a session knows of its compactions.
pub(crate) struct Compacting {
    pub(crate) room: Room,
    /// The account that is being written.
    job: Option<Job>,
    /// No threshold counts below so many tokens: the last compaction did not
    /// get below the mark.
    next_at: u64,
    /// A person took a compaction back: only they, or a full window, make one.
    held: bool,
    /// The tokens when old results were looked through last.
    looked: u64,
    /// How often the way to the next compaction was doubled, since they brought
    /// little.
    doubled: u32,
    /// How many in a row brought much since.
    won: u32,
    /// Whether accounts of the model are worth their requests.
    accounts: Accounts,
    /// It was told that the mark is too low.
    told_low: bool,
    /// It was told that the newest answers alone are above the mark.
    told_above: bool,
}

impl Compacting {
    pub(crate) fn new(room: Room) -> Self {
        Self {
            room,
            job: None,
            next_at: 0,
            held: false,
            looked: 0,
            doubled: 0,
            won: 0,
            accounts: Accounts::default(),
            told_low: false,
            told_above: false,
        }
    }

    /// Whether old results are to be looked through again: not for every request,
    /// since that reads all of them.
    fn looks(&mut self, tokens: u64) -> bool {
        let changed = tokens.abs_diff(self.looked) >= LOOK_AGAIN;
        if changed {
            self.looked = tokens;
        }
        changed
    }
}

/// What a compaction is made of.
struct Material {
    /// The view as it is.
    view: Vec<Entry>,
    /// The same with shorter results.
    short: Vec<Entry>,
    kinds: HashMap<String, ToolKind>,
    active: Option<usize>,
    /// Tokens of the request beside the view.
    fixed: u64,
    /// The estimate of the whole request, by the service's count.
    before: u64,
    /// What the model takes.
    window: u64,
}

impl Material {
    /// The estimate of a request with another view, calibrated like `before`.
    fn estimate(&self, view: &[Entry]) -> u64 {
        let raw = u128::from(self.fixed + tokens_of(&self.view)).max(1);
        let new = u128::from(self.fixed + tokens_of(view));
        u64::try_from(u128::from(self.before) * new / raw).unwrap_or(u64::MAX)
    }

    /// Tokens that a view has too many, as they are counted here.
    fn over(&self, view: &[Entry], fits: u64) -> u64 {
        let raw = u128::from(self.fixed + tokens_of(&self.view));
        let over = u128::from(self.estimate(view).saturating_sub(fits));
        u64::try_from((over * raw).div_ceil(u128::from(self.before.max(1)))).unwrap_or(u64::MAX)
    }

    /// Whether an account of so much would make it noticeably shorter than short
    /// results do.
    fn pays(&self, split: Split) -> bool {
        let raw = self.fixed + tokens_of(&self.short);
        let account = split.dropped(&self.short) * ACCOUNT_PERCENT / 100;
        is_gain(raw, raw - account.min(raw))
    }

    /// The tokens that the account of a cut may have.
    fn account_limit(&self, split: Split) -> u64 {
        let dropped = split.dropped(&self.view);
        (dropped * ACCOUNT_PERCENT / 100).clamp(ACCOUNT.0.min(dropped), ACCOUNT.1)
    }
}

impl Session {
    /// Makes the next request fit: what a person wanted first, then what the
    /// thresholds say.
    ///
    /// # Errors
    /// When the turn was interrupted meanwhile; the history is as before.
    pub(crate) async fn make_room(&mut self, cancel: &CancellationToken) -> Result<(), EndReason> {
        while let Some(wanted) = self.inbox.compactions.pop_front() {
            self.carry_out(wanted, cancel).await;
        }
        self.describe_context();
        let model = self.main_model();
        let ContextUsed { tokens, window } = self.context(&model);
        let mark = self.mark(window);
        self.tell_low_mark(mark, window);
        if tokens > window {
            self.compact(CompactionCause::Overflow, None, cancel).await;
        } else if tokens >= mark.max(self.compacting.next_at) && !self.compacting.held {
            // A little over the mark nobody waits for an account that is
            // being written.
            let patient = tokens < (mark + mark / 4).min(window - window / 10);
            if !(patient && self.is_writing()) {
                self.compact(CompactionCause::Threshold, None, cancel).await;
            }
        } else if tokens >= (mark / 2).min(self.compacting.room.shortens_from()) {
            if self.compacting.looks(tokens) {
                self.shorten_old(mark.max(self.compacting.next_at)).await;
            }
            if tokens >= mark.max(self.compacting.next_at) / 5 * 4 && !self.compacting.held {
                self.write_ahead(&model, mark).await;
            }
        }
        if cancel.is_cancelled() { Err(EndReason::Cancelled) } else { Ok(()) }
    }

    /// Whether the next request to the model fits, and nothing is shortened before it.
    pub(crate) fn has_room(&mut self, model: &str) -> bool {
        let ContextUsed { tokens, window } = self.context(model);
        let mark = self.mark(window);
        self.inbox.compactions.is_empty()
            && tokens < (mark / 2).min(self.compacting.room.shortens_from())
    }

    /// Makes room after the service said that the request is too long. Gives
    /// whether it is shorter now.
    pub(crate) async fn make_room_by_force(&mut self, cancel: &CancellationToken) -> bool {
        self.compact(CompactionCause::Overflow, None, cancel).await
    }

    /// Carries out what a person wanted between turns.
    pub(crate) async fn compact_between_turns(&mut self) {
        while let Some(wanted) = self.inbox.compactions.pop_front() {
            let cancel = CancellationToken::new();
            self.inbox.compacting = Some(cancel.clone());
            self.carry_out(wanted, &cancel).await;
            self.inbox.compacting = None;
            self.note_spent();
            let store = self.history.store();
            let synced = tokio::task::spawn_blocking(move || store.sync());
            if let Ok(Err(error)) = self.inbox.during(synced).await {
                self.history.note_trouble(error.message);
            }
            self.tell_trouble();
        }
    }

    async fn carry_out(&mut self, wanted: Wanted, cancel: &CancellationToken) {
        match wanted {
            Wanted::Shorter { focus } => {
                self.compacting.held = false;
                self.compact(CompactionCause::Manual, focus, cancel).await;
            }
            Wanted::Without(places) => self.leave_out_results(places).await,
            Wanted::WithoutSkill(name) => self.unload_skill(&name).await,
            Wanted::Pin(place, on) => self.pin(place, on),
            Wanted::Whole => {
                let before = self.tokens_now();
                let undone = self.history.undo_compaction();
                self.compacting.held |= undone;
                self.compacting.job = None;
                if let (true, Some(context)) = (undone, &self.folder_context) {
                    context.resume(&contents_of(self.history.view()));
                }
                let remark = (!undone).then(|| "there is no compaction to take back".to_owned());
                let after = self.tokens_now();
                self.tell_compaction(Compaction {
                    cause: CompactionCause::Undo,
                    how: None,
                    before,
                    after,
                    remark,
                });
            }
        }
    }

    fn tokens_now(&mut self) -> u64 {
        let model = self.main_model();
        self.context(&model).tokens
    }

    fn tell_compaction(&mut self, compaction: Compaction) {
        self.hub.send(EventBody::Compaction(compaction));
        self.tell_context();
    }

    /// Makes the history shorter and tells what came of it. Gives whether it is
    /// shorter.
    async fn compact(
        &mut self,
        cause: CompactionCause,
        focus: Option<String>,
        cancel: &CancellationToken,
    ) -> bool {
        let hooked = self.hook_compress(cause, cancel).await;
        let focus = focus.into_iter().chain(hooked).reduce(|all, one| format!("{all}\n{one}"));
        let model = self.main_model();
        let window = self.context(&model).window;
        let mark = self.mark(window);
        let mut reach = Reach { at_least: 0, notes: true, ..self.compacting.room.reach(mark) };
        let mut material = self.material(reach).await;
        let before = material.before;
        // What the service refused though it fits our window must become much less:
        // its real limit is not known.
        let is_refused = cause == CompactionCause::Overflow && before <= window;
        let fits = if is_refused { before / 2 } else { window / 10 * 9 };
        let (mut how, mut remark) = (None, None);
        let mut shorter = material.short.clone();
        let by_results = material.estimate(&shorter);
        // 60 % less is enough; a person wants an account.
        let enough = cause == CompactionCause::Threshold && by_results <= goal(before);
        if is_gain(before, by_results) {
            how = Some(CompactionHow::Results);
        }
        if !enough {
            let budget = tokens_of(&material.short) * TAIL_PERCENT / 100;
            let split = Split::by_size(&material.short, material.active, budget, ANSWERS);
            let pays = split.is_some_and(|split| material.pays(split));
            let asks = cause != CompactionCause::Threshold
                || (pays || self.compacting.job.is_some()) && self.compacting.accounts.is_due();
            if asks
                && let Some((view, made, why)) =
                    self.with_account(&material, split, focus, &model, cancel).await
            {
                let used = is_gain(material.estimate(&shorter), material.estimate(&view));
                self.note_account(used || cause != CompactionCause::Threshold);
                if used {
                    (shorter, how, remark) = (view, Some(made), why);
                }
            }
            if material.estimate(&shorter) > goal(before) {
                // What is bulky in the last answers as well, but for the newest.
                let tighter = Reach { protect: 0, ..reach };
                if let Some(view) = self.shortened(&shorter, tighter).await {
                    how = how.or(Some(CompactionHow::Results));
                    shorter = view;
                }
            }
            // The model has not seen the newest results yet: it gets as much of them
            // as fits.
            if material.estimate(&shorter) > fits && reach.protect_newest {
                let over = material.over(&shorter, fits);
                if let Some(view) = self.newest_shortened(&shorter, over).await {
                    how = how.or(Some(CompactionHow::Results));
                    shorter = view;
                }
            }
        }
        if cancel.is_cancelled() {
            self.tell_compaction(unchanged(cause, before, "it was interrupted"));
            return false;
        }
        if cause == CompactionCause::Overflow && material.estimate(&shorter) > fits {
            // The last resort: no model, one answer, no result in full.
            reach = Reach { protect: 0, protect_newest: false, ..reach };
            material = self.material(reach).await;
            let split = Split::by_size(&material.short, material.active, 0, 1);
            if let Some(split) = split {
                let view = self.mechanically(&material, split);
                if material.estimate(&view) < material.estimate(&shorter) {
                    (shorter, how) = (view, Some(CompactionHow::Mechanical));
                }
            } else if material.estimate(&material.short) < material.estimate(&shorter) {
                shorter = material.short.clone();
                how = Some(CompactionHow::Results);
            }
        }
        let after = material.estimate(&shorter);
        let Some(how) = how.filter(|_| invariants::structure(&contents_of(&shorter)).is_none())
        else {
            self.compacting.next_at = before + mark / 4;
            let why =
                format!("{NOTHING_TO_COMPRESS} The history is short, or all of it is recent.");
            self.tell_compaction(unchanged(cause, before, &why));
            return false;
        };
        if after > goal(before) && remark.is_none() {
            let fixed = material.fixed * 100 / before.max(1);
            remark = Some(format!(
                "the system prompt and the tools are {fixed} % of it; the prompt, the last answers \
                 and the newest result stay whole"
            ));
        }
        self.take(shorter, how, before, after);
        self.compacting.learn(cause, (before, after), mark, window);
        self.tell_above(cause, after, mark);
        self.tell_compaction(Compaction { cause, how: Some(how), before, after, remark });
        true
    }

    fn take(&mut self, view: Vec<Entry>, how: CompactionHow, before: u64, after: u64) {
        let job = self.compacting.job.take();
        self.history.compact(view, how, before, after);
        // What an account covers is still there where only results became short.
        self.compacting.job = job.filter(|_| how == CompactionHow::Results).map(|mut job| {
            job.epoch = self.history.epoch();
            job
        });
        self.forget_lost_context();
        self.tell_trouble();
    }

    /// Context of folders that the history no longer holds may be told again.
    pub(crate) fn forget_lost_context(&self) {
        if let Some(context) = &self.folder_context {
            context.keep_what_is_in(&contents_of(self.history.view()));
        }
    }

    /// Shortens old results alone, once they are many.
    async fn shorten_old(&mut self, mark: u64) {
        let reach = self.compacting.room.reach(mark);
        let material = self.material(reach).await;
        let (before, after) = (material.before, material.estimate(&material.short));
        if !is_gain(before, after) {
            return;
        }
        self.take(material.short, CompactionHow::Results, before, after);
        self.tell_compaction(Compaction {
            cause: CompactionCause::Threshold,
            how: Some(CompactionHow::Results),
            before,
            after,
            remark: (after > goal(before)).then(|| {
                format!(
                    "only results before the newest {} tokens of them were shortened; no account \
                     is needed yet",
                    reach.protect
                )
            }),
        });
    }

    /// Gathers what a compaction needs; the cheap pass is in it.
    async fn material(&mut self, reach: Reach) -> Material {
        let model = self.main_model();
        let ContextUsed { tokens: before, window } = self.context(&model);
        let fixed = self.fixed_tokens();
        let view = self.history.view().to_vec();
        let kinds = self.registry.kinds();
        let short = self.shortened(&view, reach).await;
        let active =
            self.prompts.marks().last().and_then(|mark| {
                view.iter().position(|entry| entry.origin.place() == Some(mark.at))
            });
        Material {
            short: short.unwrap_or_else(|| view.clone()),
            view,
            kinds,
            active,
            fixed,
            before,
            window,
        }
    }

    /// The view with shorter results; `None` when there is nothing to shorten.
    async fn shortened(&mut self, view: &[Entry], reach: Reach) -> Option<Vec<Entry>> {
        let keep_output = self.compacting.room.keep_output.clone();
        let (entries, kinds) = (view.to_vec(), self.registry.kinds());
        let pins = self.history.pins().clone();
        let shortening = tokio::task::spawn_blocking(move || {
            shorten::shorten(&entries, reach, &kinds, &pins, keep_output.as_ref())
        });
        self.inbox.during(shortening).await.ok().flatten()
    }

    /// The view with so much less of the newest results; `None` when there is nothing
    /// to shorten.
    async fn newest_shortened(&mut self, view: &[Entry], over: u64) -> Option<Vec<Entry>> {
        let keep_output = self.compacting.room.keep_output.clone();
        let (entries, kinds) = (view.to_vec(), self.registry.kinds());
        let pins = self.history.pins().clone();
        let shortening = tokio::task::spawn_blocking(move || {
            shorten::shorten_newest(&entries, over, &kinds, &pins, keep_output.as_ref())
        });
        self.inbox.during(shortening).await.ok().flatten()
    }

    /// The view with an account, how that was made, and what to say of it.
    async fn with_account(
        &mut self,
        material: &Material,
        split: Option<Split>,
        focus: Option<String>,
        model: &str,
        cancel: &CancellationToken,
    ) -> Option<(Vec<Entry>, CompactionHow, Option<String>)> {
        let ahead = match self.compacting.job.take() {
            Some(job) if focus.is_none() && job.epoch == self.history.epoch() => {
                self.written(job, material, cancel).await
            }
            _ => None,
        };
        let (split, snapshot) = match ahead {
            Some((split, snapshot)) => (split, Ok(snapshot)),
            None => {
                let split = split?;
                let order = self.order(material, split, focus, model);
                let writing = snapshot::write(&order, cancel);
                (split, self.inbox.during(until(writing, cancel)).await)
            }
        };
        match snapshot {
            Ok(snapshot) => {
                let facts = self.facts(material, split);
                let view = account::replace(&material.short, split, &facts, &snapshot);
                Some((view, CompactionHow::Snapshot, None))
            }
            Err(_) if cancel.is_cancelled() => None,
            Err(why) => {
                let remark = format!("the model wrote no account ({why}); the program did");
                Some((self.mechanically(material, split), CompactionHow::Mechanical, Some(remark)))
            }
        }
    }

    /// What the model is asked for. It gets the results in full where they fit.
    fn order(
        &self,
        material: &Material,
        split: Split,
        focus: Option<String>,
        model: &str,
    ) -> snapshot::Order {
        let name = self.model.utility(snapshot::ROLE, model);
        let window = self.model.limits(&name).context;
        let characters = usize::try_from(window / 2).unwrap_or(usize::MAX).saturating_mul(3);
        let whole = material.view.iter().take(split.tail);
        snapshot::Order {
            model: Arc::new(
                Metered::new(Arc::clone(&self.model), self.hub.clone())
                    .counted(self.budget.ledger()),
            ),
            name,
            alias: self.model.utility_alias(snapshot::ROLE, model),
            transcript: transcript::transcript(whole, characters),
            limit: material.account_limit(split),
            focus,
            probe: self.compacting.room.probe,
        }
    }

    fn mechanically(&self, material: &Material, split: Split) -> Vec<Entry> {
        let calls = calls::answered(material.view.iter().map(|entry| &entry.content));
        let characters = usize::try_from(material.account_limit(split)).unwrap_or(usize::MAX);
        let account = account::mechanical(
            &material.view,
            split,
            &calls,
            characters.saturating_mul(3).max(600),
        );
        let facts = self.facts(material, split);
        account::replace(&material.short, split, &facts, &account)
    }

    /// What the program knows word for word, from the whole session.
    fn facts(&self, material: &Material, split: Split) -> Facts {
        let calls: Vec<Answered> = calls::answered(self.history.contents().iter());
        let changes = |name: &str| {
            matches!(material.kinds.get(name), Some(ToolKind::Edit | ToolKind::Delete))
        };
        let files = calls::files(&calls, changes);
        let held = Held {
            pins: self.history.pins(),
            characters: usize::try_from(material.window).unwrap_or(usize::MAX),
        };
        let facts =
            Facts::gather(&material.view, split, self.prompts.marks(), &calls, files, &held);
        facts.with_plan(self.plan())
    }
}

fn unchanged(cause: CompactionCause, tokens: u64, why: &str) -> Compaction {
    Compaction { cause, how: None, before: tokens, after: tokens, remark: Some(why.to_owned()) }
}
