//! Processes the output of a command: text for the model, a copy on disk, live output for
//! display.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::capture::{Capture, CaptureLimits, CapturedText, TailBuffer};
use crate::output_file::{LimitBehavior, OutputFile, OutputFileWriter};
use crate::terminal::Emulator;
use crate::terminal_size::TerminalSize;
use crate::text::{ControlStripper, TextFilter, Utf8Decoder};
use parallax_protocol::secret::Redact;
use parallax_protocol::shell::Screen;

/// Interval over which live output is merged.
const LIVE_EVERY: Duration = Duration::from_millis(100);
/// Maximum number of bytes of pending live output, and of the colored copy.
const LIVE_LIMIT: usize = 100_000;
/// Number of bytes that are checked for binary output.
const SNIFF_BYTES: usize = 4096;
/// Maximum size of a background process log.
const LOG_LIMIT: u64 = 16 * 1024 * 1024;

/// The bounded output of a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Output {
    /// The text: all of it, or its beginning and end.
    pub captured: CapturedText,
    /// Number of bytes that the command wrote.
    pub bytes: u64,
    /// Whether the output is binary, in which case no text is kept.
    pub binary: bool,
    /// The file with the full output, if it is not kept in memory.
    pub file: Option<OutputFile>,
    /// The end of the text with its colors, if requested.
    pub colored: Option<String>,
}

pub(crate) struct OutputSink {
    reader: OutputReader,
    capture: Capture,
    copy: Option<OutputFileWriter>,
    copying: bool,
    log: Option<OutputFileWriter>,
    /// When to flush the log next.
    log_due: Option<Instant>,
    sniffer: Sniffer,
    bytes: u64,
    live: LiveBuffer,
    colored: Option<TailBuffer>,
    redact: Option<Arc<dyn Redact>>,
    text: String,
}

enum OutputReader {
    Stream { filter: TextFilter, decoder: Utf8Decoder },
    Screen(Box<Emulator>),
}

impl OutputReader {
    fn stream() -> Self {
        Self::Stream { filter: TextFilter::default(), decoder: Utf8Decoder::default() }
    }
}

impl OutputSink {
    pub(crate) fn new(
        limits: CaptureLimits,
        copy: Option<(PathBuf, u64)>,
        terminal: Option<TerminalSize>,
        color: bool,
    ) -> Self {
        let reader = match terminal {
            Some(size) => OutputReader::Screen(Box::new(Emulator::new(size))),
            None => OutputReader::stream(),
        };
        Self {
            sniffer: Sniffer { terminal: terminal.is_some(), ..Sniffer::default() },
            reader,
            capture: Capture::new(limits),
            copy: copy.map(|(path, limit)| OutputFileWriter::new(path, limit, LimitBehavior::Stop)),
            copying: false,
            log: None,
            log_due: None,
            bytes: 0,
            live: LiveBuffer::new(color),
            colored: color.then(|| TailBuffer::new(LIVE_LIMIT)),
            redact: None,
            text: String::new(),
        }
    }

    /// Sets the redactor for text that is written to files.
    pub(crate) fn with_redactor(mut self, redact: Option<Arc<dyn Redact>>) -> Self {
        self.copy = self.copy.map(|copy| copy.with_redactor(redact.clone()));
        self.redact = redact;
        self
    }

    pub(crate) async fn accept(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if self.log.is_some() && self.log_due.is_none() {
            self.log_due = Some(Instant::now() + LIVE_EVERY);
        }
        if self.sniffer.binary {
            return;
        }
        if self.sniffer.check(bytes) {
            self.capture.clear();
            if let Some(colored) = &mut self.colored {
                colored.take();
            }
            self.live.push_note("[Binary output detected; not shown]\n");
            return;
        }
        self.live.push(bytes);
        let mut text = std::mem::take(&mut self.text);
        match &mut self.reader {
            OutputReader::Stream { filter, decoder } => {
                filter.push(bytes, &mut text);
                if let Some(colored) = &mut self.colored {
                    decoder.push(bytes, &mut |piece| colored.push(piece));
                }
            }
            OutputReader::Screen(emulator) => {
                emulator.process(bytes);
                emulator.take_rows(&mut text, self.colored.as_mut());
            }
        }
        self.store_text(&text).await;
        text.clear();
        self.text = text;
    }

    /// Stores final text in memory, copy, and log.
    async fn store_text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if let Some(log) = &mut self.log {
            log.append(text).await;
        }
        if self.copying {
            self.capture.push(text);
            if let Some(copy) = &mut self.copy {
                copy.append(text).await;
            }
            return;
        }
        // The copy starts when memory no longer holds everything, with all text so far.
        self.capture.push_untrimmed(text);
        if self.capture.is_truncated() {
            self.copying = true;
            if let Some(copy) = &mut self.copy {
                for piece in self.capture.pieces() {
                    copy.append(piece).await;
                }
            }
            self.capture.trim();
        }
    }

    /// Resizes the terminal; returns the size for the command.
    pub(crate) fn resize(&mut self, size: TerminalSize) -> TerminalSize {
        match &mut self.reader {
            OutputReader::Screen(emulator) => emulator.resize(size),
            _ => size,
        }
    }

    /// Writes all text to a log from now on, starting with the captured text.
    pub(crate) async fn start_log(&mut self, path: PathBuf) {
        self.flush_all().await;
        let mut log = OutputFileWriter::new(path, LOG_LIMIT, LimitBehavior::KeepNewest)
            .with_redactor(self.redact.clone());
        let captured = self.capture.captured_text();
        log.append(&captured.head).await;
        if let Some(tail) = &captured.tail {
            let omitted = captured.omitted_characters;
            log.append(&format!("\n[{omitted} characters omitted]\n")).await;
            log.append(tail).await;
        }
        if !captured.head.is_empty() {
            log.append("\n").await;
        }
        log.create().await;
        self.log = Some(log);
        self.live.stop();
    }

    /// Returns the path of the log, if there is one.
    pub(crate) fn log(&self) -> Option<&std::path::Path> {
        self.log.as_ref().map(OutputFileWriter::path)
    }

    /// Stops the copy on disk.
    pub(crate) fn stop_copy(&mut self) {
        self.copy = None;
    }

    /// Like [`OutputSink::start_log`], but only with later text.
    pub(crate) async fn start_log_at_end(&mut self, path: PathBuf) {
        self.stop_copy();
        self.capture.clear();
        self.start_log(path).await;
    }

    /// Flushes the log, which is read while it grows.
    pub(crate) async fn flush_log(&mut self) {
        if self.log.is_none() || self.log_due.is_none_or(|due| due > Instant::now()) {
            return;
        }
        self.log_due = None;
        let mut text = String::new();
        if let OutputReader::Stream { filter, .. } = &mut self.reader {
            filter.flush_line(&mut text);
        }
        self.store_text(&text).await;
        if let Some(log) = &mut self.log {
            log.flush_lines().await;
        }
    }

    /// Returns when live output or the log is due next.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        if self.log.is_some() { self.log_due } else { self.live.due_at() }
    }

    /// Returns live output, if it is due.
    pub(crate) fn take_due_live_output(&mut self) -> Option<String> {
        let due = self.live.due_at()?;
        (due <= Instant::now()).then(|| self.live.take())
    }

    /// Returns the current terminal screen, if there is one.
    pub(crate) fn screen(&self) -> Option<Screen> {
        match &self.reader {
            OutputReader::Screen(emulator) if !self.sniffer.binary => {
                Some(emulator.screen(self.colored.is_some()))
            }
            _ => None,
        }
    }

    /// Returns the remaining live output.
    pub(crate) fn take_remaining_live_output(&mut self) -> Option<String> {
        self.live.due_at()?;
        Some(self.live.take())
    }

    /// Moves everything held back into the capture. Later output is treated as a plain stream.
    async fn flush_all(&mut self) {
        let mut text = String::new();
        let colored = self.colored.as_mut();
        match &mut self.reader {
            OutputReader::Stream { filter, .. } => filter.flush_line(&mut text),
            OutputReader::Screen(emulator) => {
                emulator.finish(&mut text, colored);
                self.reader = OutputReader::stream();
            }
        }
        self.store_text(&text).await;
    }

    /// Finishes the output.
    pub(crate) async fn finish(&mut self) -> Output {
        if !self.sniffer.binary && self.sniffer.sniff_all() {
            self.capture.clear();
        }
        if let OutputReader::Stream { filter, .. } = &mut self.reader
            && !self.sniffer.binary
        {
            let mut text = String::new();
            filter.finish(&mut text);
            self.store_text(&text).await;
        }
        self.snapshot().await
    }

    /// Returns the output so far.
    pub(crate) async fn snapshot(&mut self) -> Output {
        if self.sniffer.binary {
            return Output { bytes: self.bytes, binary: true, ..Output::default() };
        }
        self.flush_all().await;
        for recorder in self.copy.iter_mut().chain(self.log.iter_mut()) {
            recorder.flush().await;
        }
        Output {
            captured: self.capture.captured_text(),
            bytes: self.bytes,
            binary: false,
            file: self.copy.as_ref().and_then(OutputFileWriter::file),
            colored: self.colored.as_mut().map(TailBuffer::take),
        }
    }
}

/// Checks whether the beginning of an output is text. Text may contain a few NUL characters (`find
/// -print0`), but not many, and not together with other non-text bytes.
#[derive(Debug, Default)]
struct Sniffer {
    terminal: bool,
    head: Vec<u8>,
    binary: bool,
}

/// Minimum number of bytes before running output is classified as binary.
const MIN_SNIFF_BYTES: usize = 512;

impl Sniffer {
    /// Checks more bytes; returns true once they are known to be binary.
    fn check(&mut self, bytes: &[u8]) -> bool {
        let room = SNIFF_BYTES.saturating_sub(self.head.len());
        if room > 0 {
            self.head.extend_from_slice(bytes.get(..bytes.len().min(room)).unwrap_or_default());
            self.binary = self.head.len() >= MIN_SNIFF_BYTES && self.is_binary();
        }
        self.binary
    }

    /// Checks all bytes at the end.
    fn sniff_all(&mut self) -> bool {
        self.binary |= self.is_binary();
        self.binary
    }

    fn is_binary(&self) -> bool {
        let zeros = self.head.iter().filter(|byte| **byte == 0).count();
        // Programs pad with NUL bytes for slow terminals, so a few of them are ignored there.
        if self.terminal || zeros == 0 {
            return self.terminal && zeros * 10 > self.head.len();
        }
        let controls = self.head.iter().filter(|byte| matches!(byte, 1..=6 | 14..=26 | 28..=31));
        let is_cut = |error: std::str::Utf8Error| error.error_len().is_none();
        let is_utf8 = std::str::from_utf8(&self.head).map_or_else(is_cut, |_| true);
        !is_utf8 || zeros * 2 > self.head.len() || controls.count() * 20 > self.head.len()
    }
}

struct LiveBuffer {
    decoder: Utf8Decoder,
    /// `None` if colors are shown.
    stripper: Option<ControlStripper>,
    pending: TailBuffer,
    last: Option<Instant>,
    is_enabled: bool,
}

impl LiveBuffer {
    fn new(color: bool) -> Self {
        Self {
            decoder: Utf8Decoder::default(),
            stripper: (!color).then(ControlStripper::default),
            pending: TailBuffer::new(LIVE_LIMIT),
            last: None,
            is_enabled: true,
        }
    }

    fn stop(&mut self) {
        self.is_enabled = false;
        self.pending.take();
    }

    fn push(&mut self, bytes: &[u8]) {
        if !self.is_enabled {
            return;
        }
        let Self { decoder, stripper, pending, .. } = self;
        decoder.push(bytes, &mut |text| match stripper {
            Some(stripper) => stripper.push(text, &mut |piece| pending.push(piece)),
            None => pending.push(text),
        });
    }

    fn push_note(&mut self, text: &str) {
        if self.is_enabled {
            self.pending.push(text);
        }
    }

    fn due_at(&self) -> Option<Instant> {
        if self.pending.is_empty() {
            return None;
        }
        Some(self.last.map_or_else(Instant::now, |last| last + LIVE_EVERY))
    }

    fn take(&mut self) -> String {
        self.last = Some(Instant::now());
        self.pending.take()
    }
}
