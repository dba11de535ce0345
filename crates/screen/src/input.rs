//! Terminal input: a thread that reads the terminal, and the receiving end for the interface.
//!
//! The thread sleeps in `poll` until there are bytes; a timer runs only while a sequence is
//! unfinished. When the queue is full it stops reading, so that keys wait in the kernel and none is
//! lost.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::burst::KeyBurst;
use crate::decode::{Decoder, DecoderOptions};
use crate::key::InputEvent;
use crate::shared::SharedScreen;

const READ_SIZE: usize = 16 << 10;

/// The receiving end of input events.
#[derive(Debug)]
pub struct Input {
    shared: Arc<SharedScreen>,
    /// Missing outside a tokio runtime: size changes are then noticed when a frame is drawn.
    window_changes: Option<Signal>,
    continues: Option<Signal>,
    /// When the last event arrived.
    last_event: Instant,
}

impl Input {
    pub(crate) fn new(shared: Arc<SharedScreen>) -> Self {
        let listen =
            |kind| tokio::runtime::Handle::try_current().ok().and_then(|_| signal(kind).ok());
        Self {
            shared,
            window_changes: listen(SignalKind::window_change()),
            // SIGCONT: the program continues after it was stopped.
            continues: listen(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw())),
            last_event: Instant::now(),
        }
    }

    /// Returns the next event, or `None` after [`InputEvent::Closed`]. Cancel safe: no event is
    /// lost.
    pub async fn next(&mut self) -> Option<InputEvent> {
        loop {
            if let Some(event) = self.try_next() {
                return Some(event);
            }
            if self.shared.terminal.has_ended() {
                return None;
            }
            let settles = self.shared.terminal.resize_deadline();
            tokio::select! {
                biased;
                () = self.shared.terminal.reply_arrived.notified() => {}
                Some(()) = next(&mut self.window_changes) => self.shared.terminal.mark_window_changed(),
                Some(()) = next(&mut self.continues) => {
                    if self.shared.terminal.was_stopped_by_others() {
                        return Some(InputEvent::Resumed);
                    }
                }
                () = wait_until(settles) => self.shared.terminal.resize_overdue(),
            }
        }
    }

    /// Returns the next event if there is one.
    pub fn try_next(&mut self) -> Option<InputEvent> {
        let (event, came) = self.shared.terminal.take_event()?;
        self.last_event = came;
        Some(event)
    }

    /// Returns when the latest event was read from the terminal; it may have waited in the queue.
    /// Typing speed must be measured with this time.
    pub fn event_time(&self) -> Instant {
        self.last_event
    }
}

async fn next(signal: &mut Option<Signal>) -> Option<()> {
    match signal {
        Some(signal) => signal.recv().await,
        None => std::future::pending().await,
    }
}

async fn wait_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

/// The reading thread.
#[derive(Debug)]
pub(crate) struct InputThread {
    shared: Arc<SharedScreen>,
    thread: Option<JoinHandle<()>>,
}

impl InputThread {
    pub fn start(
        shared: &Arc<SharedScreen>,
        wakes: OwnedFd,
        options: DecoderOptions,
        early: usize,
    ) -> io::Result<Self> {
        let for_thread = Arc::clone(shared);
        let thread = std::thread::Builder::new()
            .name("terminal input".to_owned())
            .spawn(move || read(&for_thread, &wakes, Decoder::new(options), early))?;
        Ok(Self { shared: Arc::clone(shared), thread: Some(thread) })
    }
}

impl Drop for InputThread {
    fn drop(&mut self) {
        self.shared.terminal.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Reads until stopped. `early` is how many bytes were typed before raw mode.
fn read(shared: &SharedScreen, wakes: &OwnedFd, mut decoder: Decoder, mut early: usize) {
    let mut buffer = vec![0; READ_SIZE];
    let mut decoded = Vec::new();
    let mut burst = KeyBurst::default();
    let mut waiting_since = Instant::now();
    while let Some(may_read) = shared.terminal.wait_for_turn() {
        let now = Instant::now();
        let unfinished = decoder.wait_time().map(|wait_time| {
            wait_time.saturating_sub(now.saturating_duration_since(waiting_since))
        });
        if unfinished == Some(Duration::ZERO) {
            decoder.give_up(&mut decoded);
            burst.take(&mut decoded, now);
            shared.deliver(&mut decoded);
            continue;
        }
        let held = burst.wait_time(now);
        if held == Some(Duration::ZERO) {
            burst.end(&mut decoded);
            shared.deliver(&mut decoded);
            continue;
        }
        let remaining = unfinished.into_iter().chain(held).min();
        let tty = shared.terminal.tty.input();
        let mut fds = vec![PollFd::new(wakes, PollFlags::IN)];
        if may_read {
            fds.push(PollFd::new(&tty, PollFlags::IN));
        }
        match poll(&mut fds, remaining.map(timespec).as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return shared.terminal.end(),
        }
        let ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
        let (woken, readable) = (ready(0), ready(1));
        if woken {
            let _ = rustix::io::read(wakes, &mut [0_u8; 64]);
        }
        if !readable || shared.terminal.is_paused() {
            continue;
        }
        match rustix::io::read(tty.as_fd(), &mut buffer) {
            Ok(0) => return shared.terminal.end(),
            Ok(length) => {
                for byte in buffer.iter_mut().take(length.min(early)) {
                    // This was Enter before the terminal translated it to a line feed.
                    if *byte == b'\n' {
                        *byte = b'\r';
                    }
                }
                early = early.saturating_sub(length);
                (decoder.cursor_reports, decoder.awaits_graphics) =
                    shared.terminal.expected_replies();
                decoder.feed(buffer.get(..length).unwrap_or_default(), &mut decoded);
                waiting_since = Instant::now();
                burst.take(&mut decoded, waiting_since);
                shared.deliver(&mut decoded);
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return shared.terminal.end(),
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    // Rounded up, so that the time has passed when `poll` returns.
    let duration = duration + Duration::from_millis(1);
    Timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
